"""What can be seen: values inside a running model, and attention read as an alignment."""

from regard.insight.alignment import (
    Aligned,
    Reading,
    best_reading,
    by_words,
    cross_attention,
    in_reading_order,
    links,
    read,
    readings,
)
from regard.insight.capture import Capture, capture
from regard.insight.intervene import Change, Intervention, at_items, even, intervene, point, replace, silence

__all__ = [
    "Aligned",
    "Capture",
    "Change",
    "Intervention",
    "Reading",
    "at_items",
    "best_reading",
    "by_words",
    "capture",
    "cross_attention",
    "even",
    "in_reading_order",
    "intervene",
    "links",
    "point",
    "read",
    "readings",
    "replace",
    "silence",
]
