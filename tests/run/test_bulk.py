"""Whole files in shards: the same bytes as without them, whoever is killed and whenever."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli.bulk import hire
from regard.data import Ledger, read_lines
from regard.errors import BusyError, DataError, ModelError, RegardError, ResourceError, UsageError
from regard.run import bulk
from regard.run.bulk import Begun, Event, Failed, Joined, Predicted, destination, predict_files
from regard.run.crews import Forks, Here, Processes
from regard.run.forks import can_fork
from regard.run.manifest import Manifest
from regard.run.model import Model
from regard.run.parts import Counts
from regard.run.shards import Answer, Asked, Outcome, ShardPredictor, Task, cut, fingerprint, load_exactly
from regard.run.training import Trained
from regard.run.written import Form, Tally
from tests.toys import toy_sources

ODD = {
    "empty": b"",
    "newline": b"\n",
    "no final newline": b"a b\nc d",
    "crlf": b"a b\r\n\r\nc d\r\r\ne",
    "blank lines": b"\n\n  \na\n\n\n",
    "mark": b"\xef\xbb\xbfa b\n\xef\xbb\xbfc\n",
    "bad bytes": b"a\n\xff\nb\n\xc3\n\xe2\x82\nc\n",
    "not line ends": "a\u2028b\u0085c\x0bd\x0ce\rf\na\x00b\n".encode(),
}


@dataclass
class Bench:
    """A model, and how its outputs look without shards."""

    trained: Trained
    folder: Path

    def __post_init__(self) -> None:
        self.run = self.trained.model.folder
        self.model = fingerprint(self.run)

    def asked(self, *, beam: int = 1, best: int = 1, prefix: str = "", **form: bool) -> Asked:
        options = self.trained.model.options(beam=beam, best=best)
        return Asked(options=options, prefix=prefix, form=Form(best=best, **form))

    def file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def lines(self, name: str, count: int, seed: int = 3) -> str:
        draw = random.Random(seed)
        return self.file(name, "".join(f"{line}\n" for line in draw.choices(toy_sources(200), k=count)).encode())

    def plain(self, path: str, asked: Asked) -> tuple[bytes, Counts]:
        """What one loop over the whole file writes and counts."""
        counts = Counts(Tally(), Ledger())
        texts = read_lines(path, bad_lines="blank", ledger=counts.ledger)
        written = []
        predictions = self.trained.model.predict_many(
            texts, options=asked.options, prefix=asked.prefix, capture=asked.form.align
        )
        for number, prediction in enumerate(predictions, start=1):
            counts.tally.add(f"{path}:{number}", prediction)
            written += asked.form.lines(prediction, number)
        return "".join(f"{line}\n" for line in written).encode(), counts

    def here(self, asked: Asked) -> Here:
        return Here(ShardPredictor(self.trained.model, asked))

    def predict(self, files: list[str], output: str, asked: Asked, **further: object) -> tuple[Counts, list[Event]]:
        events: list[Event] = []
        crew = further.pop("crew", None) or self.here(asked)
        arguments = {"shard_lines": 3, **further}
        counts = predict_files(
            files, output, crew=crew, asked=asked, model=self.model, observe=events.append, **arguments
        )
        return counts, events


@pytest.fixture
def bench(trained: Trained, tmp_path: Path) -> Bench:
    return Bench(trained, tmp_path)


def predicted(events: list[Event]) -> int:
    return sum(event.lines for event in events if isinstance(event, Predicted))


def test_odd_files_are_as_without_shards(bench: Bench) -> None:
    asked = bench.asked()
    files = [bench.file(name, content) for name, content in ODD.items()]
    output = bench.folder / "out"
    counts, events = bench.predict(files, f"{output}/", asked, shard_lines=2)
    total = Counts()
    for name, file in zip(ODD, files, strict=True):
        content, counted = bench.plain(file, asked)
        total.include(counted)
        assert (output / name).read_bytes() == content, name
    assert counts.tally == total.tally
    assert counts.ledger.summary() == total.ledger.summary()
    assert "lines that are not UTF-8, skipped: 3" in counts.ledger.summary()
    assert [event.lines for event in events if isinstance(event, Joined)] == [0, 1, 2, 4, 6, 2, 6, 2]
    assert predicted(events) == 23


@pytest.mark.parametrize(
    "form",
    [{"best": 3}, {"jsonl": True}, {"best": 2, "jsonl": True, "align": True}, {"align": True}, {"prefix": "H A"}],
    ids=str,
)
def test_every_form_of_output(bench: Bench, form: dict[str, object]) -> None:
    asked = bench.asked(beam=3, **form)  # type: ignore[arg-type]
    file = bench.file("in.txt", "".join(f"{line}\n" for line in [*toy_sources(20), "", "a\tb\tc"]).encode())
    _, events = bench.predict([file], str(bench.folder / "out.txt"), asked, shard_lines=4)
    content, _ = bench.plain(file, asked)
    found = (bench.folder / "out.txt").read_text().splitlines()
    if asked.form.jsonl:  # batches differ, so that scores may in their last digits
        for one, other in zip(map(json.loads, found), map(json.loads, content.decode().splitlines()), strict=True):
            numbers = ("score", "log_probability", "nbest")
            assert {k: v for k, v in one.items() if k not in numbers} == {
                k: v for k, v in other.items() if k not in numbers
            }
            assert one["score"] == pytest.approx(other["score"], abs=1e-5)
    else:
        strip = [line.rsplit("\t", 2) if asked.form.best > 1 else [line] for line in found]
        wanted = [line.rsplit("\t", 2) if asked.form.best > 1 else [line] for line in content.decode().splitlines()]
        assert [row[::2] for row in strip] == [row[::2] for row in wanted]
    assert predicted(events) == 22


def test_samples_are_those_of_the_whole_file(bench: Bench) -> None:
    options = bench.trained.model.options(sample=True, temperature=2.0, seed=5)
    asked = Asked(options=options)
    file = bench.file("in.txt", b"a b c\n" * 30)
    bench.predict([file], str(bench.folder / "out"), asked, shard_lines=7)
    content, _ = bench.plain(file, asked)
    assert (bench.folder / "out").read_bytes() == content
    assert len(set(content.splitlines())) > 5


def test_a_gzip_file_and_a_folder_that_exists(bench: Bench) -> None:
    asked = bench.asked()
    packed = bench.file("in.txt.gz", gzip.compress(b"a b\nc\n\nd e f\n"))
    (bench.folder / "out").mkdir()
    bench.predict([packed], str(bench.folder / "out"), asked)
    assert (bench.folder / "out" / "in.txt").read_bytes() == bench.plain(packed, asked)[0]


class Stopping:
    """A crew that is killed after some shards, and writes down what it was asked."""

    size = 1
    place = "here"

    def __init__(self, crew: Here, after: int) -> None:
        self.crew, self.after, self.numbers = crew, after, list[int]()

    def __enter__(self) -> "Stopping":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def submit(self, task: Task) -> None:
        if len(self.numbers) == self.after:
            raise KeyboardInterrupt
        self.numbers.append(task.number)
        self.crew.submit(task)

    def next(self) -> tuple[Task, Outcome]:
        return self.crew.next()


def test_no_finished_shard_is_repeated(bench: Bench) -> None:
    asked = bench.asked()
    files = [bench.lines("one", 20), bench.lines("two", 10, seed=4), bench.file("three", b"\xff\n\xfe\n")]
    output = f"{bench.folder}/out/"
    numbers: list[int] = []
    for _ in range(20):
        crew = Stopping(bench.here(asked), after=2)
        try:
            counts, events = bench.predict(files, output, asked, crew=crew)
        except KeyboardInterrupt:
            numbers += crew.numbers
            continue
        numbers += crew.numbers
        break
    assert numbers == list(range(12))
    for file in files:
        assert (bench.folder / "out" / Path(file).name).read_bytes() == bench.plain(file, asked)[0]
    assert counts.ledger.counts == {"utf8": 2}
    again, events = bench.predict(files, output, asked, crew=Stopping(bench.here(asked), after=0))
    assert (again.tally, again.ledger.summary()) == (counts.tally, counts.ledger.summary())
    assert events == [Begun(32, 32, "here")]
    assert sorted(path.name for path in (bench.folder / "out" / ".bulk").iterdir()) == [
        "00000.joined",
        "00001.joined",
        "00002.joined",
        "lock",
        "manifest.json",
    ]


def interrupted(bench: Bench, files: list[str], output: str, asked: Asked, after: int = 2) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench.predict(files, output, asked, crew=Stopping(bench.here(asked), after=after))


def test_damaged_parts_and_lost_outputs_are_predicted_again(bench: Bench) -> None:
    asked = bench.asked()
    file = bench.lines("in", 15)
    output = bench.folder / "out"
    interrupted(bench, [file], f"{output}/", asked, after=4)
    for number, damage in enumerate([lambda b: b[:-1], lambda b: b[:-3] + b"Q" + b[-2:], lambda _: b""]):
        part = output / ".bulk" / f"{number:08}.part"
        part.write_bytes(damage(part.read_bytes()))
    _, events = bench.predict([file], f"{output}/", asked)
    assert (output / "in").read_bytes() == bench.plain(file, asked)[0]
    assert events[0] == Begun(15, 3, "in this process")
    (output / "in").write_bytes(b"shorter")
    _, events = bench.predict([file], f"{output}/", asked)
    assert predicted(events) == 15
    assert (output / "in").read_bytes() == bench.plain(file, asked)[0]


def test_what_has_changed_is_refused_unless_it_may_be_overwritten(bench: Bench) -> None:
    asked = bench.asked()
    file = bench.lines("in", 12)
    output = f"{bench.folder}/out/"
    interrupted(bench, [file], output, asked)

    def refused(text: str, files: list[str] | None = None, now: Asked = asked, **further: object) -> None:
        with pytest.raises(UsageError, match=text) as caught:
            bench.predict(files or [file], output, now, **further)
        assert "begun here with something else" in str(caught.value)
        assert "begin anew with --overwrite" in str(caught.value)

    refused("beam was 1 and is 2", now=bench.asked(beam=2))
    refused('prefix was "" and is "H"', now=bench.asked(prefix="H"))
    refused("jsonl was false and is true", now=bench.asked(jsonl=True))
    refused("shards had 3 lines and would have 4", shard_lines=4)
    refused("the outputs were in and are in, more", files=[file, bench.file("more", b"a\n")])
    before, bench.model = bench.model, {**bench.model, "weights.safetensors": "0"}
    refused(r"the model has changed \(weights.safetensors\)")
    bench.model = before
    original = Path(file).read_bytes()
    Path(file).write_bytes(original.upper())
    refused(f"{file} has other content than before")
    Path(file).write_bytes(original + b"a\n")
    refused(f"{file} had {len(original):,} bytes and has {len(original) + 2:,}")
    _, events = bench.predict([file], output, asked, overwrite=True)
    assert events[0] == Begun(13, 0, "in this process")
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]
    _, events = bench.predict([file], output, asked, overwrite=True)
    assert predicted(events) == 0


def test_a_file_that_changes_on_the_way(bench: Bench) -> None:
    asked = bench.asked()
    file = bench.lines("in", 12)

    class Meddling(Stopping):
        def submit(self, task: Task) -> None:
            super().submit(task)
            Path(file).write_bytes(b"a\n" * 12)

        def next(self) -> tuple[Task, Outcome]:
            task = self.crew._task
            assert task is not None
            self.crew._task = None
            return task, Outcome(Answer(b"", Tally()))

    Path(file).write_bytes(Path(file).read_bytes() + b"a b c d\n" * 100_000)  # more than is read at once
    with pytest.raises(DataError, match=r"in:\d+: has changed while it was predicted"):
        bench.predict([file], f"{bench.folder}/out/", asked, crew=Meddling(bench.here(asked), 200), shard_lines=6000)


@pytest.mark.parametrize(
    ("files", "output", "text"),
    [
        (["-"], "out", "standard input can be read only once"),
        (["a", "other/a"], "out", "a and .*other/a would both be written to .*out/a"),
        (["a", "a.gz"], "out", "would both be written to"),
        (["a"], ".", "a: is an input, and the output would write over it"),
        (["a"], "a", "a: is an input, and the output would write over it"),
        (["a"], "b", "b: there is a file already; choose another --output"),
    ],
)
def test_outputs_that_cannot_be(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, files: list[str], output: str, text: str
) -> None:
    monkeypatch.chdir(bench.folder)
    Path("other").mkdir()
    for name in ("a", "a.gz", "other/a", "b"):
        bench.file(name, gzip.compress(b"a\n") if name.endswith("gz") else b"a\n")
    with pytest.raises(UsageError, match=text):
        bench.predict(files, output, bench.asked())
    assert Path("b").read_bytes() == b"a\n"


def test_inputs_that_cannot_be_read_are_told_first(bench: Bench) -> None:
    with pytest.raises(DataError, match="nowhere: there is no such file"):
        destination([str(bench.folder / "nowhere")], "out")
    cut_off = bench.file("cut.gz", gzip.compress(b"a\n" * 1000)[:-12])
    with pytest.raises(DataError, match="the gzip data is damaged or cut off"):
        bench.predict([bench.lines("in", 3), cut_off], f"{bench.folder}/out/", bench.asked())
    assert not (bench.folder / "out" / "in").exists()


def test_a_manifest_that_cannot_be_read(bench: Bench) -> None:
    asked, file, output = bench.asked(), bench.lines("in", 6), f"{bench.folder}/out/"
    interrupted(bench, [file], output, asked, after=1)
    path = bench.folder / "out" / ".bulk" / "manifest.json"
    record = json.loads(path.read_bytes())
    assert record["files"][0]["path"] == file
    assert len(Manifest.read(path).inputs[0].shards) == 2  # type: ignore[union-attr]
    path.write_text(json.dumps({**record, "format": 2}))
    with pytest.raises(UsageError, match="bulk predictions of format 2; this version goes on with format 1"):
        bench.predict([file], output, asked)
    path.write_bytes(b"{")
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be read \(JSONDecodeError"):
        bench.predict([file], output, asked)
    bench.predict([file], output, asked, overwrite=True)
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]


def test_two_at_once_are_one_too_many(bench: Bench) -> None:
    asked, file, output = bench.asked(), bench.lines("in", 6), f"{bench.folder}/out/"

    class Second(Stopping):
        def submit(self, task: Task) -> None:
            with pytest.raises(BusyError, match=rf"out: another process is predicting into it \(process {os.getpid()}"):
                bench.predict([file], output, asked)
            super().submit(task)

    bench.predict([file], output, asked, crew=Second(bench.here(asked), after=9))


class Faulty(ShardPredictor):
    """Fails on some first lines, each so many times."""

    def __init__(self, bench: Bench, faults: dict[int, int], error: Callable[[], Exception]) -> None:
        super().__init__(bench.trained.model, bench.asked())
        self.faults, self.error = faults, error

    def answer(self, task: Task) -> object:  # type: ignore[override]
        if self.faults.get(task.first, 0):
            self.faults[task.first] -= 1
            raise self.error()
        return super().answer(task)


def test_a_shard_that_fails_is_tried_twice_more(bench: Bench) -> None:
    asked, file, output = bench.asked(), bench.lines("in", 12), f"{bench.folder}/out/"
    crew = Here(Faulty(bench, {4: 2}, MemoryError))
    _, events = bench.predict([file], output, asked, crew=crew)
    failures = [event for event in events if isinstance(event, Failed)]
    assert failures == [Failed(f"{file}, lines 4 to 6", "MemoryError", False)] * 2
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]


@pytest.mark.parametrize(
    ("error", "kind", "fault"),
    [
        (MemoryError, ResourceError, "MemoryError"),
        (lambda: RuntimeError("can't allocate memory: 1 TB"), ResourceError, "RuntimeError: can't allocate memory"),
        (lambda: ValueError("seven"), RegardError, "ValueError: seven"),
        (lambda: ModelError("no such run"), RegardError, "no such run"),
    ],
)
def test_a_shard_that_always_fails_is_told_and_the_others_stay(
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    error: Callable[[], Exception],
    kind: type[RegardError],
    fault: str,
) -> None:
    asked, file, output = bench.asked(), bench.lines("in", 12), f"{bench.folder}/out/"
    with pytest.raises(RegardError) as caught:
        bench.predict([file], output, asked, crew=Here(Faulty(bench, {4: 99}, error)))
    assert type(caught.value) is kind
    assert f"out: not complete. Failed 3 times: shard 1 ({file}, lines 4 to 6): {fault}" in str(caught.value)
    assert "the same command tries the others again" in str(caught.value)
    assert not (bench.folder / "out" / "in").exists()
    _, events = bench.predict([file], output, asked)
    assert events[0] == Begun(12, 9, "in this process")
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]
    assert ("Traceback" in capsys.readouterr().err) == ("seven" in fault)


def test_when_all_shards_fail_it_stops_soon(bench: Bench) -> None:
    asked, file = bench.asked(), bench.lines("in", 60)
    predictor = Faulty(bench, dict.fromkeys(range(1, 61), 99), MemoryError)
    with pytest.raises(ResourceError, match="17 further shards were not tried") as caught:
        bench.predict([file], f"{bench.folder}/out/", asked, crew=Here(predictor))
    assert str(caught.value).count("MemoryError") == bulk.HOPELESS


def test_shards_are_bounded_in_lines_and_bytes() -> None:
    texts = ["a" * length for length in (1, 1, 1, 9, 3, 4, 30, 1, 0)]
    groups = [[len(text) for text in group] for group in cut(texts, lines=3, size=10)]
    assert groups == [[1, 1, 1], [9], [3, 4], [30], [1, 0]]


def test_a_run_that_has_changed_is_not_loaded(bench: Bench) -> None:
    load_exactly(bench.run, bench.model)
    with pytest.raises(ModelError, match=r"recipe.yaml: has changed since the predictions were begun"):
        load_exactly(bench.run, {**bench.model, "recipe.yaml": "0"})


def test_processes_answer_as_this_one_does_and_one_that_dies_is_replaced(bench: Bench) -> None:
    asked, file = bench.asked(), bench.lines("in", 60)
    killed: list[int] = []

    class Killing(Processes):
        def submit(self, task: Task) -> None:
            super().submit(task)
            if task.number == 3 and not killed:
                killed.append(self._workers[-1]._process.pid)
                os.kill(killed[0], signal.SIGKILL)

    crew = Killing(bench.run, asked, files=bench.model, workers=2)
    _, events = bench.predict([file], f"{bench.folder}/out/", asked, crew=crew)
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]
    failures = [event for event in events if isinstance(event, Failed)]
    assert [(one.fault, one.last) for one in failures] == [
        ("the worker was ended by signal 9; out of memory is the usual reason", False)
    ]
    assert all(worker._process.returncode is not None for worker in crew._workers)


def test_forked_processes_answer_as_this_one_does_and_one_that_dies_is_replaced(bench: Bench) -> None:
    asked, file = bench.asked(), bench.lines("in", 60)
    processes: list[int] = []

    class Killing(Forks):
        def submit(self, task: Task) -> None:
            super().submit(task)
            processes.extend({child.process for child in self._children} - set(processes))
            if task.number == 3 and len(processes) == 2:
                busy = next(child for child in self._children if task in child.tasks)
                os.kill(busy.process, signal.SIGKILL)

    crew = Killing(ShardPredictor(bench.trained.model, asked), workers=2)
    _, events = bench.predict([file], f"{bench.folder}/out/", asked, crew=crew)
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]
    failures = [event for event in events if isinstance(event, Failed)]
    assert [(one.fault, one.last) for one in failures] == [
        ("the worker was ended by signal 9; out of memory is the usual reason", False)
    ]
    assert isinstance(events[0], Begun)
    assert events[0].place == "in 2 processes of one thread"
    assert len(processes) == 3
    assert all(ended(process) for process in processes)


@pytest.mark.parametrize(
    ("error", "fault", "lost"),
    [
        (lambda: os._exit(3), "the worker ended with code 3", True),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "the worker was ended by signal 11", True),
        (MemoryError, "MemoryError", True),
        (lambda: ModelError("no such run"), "no such run", False),
    ],
)
def test_a_fault_of_a_forked_process_is_an_outcome(
    bench: Bench, error: Callable[[], Exception], fault: str, lost: bool
) -> None:
    with Forks(Faulty(bench, {4: 99}, error), workers=2) as crew:
        for number, first in enumerate((1, 4)):
            crew.submit(Task(number=number, file="in", first=first, texts=("a b", "c")))
        outcomes = {task.first: outcome for task, outcome in (crew.next(), crew.next())}
    assert outcomes[1].answer is not None
    assert outcomes[4].fault.startswith(fault)
    assert (outcomes[4].answer, outcomes[4].lost) == (None, lost)


@pytest.mark.skipif(not can_fork(), reason="weights are shared where processes can be forked")
def test_workers_of_the_command_share_the_weights_that_are_loaded(bench: Bench) -> None:
    """They need no run folder any more: nothing is loaded a second time."""
    asked, file = bench.asked(), bench.lines("in", 20)
    run = shutil.copytree(bench.run, bench.folder / "run")
    crew, files = hire("here", 2, model=Model.load(run), asked=asked)
    shutil.rmtree(run)
    predict_files([file], f"{bench.folder}/out/", crew=crew, asked=asked, model=files, shard_lines=3)
    assert (bench.folder / "out" / "in").read_bytes() == bench.plain(file, asked)[0]


def test_where_none_can_be_forked_processes_load_the_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.forks.can_fork", lambda: False)
    crew, _ = hire("here", 2, model=bench.trained.model, asked=bench.asked())
    assert isinstance(crew, Processes)


def test_a_worker_that_cannot_begin_says_why(bench: Bench) -> None:
    asked, file = bench.asked(), bench.lines("in", 3)
    crew = Processes(bench.run, asked, files={**bench.model, "text.json": "0"}, workers=1)
    with pytest.raises(RegardError, match="has changed since the predictions were begun"):
        bench.predict([file], f"{bench.folder}/out/", asked, crew=crew)


def ended(process: int) -> bool:
    """Whether a process is gone, or waits only to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 100) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


@pytest.mark.cli
def test_the_real_command_is_killed_and_its_workers_end_with_it(bench: Bench) -> None:
    asked, file, output = bench.asked(), bench.lines("in", 800), bench.folder / "out"
    command = [sys.executable, "-m", "regard.cli.main", "predict", str(bench.run), file, "-o", f"{output}/"]
    command += ["--workers", "2", "--beam", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*command, "--shard-lines", "4"], env=environment, stderr=subprocess.PIPE) as driver:
        wait_until(lambda: len(list((output / ".bulk").glob("*.part"))) > 2, "no shard was finished")
        children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        driver.kill()
        driver.communicate()
    assert len(children) == 2
    for child in children:
        wait_until(lambda: ended(int(child)), "a worker outlived its driver", 30)  # noqa: B023 called at once
    assert len(list((output / ".bulk").glob("*.part"))) < 200
    _, events = bench.predict([file], f"{output}/", asked, shard_lines=None)
    assert isinstance(events[0], Begun)
    assert 8 <= events[0].finished == 800 - predicted(events)
    assert (output / "in").read_bytes() == bench.plain(file, asked)[0]


KILLS = 10


@pytest.mark.cli
def test_the_driver_is_killed_at_random_moments(bench: Bench) -> None:
    """Forked, so that torch is loaded once: what is killed is the whole of `predict_files`."""
    lines = 3000  # many more than are done before the last kill
    asked, file, output = bench.asked(beam=3), bench.lines("in", lines), bench.folder / "out"
    expected, _ = bench.plain(file, asked)
    draw = random.Random(7)
    bench.predict([file], f"{bench.folder}/whole/", asked, shard_lines=8)

    def parts() -> int:
        return len(list((output / ".bulk").glob("*.part")))

    for _ in range(KILLS):
        child = os.fork()
        if not child:
            try:
                bench.predict([file], f"{output}/", asked, shard_lines=8)
            finally:
                os._exit(0)
        before, more = parts(), draw.randint(0, 5)
        try:
            wait_until(lambda: parts() >= before + more, "no shard was finished")  # noqa: B023 called at once
            time.sleep(draw.uniform(0, 0.02))
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        assert parts() >= before + more
    finished = parts()
    _, events = bench.predict([file], f"{output}/", asked, shard_lines=8)
    assert isinstance(events[0], Begun)
    assert events[0].finished == 8 * finished > 0
    assert predicted(events) == lines - events[0].finished > 0
    assert (output / "in").read_bytes() == expected == (bench.folder / "whole" / "in").read_bytes()
    assert not list(output.glob(".*.tmp"))
