"""Everything that draws: pages of runs, model cards, curves, pictures of alignments."""

from regard.report.alignment import AlignmentPicture, to_html, to_svg
from regard.report.card import CardData, render_card
from regard.report.contents import (
    Caution,
    Early,
    Facts,
    ReportData,
    Sample,
    SetScore,
    Status,
    TrainingPoint,
    ValidationPoint,
)
from regard.report.curves import Chart, Series, line_chart
from regard.report.log import LogHistory, LogSample, read_log
from regard.report.markup import visible
from regard.report.page import render_report
from regard.report.terminal import to_text
from regard.report.width import display_width, shorten, wrap

__all__ = [
    "AlignmentPicture",
    "CardData",
    "Caution",
    "Chart",
    "Early",
    "Facts",
    "LogHistory",
    "LogSample",
    "ReportData",
    "Sample",
    "Series",
    "SetScore",
    "Status",
    "TrainingPoint",
    "ValidationPoint",
    "display_width",
    "line_chart",
    "read_log",
    "render_card",
    "render_report",
    "shorten",
    "to_html",
    "to_svg",
    "to_text",
    "visible",
    "wrap",
]
