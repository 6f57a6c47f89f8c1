"""One corpus and one segmentation for all: Multi30k English to German, one joint BPE vocabulary of 8,000 entries.

The tokenizer is learned once, by a training of one step of a tiny model; its pieces are written to files for the peers,
who split at spaces, and every training of ours takes the same tokenizer (`text.start_from`).
"""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from regard.files import replace_file
from regard.interchange.export_tokenizer import token_names
from regard.special import FIRST_FREE
from regard.text import Tokenizer, load_tokenizer

FILES = {
    "train": "train.lc.norm.tok",
    "valid": "val.lc.norm.tok",
    "test": "test_2016_flickr.lc.norm.tok",
}
LANGUAGES = ("en", "de")
SIZE = 8000
ENDS = 1
"""Each side ends with a mark, which is a token too."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the files are. `NAME.en` and `NAME.de` are text, `NAME.src` and `NAME.tgt` pieces, `NAME.json` ids."""

    folder: Path

    @property
    def text(self) -> Path:
        """The run folder with the tokenizer."""
        return self.folder / "text"

    @property
    def vocabulary(self) -> Path:
        """All pieces but the reserved ones, an entry a line."""
        return self.folder / "vocabulary.txt"

    @property
    def lengths(self) -> tuple[float, float]:
        """Mean tokens of a source and a target of the training set, the end included."""
        found = json.loads((self.folder / "lengths.json").read_text())
        return found["source"], found["target"]

    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.text, "text")

    def file(self, name: str) -> Path:
        return self.folder / name


def multi30k() -> Path:
    """The folder of the corpus, from REGARD_DATA."""
    root = os.environ.get("REGARD_DATA")
    if not root:
        raise SystemExit("the benchmark needs Multi30k: set REGARD_DATA to a folder with mt/multi30k in it")
    folder = Path(root) / "mt" / "multi30k"
    if not folder.is_dir():
        raise SystemExit(f"{folder}: there is no such folder; REGARD_DATA must name one with mt/multi30k in it")
    return folder.resolve()


def read_lines(path: Path) -> list[str]:
    """A text file, plain or compressed."""
    zipped = path.with_name(f"{path.name}.gz")
    text = gzip.decompress(zipped.read_bytes()).decode() if zipped.exists() else path.read_text(encoding="utf-8")
    return text.splitlines()


def make_corpus(folder: Path) -> Corpus:
    """Prepare everything that is not there yet."""
    corpus = Corpus(folder)
    if (folder / "lengths.json").exists():
        return corpus
    folder.mkdir(parents=True, exist_ok=True)
    origin = multi30k()
    for name, stem in FILES.items():
        for language in LANGUAGES:
            lines = read_lines(origin / f"{stem}.{language}")
            replace_file(corpus.file(f"{name}.{language}"), "".join(f"{line}\n" for line in lines).encode())
    learn_tokenizer(corpus)
    tokenizer = corpus.tokenizer()
    replace_file(corpus.vocabulary, "".join(f"{name}\n" for name in piece_names(tokenizer)).encode())
    lengths = {name: write_pieces(corpus, name, tokenizer) for name in FILES}
    source, target = lengths["train"]
    replace_file(folder / "lengths.json", json.dumps({"source": source, "target": target}).encode())
    return corpus


def learn_tokenizer(corpus: Corpus) -> None:
    """The shortest training there is: its run folder has the tokenizer."""
    for side in LANGUAGES:
        lines = corpus.file(f"valid.{side}").read_text(encoding="utf-8").splitlines()
        corpus.file(f"few.{side}").write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    recipe: dict[str, object] = {
        **data_of(corpus, corpus.text, test="few"),
        "text": {"unit": "bpe", "size": SIZE},
        "model": {"width": 8, "layers": 1, "tie": "all"},
        "training": {"steps": 1, "batch_tokens": 64},
    }
    train_recipe(recipe, corpus.file("text.yaml"))


def data_of(corpus: Corpus, run: Path, *, test: str) -> dict[str, object]:
    """What recipes on the corpus begin and end with. Validation is over four pairs, and so is a test that is `few`."""
    sets = {"train": "train", "valid": "few", "test": test}
    few = test == "few"
    return {
        "task": "translation",
        "run": str(run),
        "data": {key: [str(corpus.file(f"{name}.{side}")) for side in LANGUAGES] for key, name in sets.items()},
        "search": {"beam": 1 if few else 5, "max_length": 8 if few else 100},
        "evaluation": {"tokenize": "none", "resamples": 0, "samples": 0, "metrics": ["BLEU"]},
    }


def train_recipe(recipe: Mapping[str, object], path: Path) -> None:
    """Train in a process of its own, for which nothing is measured."""
    path.write_text(yaml.safe_dump(dict(recipe)), encoding="utf-8")
    command = [sys.executable, "-m", "regard", "train", str(path), "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def piece_names(tokenizer: Tokenizer) -> list[str]:
    """The names of all ids but the reserved ones."""
    return token_names(tokenizer)[FIRST_FREE:]


def write_pieces(corpus: Corpus, name: str, tokenizer: Tokenizer) -> tuple[float, float]:
    """Pieces and ids of a set; returns the mean lengths of its sides, ends included."""
    names = piece_names(tokenizer)
    means, sides = [], []
    for language, ending in zip(LANGUAGES, ("src", "tgt"), strict=True):
        lines = corpus.file(f"{name}.{language}").read_text(encoding="utf-8").splitlines()
        rows = [list(tokenizer.encode(line).ids) for line in lines]
        pieces = [[names[id_ - FIRST_FREE] for id_ in row] for row in rows]
        check_pieces(pieces, corpus.file(f"{name}.{language}"))
        replace_file(corpus.file(f"{name}.{ending}"), "".join(f"{' '.join(row)}\n" for row in pieces).encode())
        sides.append(rows)
        means.append(sum(map(len, rows)) / len(rows) + ENDS)
    replace_file(corpus.file(f"{name}.json"), json.dumps({"source": sides[0], "target": sides[1]}).encode())
    replace_file(
        corpus.file(f"{name}.tsv"),
        "".join(
            f"{' '.join(names[i - FIRST_FREE] for i in source)}\t{' '.join(names[i - FIRST_FREE] for i in target)}\n"
            for source, target in zip(*sides, strict=True)
        ).encode(),
    )
    return means[0], means[1]


def check_pieces(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Peers split at white space: a piece that holds some would become two."""
    for number, row in enumerate(rows, start=1):
        if " ".join(row).split() != list(row):
            raise SystemExit(f"{path}:{number}: a piece holds white space, and no peer could read it: {row}")
