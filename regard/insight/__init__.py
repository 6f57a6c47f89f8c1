"""What can be seen: values inside a running model, and attention read as an alignment."""

from regard.insight.alignment import Aligned, Reading, best_reading, by_words, cross_attention, links, read, readings
from regard.insight.capture import Capture, capture

__all__ = [
    "Aligned",
    "Capture",
    "Reading",
    "best_reading",
    "by_words",
    "capture",
    "cross_attention",
    "links",
    "read",
    "readings",
]
