"""Everything that draws: pages of runs, model cards, curves, pictures of alignments."""

from regard.report.alignment import AlignmentPicture, to_html, to_svg
from regard.report.card import CardData, render_card
from regard.report.contents import Facts, ReportData, Sample, SetScore, TrainingPoint, ValidationPoint
from regard.report.curves import Chart, Series, line_chart
from regard.report.log import LogHistory, LogSample, read_log
from regard.report.page import render_report
from regard.report.terminal import to_text
from regard.report.width import display_width, wrap

__all__ = [
    "AlignmentPicture",
    "CardData",
    "Chart",
    "Facts",
    "LogHistory",
    "LogSample",
    "ReportData",
    "Sample",
    "Series",
    "SetScore",
    "TrainingPoint",
    "ValidationPoint",
    "display_width",
    "line_chart",
    "read_log",
    "render_card",
    "render_report",
    "to_html",
    "to_svg",
    "to_text",
    "wrap",
]
