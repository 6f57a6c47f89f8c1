"""The kinds of judgement: what an annotator is asked, and what an answer may be.

A judgement is about the outputs that a task shows, in the order in which it shows them: an answer knows positions,
never systems. Answers are plain JSON, so that a file of them can be read anywhere.
"""

from typing import Final, Literal, get_args

from regard.errors import DataError

Kind = Literal["adequacy-fluency", "direct", "pairwise", "ranking"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MOST_RANKED: Final = 5
CHOICES: Final = ("first", "second", "equal")
SCALES: Final[dict[Kind, tuple[str, ...]]] = {"adequacy-fluency": ("adequacy", "fluency"), "direct": ("score",)}
"""What a single output is judged by."""

LIMITS: Final = {"adequacy": (1, 5), "fluency": (1, 5), "score": (0, 100)}

Answer = dict[str, int | str | list[int]]


def compares(kind: Kind) -> bool:
    """Whether outputs are judged against each other, not each by itself."""
    return kind not in SCALES


def checked_answer(kind: Kind, shown: int, answer: object) -> Answer:
    """The answer to a task that shows so many outputs, or what is wrong with it."""
    if not isinstance(answer, dict) or not all(isinstance(key, str) for key in answer):
        raise DataError(f"answer: is {_told(answer)}; a judgement of kind {kind} is {_wanted(kind, shown)}")
    match kind:
        case "pairwise":
            right = set(answer) == {"choice"} and answer["choice"] in CHOICES
        case "ranking":
            right = set(answer) == {"ranks"} and _ranks(answer["ranks"], shown)
        case _:
            right = set(answer) == set(SCALES[kind]) and all(
                _whole(answer[scale]) and LIMITS[scale][0] <= answer[scale] <= LIMITS[scale][1]
                for scale in SCALES[kind]
            )
    if not right:
        raise DataError(f"answer: is {_told(answer)}; a judgement of kind {kind} is {_wanted(kind, shown)}")
    return dict(answer)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ranks(value: object, shown: int) -> bool:
    return (
        isinstance(value, list) and len(value) == shown and all(_whole(each) and 1 <= each <= shown for each in value)
    )


def _wanted(kind: Kind, shown: int) -> str:
    match kind:
        case "pairwise":
            return '{"choice": "first", "second" or "equal"}'
        case "ranking":
            return f'{{"ranks": [{shown} whole numbers from 1 (best) to {shown}, ties allowed]}}'
        case _:
            return "{" + ", ".join(f'"{each}": {LIMITS[each][0]} to {LIMITS[each][1]}' for each in SCALES[kind]) + "}"


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
