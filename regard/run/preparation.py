"""From the files of a recipe to stores and tokenizers, with a record of everything that was left out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regard.data import Ledger, Store, cache_folder, prepare, read_examples, split_off, store_key
from regard.data.collation import Collation
from regard.data.corpus import Redraw
from regard.data.example import Example, Misfit, NothingToLearn
from regard.data.pictures import beside_files, picture_key
from regard.data.store import hash_file
from regard.errors import DataError
from regard.files import replace_file
from regard.recipe.schema import DataSection, Recipe
from regard.recipe.texts import Texts, build_collation, load_texts, text_names, train_texts
from regard.run.alignment import gold_links
from regard.run.folder import RunFolder
from regard.run.starting import start_texts
from regard.text.tokenizer import Draw

SPLIT_MINIMUM, SPLIT_MAXIMUM = 20, 1000
DRAWN = ("bpe", "unigram", "codes")
"""Units that segment a text in more than one way."""

Paths = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that training needs of the data."""

    texts: Texts
    collation: Collation
    train: Store
    valid: Store
    valid_examples: Sequence[Example]
    tests: Mapping[str, Sequence[Example]]
    split: Mapping[str, Sequence[Example]]
    ledger: Ledger


def examples_of(recipe: Recipe, paths: Paths, ledger: Ledger) -> list[Example]:
    """Read one set of files as the recipe says."""
    return list(_examples(recipe, paths, ledger))


def _examples(recipe: Recipe, paths: Paths, ledger: Ledger | None) -> Iterator[Example]:
    section = recipe.data
    examples = read_examples(
        paths,
        format=section.format,
        source=section.source,
        target=section.target,
        further=(*section.factors, *section.attributes),
        bad_lines=section.bad_lines,
        ledger=ledger,
    )
    return beside_files(examples) if recipe.reads_pictures else examples


class TrainingExamples(Iterable[Example]):
    """The training examples of a recipe, read from their files each time: however many there are, none are held.

    What is found wrong with lines goes to the ledger when they are read for the first time.
    """

    def __init__(self, recipe: Recipe, ledger: Ledger) -> None:
        self._recipe = recipe
        self._ledger: Ledger | None = ledger
        self._count: int | None = None
        self._apart: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[Example]:
        return (example for place, example in self._read() if place not in self._apart)

    def take_out(self, places: Iterable[int]) -> dict[int, Example]:
        """The examples at some places, which are left out from now on."""
        self._apart = frozenset(places)
        return {place: example for place, example in self._read() if place in self._apart}

    def _read(self) -> Iterator[tuple[int, Example]]:
        ledger, self._ledger = self._ledger, None
        count = 0
        for count, example in enumerate(_examples(self._recipe, self._recipe.data.train, ledger), start=1):
            yield count - 1, example
        if self._count not in (None, count):
            raise DataError(
                f"the training data has changed while it was read: there were {self._count:,} examples, and now there "
                f"are {count:,}. Give the same command again"
            )
        self._count = count


def prepare_run(recipe: Recipe, folder: RunFolder) -> Prepared:
    """Read, split, learn the vocabularies (or take those of the folder), encode."""
    ledger = Ledger()
    train, valid, test, split = read_sets(recipe, ledger)
    texts = _texts(recipe, folder, train)
    further = {name: examples_of(recipe, paths, ledger) for name, paths in recipe.data.further.items()}
    key, collation = _text_key(recipe, folder), build_collation(recipe, texts)
    if recipe.model.decoder.attends and recipe.reads_text:
        for example in (*valid, *test, *(one for each in further.values() for one in each)):
            _check_links(collation, example)
    if recipe.data.bad_lines == "refuse":
        for example in (*test, *(one for each in further.values() for one in each)):
            _check_fit(collation, example)
    return Prepared(
        texts=texts,
        collation=collation,
        train=_store(recipe, collation, key, "train", train, ledger),
        valid=_store(recipe, collation, key, "valid", valid, ledger),
        valid_examples=valid,
        tests={"test": test, **further},
        split=split,
        ledger=ledger,
    )


def _check_links(collation: Collation, example: Example) -> None:
    """A link that cannot be is better told before training than after it; columns are told of by themselves."""
    with suppress(Misfit):
        gold_links(example, collation.source.columns(example.source)[0])


def _check_fit(collation: Collation, example: Example) -> None:
    """What cannot be judged is better told before training than after it."""
    try:
        collation.encode(example.source, example.target)
    except NothingToLearn:
        return  # left out and counted
    except Misfit as misfit:
        raise DataError(
            f"{example.place}: {misfit}. Mend the line, or set `data.bad_lines: skip` to judge the others"
        ) from None


def write_prepared(prepared: Prepared, folder: RunFolder) -> None:
    """Write down what was split off the training data, and what was skipped."""
    for name, examples in prepared.split.items():
        _write_examples(folder.data / f"{name}.jsonl", examples)
    folder.data.mkdir(exist_ok=True)
    prepared.ledger.write(folder.data / "skipped.tsv")


def read_sets(
    recipe: Recipe, ledger: Ledger
) -> tuple[TrainingExamples, list[Example], list[Example], dict[str, list[Example]]]:
    """Training, validation and test examples; what the recipe does not name is split off the training data."""
    section = recipe.data
    train = TrainingExamples(recipe, ledger)
    texts = (_text(section, example) for example in train)
    if section.valid is not None and section.test is not None:
        for _ in texts:  # what is wrong with a line is told before anything is made of the others
            pass
        valid, test = (examples_of(recipe, paths, ledger) for paths in (section.valid, section.test))
        return train, valid, test, {}
    split = split_off(texts, share=section.split, seed=recipe.seed, minimum=SPLIT_MINIMUM, maximum=SPLIT_MAXIMUM)
    parts = (("valid", section.valid, split.valid), ("test", section.test, split.test))
    apart = {name: places.tolist() for name, paths, places in parts if paths is None}
    taken = train.take_out(place for places in apart.values() for place in places)
    written = {name: [taken[place] for place in places] for name, places in apart.items()}
    valid, test = (written[name] if paths is None else examples_of(recipe, paths, ledger) for name, paths, _ in parts)
    return train, valid, test, written


def _text(section: DataSection, example: Example) -> str:
    """What must not be seen in training and tested again: the source; without one, the target."""
    if section.source is None:
        return example.target
    further = len(section.factors) + len(section.attributes)
    return example.source.rsplit("\t", further)[0] if further else example.source


def _write_examples(path: Path, examples: Sequence[Example]) -> None:
    lines = (
        json.dumps(
            {**example.fields, "place": {"file": example.place.file, "line": example.place.line}}, ensure_ascii=False
        )
        for example in examples
    )
    replace_file(path, "".join(f"{line}\n" for line in lines).encode())


class Side(Iterable[str]):
    """The texts of one side of examples, however often they are gone through."""

    def __init__(self, examples: Iterable[Example], name: str) -> None:
        self._examples = examples
        self._name = name

    def __iter__(self) -> Iterator[str]:
        return (example.fields[self._name] for example in self._examples)


def _texts(recipe: Recipe, folder: RunFolder, train: Iterable[Example]) -> Texts:
    if all((folder.path / f"{name}.json").is_file() for name in text_names(recipe)):
        return load_texts(recipe, folder.path)
    sources, targets = Side(train, "source"), Side(train, "target")
    texts = start_texts(recipe, lambda rest: train_texts(rest, sources, targets))
    texts.save(folder.path)
    return texts


def _text_key(recipe: Recipe, folder: RunFolder) -> list[str]:
    """What the tokenizers are, byte by byte."""
    files = (path for name in text_names(recipe) for path in sorted(folder.path.glob(f"{name}.*")))
    return [hash_file(path) for path in files]


def _store(
    recipe: Recipe,
    collation: Collation,
    text_key: Sequence[str],
    name: str,
    examples: Iterable[Example],
    ledger: Ledger,
) -> Store:
    section = recipe.data
    given = section.valid if name == "valid" and section.valid is not None else section.train
    files = (given,) if isinstance(given, str) else given
    settings = {
        "set": name,
        "seed": recipe.seed,
        "data": section.model_dump(mode="json", exclude={"train", "valid", "test", "further"}),
        "given": [paths is not None for paths in (section.valid, section.test)],
        "text": list(text_key),
        "shape": recipe.model.shape,
    }
    if recipe.text.reverse_target:
        settings["reverse_target"] = True
    if pictures := collation.source.pictures:
        settings["pictures"] = picture_key(pictures, examples)
    return prepare(
        examples,
        streams=collation.streams,
        bounded=collation.bounded,
        encode=collation.encode,
        folder=cache_folder() / "stores",
        key=store_key(files, settings),
        bad_lines=section.bad_lines,
        empty_lines=section.empty_lines,
        long_lines=section.long_lines,
        max_length=section.max_length,
        ledger=ledger,
    )


def redraw_with(texts: Texts, rate: float, max_length: int) -> Redraw | None:
    """Draw another segmentation of each text in each epoch, or None where the best one is kept.

    Units with one segmentation are left alone: their ids need not survive the way over text. A draw that is longer
    than a side may be is not taken.
    """
    if not rate:
        return None

    def redraw(stream: str, ids: Sequence[int], key: tuple[int, ...]) -> Sequence[int]:
        tokenizer = {"source": texts.source, "target": texts.target}.get(stream)
        if tokenizer is None or tokenizer.unit not in DRAWN:
            return ids
        drawn = tokenizer.encode(tokenizer.decode(ids), Draw(rate=rate, key=key)).ids
        return drawn if len(drawn) <= max_length else ids

    return redraw
