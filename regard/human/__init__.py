"""Human evaluation: campaigns, the page that annotators see, and what their answers say."""

from regard.human.answers import Answers, Judgement, read_answers
from regard.human.campaign import Campaign, answers_path, read_campaign, write_campaign
from regard.human.kinds import KINDS, Kind
from regard.human.planning import Plan, make_campaign

__all__ = [
    "KINDS",
    "Answers",
    "Campaign",
    "Judgement",
    "Kind",
    "Plan",
    "answers_path",
    "make_campaign",
    "read_answers",
    "read_campaign",
    "write_campaign",
]
