"""An engine file at work: requests in ids go in, the best outputs come out. Needs neither numpy nor torch.

The search is that of `regard.search` (see there for the definitions); a test holds both against each other. What a
sentence gives does not depend on what else is searched, on how many workers there are, or on their capacity.
"""

import ctypes
import os
import weakref
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from regard.engine.calling import SHORT, StopFlag, called, end_before_python
from regard.engine.library import KERNELS, MESSAGE, MISUSED, NO_MEMORY, STOPPED, Asked, AskedPairs, kernels_here, loaded
from regard.engine.requests import Answer, Attention, EngineOptions, EngineReading, EngineRequest, Found
from regard.errors import ModelError, ResourceError, UsageError

if TYPE_CHECKING:
    from regard.engine.constraints import Asking

CAPACITY: Final = 16
"""So many sentences run together in one worker: their states stay in the caches of a core."""

LARGE: Final = 16_000_000
LARGE_CAPACITY: Final = 24
"""Weights of files above so many bytes do not stay there, and are read for more sentences at once."""

WIDEST: Final = 64
"""The widest beam that the native search has room for."""

MOST_WORKERS: Final = 1024

LONGEST: Final = 65535
"""The most tokens of one output."""

MOST_IDS: Final = 2**31 - 1
MOST_SEEDS: Final = 2**64 - 1


def usual_workers() -> int:
    """One for each core that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


class Engine:
    """A prepared model. Many threads may search with one; the weights are shared and stay in the mapped file."""

    def __init__(self, path: str | Path, *, kernels: str = "") -> None:
        """`kernels` chooses others than the best of this processor, by name (see `library.kernels_here`)."""
        native = loaded()
        if native.library is None:
            raise ModelError(f"the native engine cannot be used: {native.reason}")
        self.library = native.library
        asked = kernels or os.environ.get(KERNELS, "")
        if asked and asked not in kernels_here():
            where = "" if kernels else f"{KERNELS}="
            raise UsageError(
                f"{where}{asked}: there are no such kernels here; there are {', '.join(kernels_here())}. Without it "
                "the first of them are used"
            )
        handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE)
        status = self.library.regard_open(os.fsencode(path), kernels.encode(), ctypes.byref(handle), message)
        if status:
            raise error_of(status, message)
        self.handle = handle
        self.path = Path(path)
        self.capacity = LARGE_CAPACITY if self.path.stat().st_size > LARGE else CAPACITY
        self._close = weakref.finalize(self, self.library.regard_close, handle)
        end_before_python()
        about = (ctypes.c_int64 * 6)()
        self.library.regard_about(handle, about)
        self.quantised = bool(about[0])
        self.source_vocabulary, self.target_vocabulary = int(about[1]), int(about[2])
        self.longest_source, self.longest = int(about[3]) or None, int(about[4]) or None
        heads = (ctypes.c_int64 * about[5])()
        self.library.regard_attention_heads(handle, heads)
        self.attention_heads = tuple(heads)
        """Heads of the attention of each decoder layer to the source; none where there is no such attention."""
        self.kernels: str = self.library.regard_kernels_of(handle).decode()

    def setting(self, name: str) -> float:
        """A number that the file holds beside the model."""
        value = ctypes.c_double()
        message = ctypes.create_string_buffer(MESSAGE)
        status = self.library.regard_setting(self.handle, name.encode(), ctypes.byref(value), message)
        if status:
            raise ModelError(f"{self.path}: {message.value.decode(errors='replace')}; prepare the run again")
        return value.value

    def search(
        self,
        requests: Sequence[EngineRequest],
        *,
        options: EngineOptions,
        workers: int | None = None,
        capacity: int | None = None,
    ) -> list[tuple[Found, ...]]:
        """The outputs of each request, in the order of the requests; all of them must be right.

        They stand best first, or as samples by their numbers.
        """
        answers = self.answer(requests, options=options, workers=workers, capacity=capacity)
        for answer in answers:
            if answer.fault:
                raise ModelError(answer.fault)
        return [answer.found for answer in answers]

    def answer(
        self,
        requests: Sequence[EngineRequest],
        *,
        options: EngineOptions,
        workers: int | None = None,
        capacity: int | None = None,
        stop: StopFlag | None = None,
    ) -> list[Answer]:
        """What was found for each request, in the order of the requests; a wrong one does not hinder the others.

        Alike lengths that stand together are searched fastest. Another thread may `stop` it.
        """
        if options.attention is not None:
            self._place(options.attention)  # before anything is searched in vain
        flag = StopFlag() if stop is None else stop
        asked = self._asked(requests, options, workers, capacity, flag)
        result = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE)
        asking = _asking(requests)
        asked.ask = None if asking is None else asking.address
        arguments = self.handle, ctypes.byref(asked), ctypes.byref(result), message
        short = asking is None and _tokens(requests, options) <= SHORT  # who is asked may take any time
        try:
            status = called(lambda: self.library.regard_search(*arguments), flag, short=short)
            if status and asking is not None and asking.errors:
                raise asking.errors[0]
            if status:
                raise error_of(status, message)
            answers = list(_answers(self.library, result, len(requests)))
        finally:
            self.library.regard_result_free(result)  # there is none yet where it was refused
        if options.attention is None:
            return answers
        pairs = [
            (request.ids, one.tokens if one.complete else one.tokens[:-1])
            for request, answer in zip(requests, answers, strict=True)
            for one in answer.found
        ]
        told = iter(self.attention(pairs, reading=options.attention, workers=workers, capacity=capacity, stop=flag))
        return [
            replace(answer, found=tuple(replace(one, attention=next(told)) for one in answer.found))
            for answer in answers
        ]

    def _asked(
        self,
        requests: Sequence[EngineRequest],
        options: EngineOptions,
        workers: int | None,
        capacity: int | None,
        flag: StopFlag,
    ) -> Asked:
        """What a search is asked for, as the library reads it; it holds what it points to."""
        ids, id_starts = joined([request.ids for request in requests])
        prefixes, prefix_starts = joined([request.prefix for request in requests])
        limits = array("q", [_limit(request) for request in requests])
        numbers = array("Q", [_number(request, place) for place, request in enumerate(requests)])
        constraints = array("Q", [_handle(request) for request in requests])
        starts = array("q", [0 if one.constraint is None else one.constraint.rules.start for one in requests])
        asked = Asked(
            requests=len(requests),
            capacity=self.capacity if capacity is None else capacity,
            workers=usual_workers() if workers is None else workers,
            ids=address(ids),
            id_starts=address(id_starts),
            prefixes=address(prefixes),
            prefix_starts=address(prefix_starts),
            limits=address(limits),
            beam=_bounded(options.beam),
            best=_bounded(options.best),
            min_length=_bounded(options.min_length),
            block_ngrams=_bounded(options.block_ngrams),
            length_penalty=options.length_penalty,
            gnmt=options.length_formula == "gnmt",
            unknown=options.unknown,
            early=options.stopping == "early",
            coverage_penalty=options.coverage_penalty,
            numbers=address(numbers),
            constraints=address(constraints) if any(constraints) else None,
            constraint_starts=address(starts),
            **_sampling(options),
        )
        asked.stop = flag.address
        asked.kept = (requests, ids, id_starts, prefixes, prefix_starts, limits, numbers, constraints, starts, flag)
        return asked

    def attention(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        reading: EngineReading,
        workers: int | None = None,
        capacity: int | None = None,
        stop: StopFlag | None = None,
    ) -> list[Attention]:
        """Attention of given outputs (without END) to their sources (with it), in one pass; all pairs must be right.

        Another thread may `stop` it.
        """
        layer, head = self._place(reading)
        ids, id_starts = joined([source for source, _ in pairs])
        targets, target_starts = joined([target for _, target in pairs])
        flag = StopFlag() if stop is None else stop
        asked = AskedPairs(
            pairs=len(pairs),
            capacity=self.capacity if capacity is None else capacity,
            workers=usual_workers() if workers is None else workers,
            ids=address(ids),
            id_starts=address(id_starts),
            targets=address(targets),
            target_starts=address(target_starts),
            layer=layer,
            head=head,
            stop=flag.address,
        )
        asked.kept = (ids, id_starts, targets, target_starts, flag)
        room = sum((len(target) + 1) * len(source) for source, target in pairs)
        fewer = "ask for the attention of fewer outputs at a time"
        try:
            weights = array("f", [0.0]) * room
            message = ctypes.create_string_buffer(MESSAGE)
            arguments = self.handle, ctypes.byref(asked), address(weights), room, message
            tokens = len(ids) + len(targets) + len(pairs)
            status = called(lambda: self.library.regard_attention(*arguments), flag, short=tokens <= SHORT)
            if status:
                raise error_of(status, message, fewer=fewer)
            return list(_cut(weights, pairs))
        except MemoryError:
            raise ResourceError(
                f"the native engine: there is not enough memory for {room:,} weights of attention; {fewer}"
            ) from None

    def _place(self, reading: EngineReading) -> tuple[int, int]:
        """Layer and head as the library counts them, from 0 (a head of -1: the mean of all); or ModelError."""
        layers = len(self.attention_heads)
        if not layers:
            raise ModelError("this model attends to no source: it has no attention to tell")
        if not -layers <= reading.layer < layers:
            raise ModelError(
                f"there is no layer {reading.layer}: the decoder has {layers}, counted from 0; -1 is the last"
            )
        heads = self.attention_heads[reading.layer]
        if reading.head is not None and not 0 <= reading.head < heads:
            raise ModelError(f"there is no head {reading.head}: the layer has {heads}, counted from 0")
        return reading.layer % layers, -1 if reading.head is None else reading.head


def _number(request: EngineRequest, place: int) -> int:
    """The last 64 bits of the number that samples of a request are drawn by."""
    return (place if request.number is None else request.number) & MOST_SEEDS


def _asking(requests: Sequence[EngineRequest]) -> "Asking | None":
    """Who answers for the constraints of requests; None where they have none."""
    constraints = {request.constraint for request in requests if request.constraint is not None}
    if not constraints:
        return None
    from regard.engine.constraints import Asking

    return Asking(constraints)


def _handle(request: EngineRequest) -> int:
    """Where the constraint of a request lies; 0 where it has none."""
    return 0 if request.constraint is None else request.constraint.handle.value or 0


def _bounded(number: int) -> int:
    """A number that stays wrong where it is: ctypes would keep the last bits of one that is too large."""
    return max(-MOST_IDS, min(number, MOST_IDS))


def _tokens(requests: Sequence[EngineRequest], options: EngineOptions) -> int:
    """How many are read, and written at most."""
    each = options.best if options.sample else 1
    return sum(len(request.ids) + each * _limit(request) for request in requests)


def _limit(request: EngineRequest) -> int:
    """The most tokens of its output, no more than the library can write; 0 is one that it refuses."""
    return max(0, min(request.limit, LONGEST))


def _sampling(options: EngineOptions) -> dict[str, float]:
    """How samples are drawn, in the fields of `Asked`."""
    if not 0 <= options.seed <= MOST_SEEDS:
        raise UsageError(f"seed must be a number from 0 to 2^64 - 1, not {options.seed}")
    rules = (options.top_k, options.top_p, options.min_p, options.typical)
    top_p, min_p, typical = (0 if rule is None else rule for rule in rules[1:])
    return {
        "sample": options.sample,
        "seed": options.seed,
        "temperature": options.temperature,
        "rules": sum(1 << place for place, rule in enumerate(rules) if rule is not None),
        "top_k": _bounded(options.top_k or 0),
        "top_p": top_p,
        "min_p": min_p,
        "typical": typical,
    }


def _cut(weights: "array[float]", pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Attention]:
    start = 0
    for source, target in pairs:
        end = start + (len(target) + 1) * len(source)
        yield Attention(items=len(source), values=weights[start:end])
        start = end


def error_of(status: int, message: Any, *, fewer: str = "search fewer sentences at a time") -> Exception:
    """What a status means; `fewer` says what takes less memory."""
    text = message.value.decode(errors="replace")
    if status == NO_MEMORY:
        return ResourceError(f"the native engine: {text}; {fewer}, or close other programs")
    if status == STOPPED:
        from concurrent.futures import CancelledError  # takes long to import

        return CancelledError(text)
    return UsageError(text) if status == MISUSED else ModelError(text)


def address(values: "array[int] | array[float]") -> int:
    """Where the numbers lie, as long as they are kept."""
    return values.buffer_info()[0]


def joined(rows: Sequence[Sequence[int]]) -> "tuple[array[int], array[int]]":
    """Rows one behind the other (32 bits), and where each begins (64 bits)."""
    flat, starts = array("i"), array("q", [0])
    for row in rows:
        try:
            flat.extend(row)
        except OverflowError:  # no vocabulary has such ids, and none has this one
            del flat[starts[-1] :]
            flat.extend([number if 0 <= number <= MOST_IDS else -1 for number in row])
        starts.append(len(flat))
    return flat, starts


def _answers(library: ctypes.CDLL, result: ctypes.c_void_p, requests: int) -> Iterator[Answer]:
    sizes = (ctypes.c_int64 * 3)()
    library.regard_result_sizes(result, sizes)
    hypotheses, token_count, step_count = sizes
    counts = (ctypes.c_int64 * requests)()
    whole = (ctypes.c_int64 * (3 * hypotheses))()
    values = (ctypes.c_double * (3 * hypotheses))()
    tokens = (ctypes.c_int32 * token_count)()
    steps = (ctypes.c_double * step_count)()
    library.regard_result_copy(result, counts, whole, values, tokens, steps)
    place = token = step = 0
    for request, count in enumerate(counts):
        outcome = []
        for one in range(place, place + count):
            length, said, complete = whole[3 * one : 3 * one + 3]
            outcome.append(
                Found(
                    tokens=tuple(tokens[token : token + length]),
                    log_probability=values[3 * one],
                    score=values[3 * one + 1],
                    coverage=values[3 * one + 2],
                    token_log_probabilities=tuple(steps[step : step + said]),
                    complete=bool(complete),
                )
            )
            token, step = token + length, step + said
        place += count
        fault = "" if outcome else library.regard_result_fault(result, request).decode(errors="replace")
        yield Answer(found=tuple(outcome), fault=fault)
