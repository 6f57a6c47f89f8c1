"""Runs one cell and says what came of it."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peers import configs
from peers.cells import BY_COMMAND, FORCED, NATIVE, OURS, SLOW, WORKERS, Cell, setting_key, settings_of
from peers.configs import FEW_STEPS, LONG_STEPS, QUICK_STEPS, Steps
from peers.corpus import Corpus
from peers.install import PEERS, python_of
from peers.logs import (
    Rates,
    read_driver,
    read_joeynmt,
    read_opennmt,
    read_regard,
    read_seconds,
    records_of,
)
from peers.processes import TUNED, Failed, Ran, run
from peers.shapes import SHAPES
from regard.engine.preparation import NAME as ENGINE

Result = dict[str, object]
DRIVERS = Path(__file__).resolve().parent / "drivers"
BENCHMARKS = Path(__file__).resolve().parent.parent
SAID = "output.log"
"""What a training said: in its folder once it has ended well."""

REPEATS = 2
"""The test set is predicted so often by a command whose start-up is taken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where everything is and how much of it is done."""

    home: Path
    folder: Path
    corpus: Corpus
    threads: int
    steps: Mapping[str, Steps]
    sentences: Mapping[str, Mapping[int, int]]
    limit: float
    quick: bool = False

    def work(self, cell: Cell) -> Path:
        """What a cell leaves behind, until it is run again."""
        return self.folder / "work" / cell.key.replace(" ", "_")

    def steps_of(self, cell: Cell) -> Steps:
        """A few are enough for programs that take long over each; memory is of many."""
        if cell.kind == "memory":
            return QUICK_STEPS if self.quick else LONG_STEPS
        return FEW_STEPS if cell.system in SLOW and not self.quick else self.steps[cell.model]

    def model(self, name: str) -> Path:
        """Our trained model, for decoding."""
        return self.folder / "models" / name

    def run(
        self,
        command: Sequence[str | Path],
        *,
        tuned: bool = False,
        where: Path | None = None,
        further: Mapping[str, str] | None = None,
    ) -> Ran:
        ours = {"PYTHONPATH": f"{BENCHMARKS.parent}{os.pathsep}{BENCHMARKS}"} if command[0] == sys.executable else {}
        return run(
            command,
            threads=self.threads,
            further={"PYTHONPATH": "", **ours, **(TUNED if tuned else {}), **(further or {})},
            limit=self.limit,
            folder=where or self.folder,
        )


def drive(cell: Cell, bench: Bench) -> Result:
    """Run a cell; the result has what was measured."""
    match cell.kind:
        case "start":
            return start(cell, bench)
        case "limit":
            return matrix_limit(bench)
        case "train":
            return train(cell, bench)
        case "memory":
            return memory(cell, bench)
        case "decode":
            return decode(cell, bench)


def start(cell: Cell, bench: Bench) -> Result:
    """`--help`, or the import where there is no command."""
    if cell.system == OURS:
        return {"seconds": bench.run([sys.executable, "-m", "regard", "--help"]).seconds}
    return {"seconds": bench.run([python_of(bench.home, cell.system), *PEERS[cell.system].help]).seconds}


def matrix_limit(bench: Bench) -> Result:
    source, target = bench.corpus.lengths
    command = [sys.executable, "-m", "peers.limit", str(bench.threads), str(configs.BATCH), str(source), str(target)]
    ran = bench.run([*command, *(["--quick"] if bench.quick else [])])
    records = list(records_of(ran.output))
    return {
        "limits": [one for one in records if "limit" in one],
        "products": [one for one in records if "speed" in one],
    }


def train(cell: Cell, bench: Bench) -> Result:
    """Tokens per second, memory and parameters of a training."""
    ran, rates = run_training(cell, bench)
    return {
        "rate": rates.median(bench.steps_of(cell).warm),
        "windows": list(rates.values),
        "tokens": rates.batch,
        "parameters": rates.parameters,
        "bytes": ran.bytes,
        "seconds": ran.seconds,
    }


def memory(cell: Cell, bench: Bench) -> Result:
    """The most that a longer training holds, and what it held on the way: `peak` until a step, `resident` after it."""
    ran, _ = run_training(cell, bench)
    seen = [
        {name: one[name] for name in ("step", "peak", "resident")} for one in records_of(ran.output) if "peak" in one
    ]
    most = max([ran.bytes, *(one["peak"] for one in seen)])
    return {"steps": bench.steps_of(cell).all, "bytes": most, "seen": seen, "seconds": ran.seconds}


def run_training(cell: Cell, bench: Bench) -> tuple[Ran, Rates]:
    """Train in the folder of a cell, by each program's own way."""
    folder = bench.work(cell)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shape, steps = SHAPES[cell.model], bench.steps_of(cell)
    corpus, python = bench.corpus, python_of(bench.home, cell.system)
    sizes, report = json.dumps(asdict(shape)), [str(steps.all), str(steps.window), str(steps.batch)]
    read = read_driver
    command: list[str | Path]
    match cell.system:
        case "regard":
            recipe = configs.regard_recipe(
                shape, corpus, folder / "run", steps=steps.all, batch=steps.batch, precision=cell.precision
            )
            path = configs.write_config(recipe, folder / "recipe.yaml")
            command = [sys.executable, DRIVERS / "regard_training.py", path, str(steps.window)]
        case "transformers":
            driver = DRIVERS / "transformers_training.py"
            half = ["--bfloat16"] if cell.precision == "bfloat16" else []
            command = [python, driver, sizes, corpus.file("train.json"), *report, *half]
        case "eole":
            path = configs.write_config(configs.eole_config(shape, corpus, folder, steps=steps), folder / "eole.yaml")
            command, read = [python, "-m", "eole.bin.main", "train", "-config", path], read_opennmt
        case "opennmt":
            tree = configs.opennmt_config(shape, corpus, folder, steps=steps)
            path = configs.write_config(tree, folder / "opennmt.yaml")
            command, read = [python, DRIVERS / "old_loading.py", "onmt.bin.train", "-config", path], read_opennmt
        case "joeynmt":
            tree = configs.joeynmt_config(shape, corpus, folder, steps=steps)
            path = configs.write_config(tree, folder / "joeynmt.yaml")
            command = [python, DRIVERS / "old_loading.py", "joeynmt", "train", "--skip-test", path]
            read = read_joeynmt
        case _:
            driver = DRIVERS / "yoyodyne_training.py"
            command = [python, driver, sizes, corpus.file("train.tsv"), folder / "model", *report]
    ran = bench.run(command, tuned=cell.tuned, where=folder)
    (folder / SAID).write_text(ran.output, encoding="utf-8")
    return ran, regard_rates(folder / "run") if cell.system == OURS else read(ran.output)


def regard_rates(run_folder: Path) -> Rates:
    return read_regard((run_folder / "log.jsonl").read_text(encoding="utf-8"), run_folder / "weights.safetensors")


def decode(cell: Cell, bench: Bench) -> Result:
    """Sentences per second by setting."""
    if cell.way == WORKERS:
        return {"figures": workers(cell, bench)}
    if cell.system in BY_COMMAND:
        return {"figures": forced_by_command(cell, bench)}
    told = json.dumps(settings_of(cell, bench.sentences[cell.model]))
    model, test = bench.model(cell.model), bench.corpus.file("test.json")
    command: list[str | Path]
    match cell.system:
        case "regard" if cell.way == NATIVE:
            driver = DRIVERS / "native_decoding.py"
            command = [sys.executable, driver, model / "run" / ENGINE, test, told, str(bench.threads)]
        case "regard":
            driver = DRIVERS / "regard_decoding.py"
            command = [sys.executable, driver, model / "run", bench.corpus.file("test.en"), told]
        case "transformers":
            driver = DRIVERS / "transformers_decoding.py"
            command = [python_of(bench.home, cell.system), driver, model / "huggingface", test, told]
        case _:
            driver = DRIVERS / "ctranslate2_decoding.py"
            pieces, rest = bench.corpus.file("test.src"), [told, cell.precision, str(bench.threads)]
            command = [python_of(bench.home, cell.system), driver, model / "ctranslate2", pieces, *rest]
    ran = bench.run(command, tuned=cell.tuned, further=wider() if cell.system == "ctranslate2" else {})
    return {"figures": {str(one.pop("setting")): one for one in map(dict, records_of(ran.output)) if "setting" in one}}


def wider() -> dict[str, str]:
    """CTranslate2 takes AVX2 on processors of AMD, whatever they have; with AVX-512 it is faster."""
    try:
        known = "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        known = False
    return {"CT2_FORCE_CPU_ISA": "AVX512"} if known else {}


def forced_by_command(cell: Cell, bench: Bench) -> dict[str, object]:
    """Eole and OpenNMT-py with what they have learned in a few steps: too little to end by itself, so forced."""
    lines = bench.corpus.file("test.src").read_text(encoding="utf-8").splitlines()
    folder = bench.work(cell)
    folder.mkdir(parents=True, exist_ok=True)
    learn_first(cell, bench)
    figures: dict[str, object] = {}
    for one in settings_of(cell, bench.sentences[cell.model]):
        count, beam, batch = (int(str(one[name])) for name in ("sentences", "beam", "batch"))
        count = min(count, len(lines))
        few = [lines[index * len(lines) // count] for index in range(count)]
        (folder / "source.txt").write_text("".join(f"{line}\n" for line in few), encoding="utf-8")
        ran = bench.run(decoding_command(cell, bench, beam, batch), tuned=cell.tuned, where=folder)
        seconds = read_seconds(ran.output)
        figures[setting_key(one)] = {
            "sentences": len(few),
            "seconds": seconds,
            "rate": len(few) / seconds,
            "bytes": ran.bytes,
        }
    return figures


def trained_by(cell: Cell) -> Cell:
    """The training that has left the model that a cell decodes with."""
    return Cell(kind="train", system=cell.system, model=cell.model)


def learn_first(cell: Cell, bench: Bench) -> None:
    """Train, untimed, what is decoded with, where its training was measured in another folder than this."""
    if not (bench.work(trained_by(cell)) / SAID).exists():
        run_training(trained_by(cell), bench)


def decoding_command(cell: Cell, bench: Bench, beam: int, batch: int) -> list[str | Path]:
    """Of Eole or OpenNMT-py, in the folder of the cell; without the limit that follows from the source."""
    trained = bench.work(trained_by(cell))
    options: dict[str, object] = {
        "src": "source.txt", "output": "output.txt", "beam_size": beam, "batch_size": batch, "min_length": FORCED,
        "max_length": FORCED, "max_length_ratio": 0,
    }  # fmt: skip
    python = python_of(bench.home, cell.system)
    if cell.system == "eole":
        tree = {**options, "model_path": str(trained / "model"), "report_time": True, "gpu_ranks": []}
        path = configs.write_config(tree, bench.work(cell) / "eole.yaml")
        return [python, "-m", "eole.bin.main", "predict", "-config", path]
    model = max(trained.glob("model_step_*.pt"), default=trained / "model_step_0.pt")
    told = [str(part) for name, value in options.items() for part in (f"-{name}", value)]
    return [python, DRIVERS / "old_loading.py", "onmt.bin.translate", "-model", model, "-report_time", *told]


def workers(cell: Cell, bench: Bench) -> dict[str, object]:
    """`regard predict FILE --output --workers`: whole files, less the time that two lines take."""
    folder = bench.work(cell)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = bench.corpus.file("test.en").read_text(encoding="utf-8").splitlines()[: bench.sentences[cell.model][64]]
    few, many = folder / "few.txt", folder / "many.txt"
    few.write_text("".join(f"{line}\n" for line in lines[:2]), encoding="utf-8")
    many.write_text("".join(f"{line}\n" for line in lines) * REPEATS, encoding="utf-8")
    command: list[str | Path] = [sys.executable, "-m", "regard", "predict", bench.model(cell.model) / "run"]
    options = ["--workers", str(bench.threads), "--overwrite", "--output"]
    short = bench.run([*command, few, *options, folder / "few.out"])
    figures: dict[str, object] = {}
    for beam in (1, 5):
        long = bench.run([*command, many, "--beam", str(beam), *options, folder / f"many{beam}.out"])
        # A trial is over so soon that starting outweighs it.
        seconds, count = long.seconds - (0.0 if bench.quick else short.seconds), len(lines) * REPEATS
        if seconds <= 0:
            raise Failed("the whole file took no longer than two lines of it")
        figures[f"natural batch 64 beam {beam}"] = {
            "sentences": count, "seconds": seconds, "rate": count / seconds, "bytes": long.bytes,
        }  # fmt: skip
    return figures
