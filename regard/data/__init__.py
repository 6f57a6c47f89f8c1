"""Files to examples, examples to a store, a store to batches. Nothing that is exported here needs torch.

Names are looked up when they are first used: who reads lines does not wait for stores.
"""

from typing import TYPE_CHECKING

from regard.lazy import look_up

if TYPE_CHECKING:
    from regard.data.batches import BatchOrder, Cursor, deal, epoch_order, plan_epoch
    from regard.data.check import check_files
    from regard.data.checkreport import CheckReport, FileReport, Issue, LengthStatistics, Overlap, SideReport, render
    from regard.data.example import Example, Place
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
    "plan_epoch",
    "prepare",
    "read_examples",
    "read_lines",
    "read_raw_lines",
    "render",
    "split_off",
    "store_key",
]

_HOMES = {
    "BadLine": "regard.data.lines",
    "BatchOrder": "regard.data.batches",
    "CheckReport": "regard.data.checkreport",
    "Column": "regard.data.formats",
    "Cursor": "regard.data.batches",
    "DetectedFormat": "regard.data.formats",
    "Example": "regard.data.example",
    "FileReport": "regard.data.checkreport",
    "Finding": "regard.data.ledger",
    "Format": "regard.data.formats",
    "Issue": "regard.data.checkreport",
    "Ledger": "regard.data.ledger",
    "LengthStatistics": "regard.data.checkreport",
    "Overlap": "regard.data.checkreport",
    "Place": "regard.data.example",
    "RawLine": "regard.data.lines",
    "SideReport": "regard.data.checkreport",
    "Split": "regard.data.split",
    "Store": "regard.data.store",
    "cache_folder": "regard.data.store",
    "check_files": "regard.data.check",
    "deal": "regard.data.batches",
    "decode": "regard.data.lines",
    "detect_format": "regard.data.formats",
    "epoch_order": "regard.data.batches",
    "plan_epoch": "regard.data.batches",
    "prepare": "regard.data.preparation",
    "read_examples": "regard.data.readers",
    "read_lines": "regard.data.lines",
    "read_raw_lines": "regard.data.lines",
    "render": "regard.data.checkreport",
    "split_off": "regard.data.split",
    "store_key": "regard.data.store",
}


def __getattr__(name: str) -> object:
    return look_up("regard.data", _HOMES, name)
