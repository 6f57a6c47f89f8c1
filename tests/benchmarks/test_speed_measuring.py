"""What the drivers of peers do alike: batches, choices, and the time that is taken."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from peers import driving
from peers.cells import settings
from peers.install import PEERS, run_quietly

from regard.recipe import Recipe
from regard.recipe.build import training_settings
from regard.run import training
from regard.training import Ended, Progress, Stepped


def driver(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, driving.DRIVERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measuring() -> ModuleType:
    return driver("measuring")


def test_our_training_says_its_rate_and_its_memory_more_often(measuring: ModuleType, monkeypatch, capsys) -> None:
    module = driver("regard_training")
    recipe = Recipe(task="translation", data={"train": "pairs.tsv"}, training={"steps": 16})
    seen: list[tuple[list[str], int, int | None]] = []
    heard: list[object] = []
    stepped = Stepped(Progress(step=4), 1.0, 1.0, 0.1, 1.0, 100.0)

    def command() -> None:
        settings = vars(training)["training_settings"](recipe)
        seen.append((sys.argv, settings.log_every, settings.steps))
        watching = vars(training)["watch"]("folder")
        for event in (Ended(Progress(step=4), "steps"), stepped):
            for listener in watching.listeners:
                listener(event)

    for name in ("settle",):
        monkeypatch.setattr(module, name, lambda: None)
    monkeypatch.setattr("regard.cli.main.main", command)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setitem(vars(training), "training_settings", training_settings)
    monkeypatch.setitem(vars(training), "watch", lambda _: SimpleNamespace(listeners=[heard.append]))
    module.main("recipe.yaml", 4)
    assert seen == [(["regard", "train", "recipe.yaml"], 4, 16)]
    assert heard[1] == stepped
    told = json.loads(capsys.readouterr().out)
    assert told["step"] == 4
    assert told["peak"] >= told["resident"] > 1_000_000


def test_batches_hold_every_pair_once_and_no_more_than_they_may(measuring: ModuleType) -> None:
    pairs = [([4] * (1 + number % 7), [5] * (1 + number % 11)) for number in range(200)]
    batches = measuring.training_batches(pairs, 64, seed=1)
    assert sorted(pair for batch in batches for pair in batch) == sorted(pairs)
    for batch in batches:
        assert len(batch) * max(len(target) + 1 for _, target in batch) <= 64
    padded = sum(len(batch) * max(len(target) + 1 for _, target in batch) for batch in batches)
    real = sum(len(target) + 1 for _, target in pairs)
    assert real / padded > 0.9
    assert batches != measuring.training_batches(pairs, 64, seed=2)


@pytest.mark.parametrize(("count", "expected"), [(2, [0, 5]), (10, list(range(10))), (20, list(range(10)))])
def test_a_part_is_spread_over_the_whole(measuring: ModuleType, count: int, expected: list[int]) -> None:
    rows = [[number] for number in range(10)]
    assert [row[0] for row in measuring.chosen(rows, count)] == expected


def test_alike_lengths_are_decoded_together(measuring: ModuleType) -> None:
    batches = measuring.by_length([[1] * 3, [1], [1] * 2], 2)
    assert [[len(row) for row in batch] for batch in batches] == [[1, 2], [3]]


def test_a_setting_is_measured_after_a_first_go(measuring: ModuleType, capsys) -> None:
    (setting, *_) = measuring.read_settings(json.dumps(settings(batch=(64,), ends=("forced",), sentences={64: 5})))
    seen: list[int] = []

    def decode(rows: list[list[int]]) -> int:
        seen.append(len(rows))
        return 16 * len(rows)

    measuring.measure(setting, [[number] for number in range(10)], decode)
    told = json.loads(capsys.readouterr().out)
    assert seen == [2, *[5] * measuring.OFTEN]  # it is soon over
    assert told["setting"] == "forced batch 64 beam 1"
    assert (told["sentences"], told["tokens"]) == (5, 80)
    assert told["rate"] == pytest.approx(5 / told["seconds"])
    assert told["bytes"] > 1_000_000


@pytest.mark.parametrize(
    ("output", "expected"), [([7, 8, 3, 3, 3], 2), ([7, 8, 3, 0, 0], 2), ([7, 8, 9], 3), ([3, 3], 0), ([], 0)]
)
def test_tokens_are_counted_up_to_the_first_end(measuring: ModuleType, output: list[int], expected: int) -> None:
    assert measuring.length_of(output) == expected


def test_what_transformers_fills_rows_with_is_not_counted(
    measuring: ModuleType, tmp_path: Path, monkeypatch, capsys
) -> None:
    """With 0 for padding, `generate` fills rows up with the end."""
    found = torch.tensor([[measuring.START, 7, 8, measuring.END, measuring.END], [measuring.START, 7, 8, 9, 9]])

    class Model:
        generation_config = SimpleNamespace(max_length=20)

        def eval(self) -> "Model":
            return self

        def generate(self, **_: object) -> torch.Tensor:
            return found

    transformers = ModuleType("transformers")
    vars(transformers)["AutoModelForSeq2SeqLM"] = SimpleNamespace(from_pretrained=lambda _: Model())
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    pairs = tmp_path / "test.json"
    pairs.write_text(json.dumps({"source": [[4], [5]], "target": [[6], [6]]}))
    wanted = settings(batch=(64,), ends=("natural",), sentences={64: 2})[:1]
    driver("transformers_decoding").main("model", str(pairs), measuring.read_settings(json.dumps(wanted)))
    assert json.loads(capsys.readouterr().out)["tokens"] == 2 + 4


def test_what_a_failing_command_says_last() -> None:
    assert run_quietly([sys.executable, "-c", ""]) == ""
    assert run_quietly([sys.executable, "-c", "raise SystemExit('first\\nno luck')"]) == "no luck"
    assert run_quietly([sys.executable, "-c", "raise SystemExit(5)"]) == "exit code 5"


def test_peers_are_pinned() -> None:
    assert all("==" in peer.package for peer in PEERS.values())
    pins = Path(driving.__file__).with_name("pins.txt").read_text().splitlines()[1:]
    assert all("==" in pin for pin in pins)
    names = {pin.split("==")[0] for pin in pins} | {
        line.split("==")[0] for line in (driving.BENCHMARKS.parent / "constraints.txt").read_text().splitlines()
    }
    for peer in PEERS.values():
        for package in peer.further:
            assert package.split("[")[0].split("<")[0] in names, package
