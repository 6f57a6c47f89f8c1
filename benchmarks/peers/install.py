"""The peers, each in an environment of its own; what most of them need beside it (torch) is installed once.

Everything is pinned, and nothing is taken along that a peer only names: `--no-deps`, and what its programs import.
torch is the version of constraints.txt, for pip has that one without CUDA; a peer that asks for another is tried with
it all the same, and what does not start is told as such.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.files import replace_file

SHARED = (
    "torch==2.13.0", "numpy==2.4.6", "pyyaml==6.0.3", "sacrebleu==2.6.0", "sentencepiece==0.2.2", "tensorboard==2.21.0",
    "ctranslate2==4.8.4", "transformers==5.22.2", "pandas==3.1.1", "six==1.17.0", "rich==15.0.0", "safetensors==0.8.0",
)  # fmt: skip
"""Installed once, with what they need, under the constraints of regard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program: its package, what it imports beside it, and a command that shows that it starts."""

    name: str
    package: str
    further: tuple[str, ...] = ()
    help: tuple[str, ...]
    asks: str = ""
    """What it asks for and does not get."""

    mended: str = ""
    """What is done to it at run time; nothing in its files is changed."""

    @property
    def note(self) -> str:
        asked = f"asks for {self.asks}, which it was not given" if self.asks else ""
        return "; ".join(part for part in (asked, self.mended) if part)


OLD = "`torch.load` is let read what the program itself has written, as before torch 2.6"


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="transformers", package="transformers==5.22.2", help=("-c", "import transformers, torch")),
        Peer(name="ctranslate2", package="ctranslate2==4.8.4", help=("-c", "import ctranslate2")),
        Peer(
            name="eole",
            package="eole==0.6.4",
            further=(
                "configargparse", "subword-nmt", "torch-optimi", "pyonmttok", "pyahocorasick", "rapidfuzz", "waitress",
                "fastapi", "uvicorn", "spacy", "fasttext-wheel", "aiohttp",
            ),
            help=("-m", "eole.bin.main", "--help"),
        ),
        Peer(
            name="opennmt",
            package="OpenNMT-py==3.5.1",
            further=("configargparse", "pyonmttok", "pyahocorasick", "rapidfuzz", "waitress", "flask", "spacy",
                     "fasttext-wheel"),
            help=("-m", "onmt.bin.train", "--help"),
            asks="torch<2.3",
            mended=OLD,
        ),
        Peer(
            name="joeynmt",
            package="joeynmt==2.3.0",
            further=("subword-nmt", "matplotlib", "importlib-metadata"),
            help=("-m", "joeynmt", "--help"),
            asks="protobuf<3.21",
            mended=OLD,
        ),
        Peer(
            name="yoyodyne",
            package="yoyodyne==0.5.27",
            further=("lightning", "maxwell", "omegaconf", "torchmetrics", "wandb", "jsonargparse[signatures]<5"),
            help=("-c", "from yoyodyne.cli.main import main; main()", "--help"),
            asks="torchaudio, torchvision",
            mended="run by a program of its parts, which takes the time",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Installed:
    """What came of it: the version, and why it does not run where it does not."""

    name: str
    package: str
    torch: str
    fault: str = ""
    note: str = ""


def python_of(folder: Path, name: str) -> Path:
    """The interpreter of a peer."""
    return folder / "venvs" / name / "bin" / "python"


def run_quietly(command: Sequence[str | Path]) -> str:
    """What a command has to say where it fails; nothing where it works."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return "" if done.returncode == 0 else (lines[-1].strip() if lines else f"exit code {done.returncode}")


def pip_install(target: Sequence[str | Path], root: Path, packages: Sequence[str], *further: str) -> str:
    constraints: list[str | Path] = ["-c", root / "constraints.txt", "-c", Path(__file__).with_name("pins.txt")]
    options = ["--quiet", "--progress-bar", "off", "--no-compile", *further]
    return run_quietly([*target, "install", *options, *constraints, *packages])


def install_shared(folder: Path, root: Path) -> None:
    """torch and what else several peers need."""
    shared = folder / "shared"
    stamp = folder / "shared.json"
    wanted = json.dumps(SHARED)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing into {shared}: {', '.join(SHARED)}", flush=True)
    fault = pip_install([sys.executable, "-m", "pip"], root, SHARED, "--target", str(shared), "--upgrade")
    if fault:
        raise SystemExit(f"torch cannot be installed for the peers: {fault}")
    replace_file(stamp, wanted.encode())


def install(peer: Peer, folder: Path, root: Path) -> Installed:
    """Make the environment of a peer unless it is there and the peer starts in it."""
    stamp = folder / "venvs" / f"{peer.name}.json"
    done = {"wanted": json.dumps([SHARED, peer.package, peer.further]), "fault": ""}
    fault = ""
    if not stamp.exists() or json.loads(stamp.read_text(encoding="utf-8")) != done:
        print(f"installing {peer.package}", flush=True)
        fault = make_environment(peer, folder, root)
        replace_file(stamp, json.dumps({**done, "fault": fault}).encode())
    return Installed(name=peer.name, package=peer.package, torch=SHARED[0], fault=fault, note=peer.note)


def make_environment(peer: Peer, folder: Path, root: Path) -> str:
    """Returns why it does not work, or nothing."""
    venv, python = folder / "venvs" / peer.name, python_of(folder, peer.name)
    fault = run_quietly([sys.executable, "-m", "venv", "--without-pip", "--clear", venv])
    if fault:
        return fault
    site = next(venv.glob("lib/python*/site-packages"))
    (site / "shared.pth").write_text(f"{folder / 'shared'}\n", encoding="utf-8")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
    fault = pip_install(pip, root, peer.further) if peer.further else ""
    return fault or pip_install(pip, root, [peer.package], "--no-deps") or run_quietly([python, *peer.help])


def install_all(names: Sequence[str], folder: Path, root: Path) -> dict[str, Installed]:
    """Every peer asked for; one that cannot be installed does not keep the others from it."""
    (folder / "venvs").mkdir(parents=True, exist_ok=True)
    install_shared(folder, root)
    return {name: install(PEERS[name], folder, root) for name in names}
