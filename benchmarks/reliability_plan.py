"""What is promised, and how often each part of it is tried: the plan that `benchmarks/reliability.py` holds."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of fault. `asked` says how many of what its tests must have counted together."""

    name: str
    tried: str
    holds: str
    asked: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a user can rely on, in a sentence, and the rows that hold it."""

    name: str
    title: str
    text: str
    rows: tuple[str, ...]


ROWS: tuple[Row, ...] = (
    Row(
        name="R1",
        tried="`kill -9` at random steps of trainings of every kind, then going on",
        holds="every loss and every bit of the last checkpoint as without the kills",
        asked={"kills": 36, "losses_compared": 2400},
    ),
    Row(
        name="R2a",
        tried="`kill -9` at random moments of saving",
        holds="the newest checkpoint is at least the last one acknowledged, whole; nothing half-written stays",
        asked={"kills": 200},
    ),
    Row(
        name="R2b",
        tried="a power cut before every call of a save, a deletion, a fresh start; what was not synced is kept, lost "
        "or cut at random",
        holds="the old checkpoint or the new one, never a mixture, never none",
        asked={"states": 360},
    ),
    Row(
        name="R3",
        tried="a full disk, a limit on file sizes, a disk that becomes read-only, errors of the disk at every call",
        holds="exit code 7, the bytes that are needed, the checkpoint before intact; with room again the same training",
        asked={"points": 30},
    ),
    Row(
        name="R4",
        tried="a flipped bit or a lost end at a random place of the newest checkpoint",
        holds="noticed, told, and the one before it is taken",
        asked={"damages_detected": 300},
    ),
    Row(
        name="R5",
        tried="two trainers on one run folder; a lock that a killed process left",
        holds="the second leaves with code 8 and names the first; a dead process holds nothing",
        asked={"second_trainers_refused": 20, "stale_locks_recovered": 20},
    ),
    Row(
        name="R6",
        tried="SIGTERM, SIGINT and SIGUSR1, once and twice, at random moments, in validation and in a save, too",
        holds="saved, exit code 143, 130 or 138 within 5 s, and an exact resume",
        asked={"signals": 40},
    ),
    Row(
        name="R7",
        tried="one of two workers is killed",
        holds="the training restarts and ends with the weights of the unbroken one",
        asked={"kills": 5},
    ),
    Row(
        name="R8",
        tried="another number of workers in the middle of a training, with the same global batch",
        holds="no example lost or repeated, the same losses but for rounding",
        asked={"changes": 4},
    ),
    Row(
        name="R9",
        tried="the order of the data over three epochs, interrupted, with any number of readers",
        holds="each example exactly once an epoch, in the order of the unbroken run",
        asked={"ids_seen": 300_000, "interruptions": 30},
    ),
    Row(
        name="N1",
        tried="NaN and infinity in loss, gradient, weights and data; batches that are empty or all padding; labels out "
        "of range",
        holds="no such number in a saved model; left out and told, then exit code 6",
        asked={"injections": 16},
    ),
    Row(
        name="N2",
        tried="no memory in forward, backward, optimiser and reader",
        holds="the batch is split, or the training stops with code 7 and its state saved",
        asked={"injections": 12},
    ),
    Row(
        name="N3",
        tried="the same sentences in other batches, orders and numbers of threads, greedy and with a beam",
        holds="the same outputs, and scores, which are for each token, within 1e-5",
        asked={"translations": 25_000},
    ),
    Row(
        name="N4",
        tried="`score` on what `predict` gave; samples drawn again",
        holds="the same log-probability of a sentence within 1e-4; the same seed draws the same, another another",
        asked={"sentences": 500},
    ),
    Row(
        name="D1",
        tried="broken data files of many kinds in every format",
        holds="refused with file, line and remedy and exit code 4, or tolerated and counted; never a traceback",
        asked={"cases": 240},
    ),
    Row(
        name="D2",
        tried="random texts through tokenizers, recipes and the reader of lines",
        holds="back as they were, or refused in a sentence",
        asked={"examples": 20_000},
    ),
    Row(
        name="D3",
        tried="pipes: blank and bad lines, closed and endless ends",
        holds="one line in, one line out, in order",
        asked={"cases": 12},
    ),
    Row(
        name="D4",
        tried="very long files and very long lines",
        holds="memory does not grow with the file",
        asked={"lines": 200_000, "lines_of_ten_megabytes": 1},
    ),
)

PROMISES: tuple[Promise, ...] = (
    Promise(
        name="P1",
        title="Exact resume",
        text="A training that was interrupted, however and whenever, goes on to the same losses and the same weights, "
        "bit for bit, as one that was not: same machine, same torch, same numbers of threads and workers.",
        rows=("R1", "R6", "R7", "R9"),
    ),
    Promise(
        name="P2",
        title="Nothing acknowledged is lost",
        text="Once a step is told as saved, `kill -9`, a full disk or a power cut at any later instant still goes on "
        "from that step or a later one.",
        rows=("R2a", "R2b", "R3", "R5"),
    ),
    Promise(
        name="P3",
        title="Damage is noticed",
        text="A damaged checkpoint is told, set aside and never used; the one before it is.",
        rows=("R4",),
    ),
    Promise(
        name="P4",
        title="Signals save",
        text="SIGTERM, SIGINT and SIGUSR1 end a training within five seconds, its state saved.",
        rows=("R6",),
    ),
    Promise(
        name="P5",
        title="No NaN on disk",
        text="Numbers that are not finite never become the best or the last weights.",
        rows=("N1", "N2"),
    ),
    Promise(
        name="P6",
        title="One line in, one line out",
        text="In order, blank for blank; what is wrong with a file is told with its line, never dropped in silence.",
        rows=("D1", "D2", "D3", "D4"),
    ),
    Promise(
        name="P7",
        title="Company changes nothing",
        text="What a sentence gives does not depend on what is predicted beside it, in single precision; `score` says "
        "of an output what search said.",
        rows=("N3", "N4"),
    ),
)

EXIT_CODES: Mapping[str, str] = {
    "0": "done",
    "1": "a bug in regard; please report it",
    "2": "a call that makes no sense, or a folder that may not be written to",
    "3": "a recipe that cannot be read or cannot work",
    "4": "data that cannot be read as examples",
    "5": "a run folder, model or checkpoint that is missing, damaged or refused",
    "6": "training diverged",
    "7": "no room on the disk, a disk that fails or became read-only, or no memory",
    "8": "another process trains into this run folder",
    "9": "another process of the same training was lost",
    "130, 143, 138": "stopped by SIGINT, SIGTERM, SIGUSR1; the state is saved",
}

NOT_PROMISED: tuple[str, ...] = (
    "The same numbers on another machine, another release of torch, another thread count or another number of workers: "
    "torch itself does not give them. A run goes on there, too, from the same weights, but for rounding.",
    "Disks that lie: one that says that something is synced while it is not can lose it in a power cut. Damage is then "
    "noticed as any other, and the checkpoint before it is taken.",
    "File systems without locks (some network ones): a run folder there is refused, for two trainers in it could not "
    "be kept apart.",
    "Five seconds after a signal where one update, learning a vocabulary or writing a checkpoint takes longer: that is "
    "brought to its end first.",
    "`log.jsonl` after a power cut: lines since the last saved step may be missing.",
)

COMMANDS: tuple[str, ...] = (
    "make test          # the short ones, with all other tests",
    "make test-long     # those that take minutes",
    "make reliability   # both, counted, and this page written",
)

HOW = (
    "Faults are as real as a machine allows: processes are killed by the kernel, disks of 8 MB are mounted where that "
    "is allowed, limits are set by the kernel. Power cuts are simulated on a record of every call that changes a file; "
    "what the simulation leaves is compared with what a process that really ends there leaves."
)
