"""Files to examples, examples to a store, a store to batches. Nothing that is exported here needs torch."""

from regard.data.batches import BatchOrder, Cursor, deal, epoch_order, plan_epoch
from regard.data.check import check_files
from regard.data.checkreport import CheckReport, FileReport, Issue, LengthStatistics, Overlap, SideReport, render
from regard.data.example import Example, Place
from regard.data.excerpt import excerpt
from regard.data.formats import Column, DetectedFormat, Format, detect_format
from regard.data.ledger import Finding, Ledger
from regard.data.lines import BadLine, RawLine, decode, read_lines, read_raw_lines
from regard.data.preparation import prepare
from regard.data.readers import read_examples
from regard.data.split import Split, split_off
from regard.data.store import Store, cache_folder, store_key

__all__ = [
    "BadLine",
    "BatchOrder",
    "CheckReport",
    "Column",
    "Cursor",
    "DetectedFormat",
    "Example",
    "FileReport",
    "Finding",
    "Format",
    "Issue",
    "Ledger",
    "LengthStatistics",
    "Overlap",
    "Place",
    "RawLine",
    "SideReport",
    "Split",
    "Store",
    "cache_folder",
    "check_files",
    "deal",
    "decode",
    "detect_format",
    "epoch_order",
    "excerpt",
    "plan_epoch",
    "prepare",
    "read_examples",
    "read_lines",
    "read_raw_lines",
    "render",
    "split_off",
    "store_key",
]
