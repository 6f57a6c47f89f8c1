"""What the lines of a file are, and how that is found out by looking at its name and its first lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from regard.data.excerpt import excerpt
from regard.data.jsonl import FAMILIAR_KEYS, choose_keys, parse_record
from regard.data.lines import STDIN, BadLine, decode, file_name, read_raw_lines
from regard.errors import DataError, UsageError

Format = Literal["tsv", "jsonl", "parallel", "lines", "conllu", "sigmorphon2016", "sigmorphon2017", "sigmorphon2023"]
Kind = Literal["tsv", "jsonl", "parallel", "conllu"]
Column = str | int
Paths = str | Path | Sequence[str | Path]

DEFAULT_COLUMNS: Final = (0, 1)
PARALLEL_REASON: Final = "two files, so line n of one belongs to line n of the other"


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """How files are read, and in a line for people why so."""

    format: Format
    source: Column
    target: Column
    reason: str


@dataclass(frozen=True, slots=True)
class InflectionColumns:
    """Where a SIGMORPHON shared task has lemma, features and form, and what stands between features."""

    lemma: int
    features: int
    form: int
    separator: str


INFLECTION: Final[dict[Format, InflectionColumns]] = {
    "sigmorphon2016": InflectionColumns(lemma=0, features=1, form=2, separator=","),
    "sigmorphon2017": InflectionColumns(lemma=0, features=2, form=1, separator=";"),
    "sigmorphon2023": InflectionColumns(lemma=0, features=1, form=2, separator=";"),
}

CONLLU: Final = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
"""The columns of CoNLL-U."""

SAMPLE_LINES: Final = 200
MOST: Final = 0.8

# V;IND;PST;3;SG    N;DAT;SG    V;PRS;NOM(3,SG)    V.PTCP;PST
BUNDLE: Final = re.compile(r"[A-Z][A-Z.]*(;[A-Za-z0-9.+/{}()_,*:-]+)+|ADJ|ADV|N|V|PROPN|PRO|DET|NUM|V\.(PTCP|CVB|MSDR)")
# pos=V,mood=IND,tense=PST
NAMED_BUNDLE: Final = re.compile(r"pos=[^,=]+(,[^,=]+=[^,=]*)*")


def as_paths(paths: Paths) -> tuple[str | Path, ...]:
    """One path or several, as a tuple."""
    return (paths,) if isinstance(paths, str | Path) else tuple(paths)


def detect_format(paths: Paths) -> DetectedFormat:
    """Look at names and first lines. Nothing is consumed, so standard input cannot be looked at."""
    files = as_paths(paths)
    kind, sample = _look(files)
    if kind == "parallel":
        return DetectedFormat("parallel", 0, 1, PARALLEL_REASON)
    if kind == "conllu":
        return DetectedFormat("conllu", "FORM", "UPOS", "a word a line, as in CoNLL-U; forms and their parts of speech")
    name = file_name(files[0])
    return _detect_jsonl(name, sample) if kind == "jsonl" else _detect_tabular(name, sample)


def detect_kind(paths: Paths) -> Kind:
    """What `detect_format` would say, for a caller who names the columns or keys."""
    return _look(as_paths(paths))[0]


def _look(files: Sequence[str | Path]) -> tuple[Kind, list[str]]:
    """The kind of the files, and the first lines of the first."""
    if not files:
        raise UsageError("no file was given: name one file of pairs, or two parallel files")
    if any(str(path) == STDIN for path in files):
        raise UsageError(
            "standard input cannot be looked at before it is read: say which format it has (for JSONL also which keys)"
        )
    endings = {_ending(path) for path in files}
    if len(files) == 2 and endings not in ({".tsv"}, {".jsonl"}):
        return "parallel", []
    sample = _first_lines(files[0])
    if endings <= {".jsonl", ".json"} or (sample[0].startswith("{") and "\t" not in sample[0]):
        return "jsonl", sample
    return "conllu" if _is_conllu(sample) or all(ending.startswith(".conllu") for ending in endings) else "tsv", sample


def _is_conllu(sample: Sequence[str]) -> bool:
    """Whether a sentence begins: comments, and then a word of number 1 in ten columns (or six, without its tree)."""
    word = next((line for line in sample if not line.startswith("#")), "").split("\t")
    return word[0] in ("1", "0.1") or bool(re.fullmatch("1-[0-9]+", word[0])) if len(word) in (6, 10) else False


def _ending(path: str | Path) -> str:
    ending = Path(str(path).removesuffix(".gz")).suffix.lower()
    return ".jsonl" if ending in (".jsonl", ".ndjson", ".jsonlines") else ending


def _first_lines(path: str | Path) -> list[str]:
    """The first lines that can be decoded and are not blank; at least one."""
    name = file_name(path)
    sample: list[str] = []
    bad: BadLine | None = None
    for raw in islice(read_raw_lines(path), SAMPLE_LINES):
        try:
            text = decode(raw, name)
        except BadLine as error:
            bad = bad or error
            continue
        if text.strip():
            sample.append(text)
    if sample:
        return sample
    if bad:
        raise bad
    raise DataError(f"{name}:1: the file is empty or starts with {SAMPLE_LINES} blank lines. Is it the right file?")


def _detect_jsonl(name: str, sample: Sequence[str]) -> DetectedFormat:
    array = "a JSON array; write one object a line, for example with: jq -c '.[]' FILE > NEWFILE.jsonl"
    fault = ""
    for line in sample if sample[0].strip() != "[" else ():
        try:
            record = parse_record(line)
            keys = choose_keys(record)
        except ValueError as error:
            fault = fault or str(error)
            continue
        if keys:
            reason = f"lines are JSON objects; keys {keys[0]!r} and {keys[1]!r}"
            return DetectedFormat("jsonl", keys[0], keys[1], reason)
        there = ", ".join(repr(excerpt(key, 20)) for key in list(record)[:8]) or "none"
        fault = fault or f"say which keys are source and target (`data.source`, `data.target`); there are: {there}"
    if sample[0].lstrip().startswith("["):
        fault = array
    raise DataError(f"{name}:1: no JSON records with source and target found: {fault}. Found: {excerpt(sample[0])}")


def _detect_tabular(name: str, sample: Sequence[str]) -> DetectedFormat:
    rows = [line.split("\t") for line in sample]
    if sum(len(row) > 1 for row in rows) * 2 < len(rows):
        also = " (commas: turn the CSV into tab-separated columns)" if "," in sample[0] else ""
        raise DataError(
            f"{name}:1: no tab in the line, so it holds no pair{also}. Expected are two columns separated by a tab, "
            "JSON objects a line each, or two parallel files; texts alone are for a language model, in a recipe with "
            f"`data.format: lines` (regard new language). Found: {excerpt(sample[0])}"
        )
    if inflection := _detect_inflection(rows):
        return inflection
    names = tuple(cell.strip().lower() for cell in rows[0])
    for source, target in FAMILIAR_KEYS:
        if source in names and target in names:
            first, second = rows[0][names.index(source)], rows[0][names.index(target)]
            reason = f"columns separated by tabs; the first line is a header with {first!r} and {second!r}"
            return DetectedFormat("tsv", first, second, reason)
    columns = len(rows[0])
    used = "" if columns == 2 else f"; the first two of {columns} are used"
    return DetectedFormat("tsv", 0, 1, f"columns separated by tabs{used}")


def _detect_inflection(rows: Sequence[Sequence[str]]) -> DetectedFormat | None:
    if sum(len(row) == 3 for row in rows) < MOST * len(rows):
        return None
    found: tuple[tuple[Format, re.Pattern[str]], ...] = (
        ("sigmorphon2016", NAMED_BUNDLE),
        ("sigmorphon2017", BUNDLE),
        ("sigmorphon2023", BUNDLE),
    )
    for year, pattern in found:
        column = INFLECTION[year].features
        bundles = [row[column] for row in rows if len(row) == 3 and pattern.fullmatch(row[column])]
        if len(bundles) >= MOST * len(rows):
            what = f"column {column + 1} holds features such as {excerpt(bundles[0], 30)}"
            return DetectedFormat(year, 0, 1, f"three columns, {what}, as in {year.upper()[:10]} {year[10:]}")
    return None
