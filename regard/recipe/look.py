"""A recipe for data without a recipe: look at the pairs, choose by the rules, and say why.

The order of decisions: format and task; what a token is on each side; one vocabulary or two; the model and its training
by the number of target tokens; lengths; metrics. The numbers are in `rules`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from regard.data.formats import DEFAULT_COLUMNS, INFLECTION, DetectedFormat, Format, detect_format
from regard.data.ledger import Ledger
from regard.data.readers import read_examples, settle_format
from regard.errors import DataError, UsageError
from regard.recipe import rules
from regard.recipe.layout import literals
from regard.recipe.measure import Figures, SideFigures, measure, overlap
from regard.recipe.overrides import parse_override
from regard.recipe.read import STANDARD_INPUT, recipe_from
from regard.recipe.schema import Recipe
from regard.recipe.templates import tasks

LOOKED_AT = ("translation", "inflection")
FORMATS = ("auto", *literals(Format))
_ENDINGS = (".gz", ".tsv", ".txt", ".jsonl", ".json", ".ndjson")
_SIBLINGS = {"valid": ("valid", "dev", "val"), "test": ("test",)}
_PLURALS = {"character": "characters", "word": "words", "bpe": "subwords", "inflection": "characters and features"}


@dataclass(frozen=True, slots=True)
class Looked:
    """A recipe, and for each choice in it a line with the figures that it rests on."""

    recipe: Recipe
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """What tokens are on each side, whether both sides have one vocabulary, and how many subwords there are."""

    source: str
    target: str
    shared: bool
    size: int


def look(path: Path, *more: Path, overrides: Sequence[str] = ()) -> Looked:
    """Choose a recipe for one file of pairs or two parallel files. The data is read once.

    Of the overrides those about columns, format and task are heeded here; all are to be applied to what comes out.
    """
    paths = tuple(each if str(each) == STANDARD_INPUT else Path.cwd() / each for each in (path, *more))
    found = _settled(paths, overrides)
    ledger = Ledger(keep=1)
    examples = read_examples(
        paths, format=found.format, source=found.source, target=found.target, bad_lines="skip", ledger=ledger
    )
    figures = measure(examples)
    if not figures.pairs:
        raise DataError(f"{path}: none of {figures.empty:,} pairs has text on both sides; there is nothing to learn")
    return choose(figures, found, paths)


def _settled(paths: Sequence[Path], overrides: Sequence[str]) -> DetectedFormat:
    """The format that is meant: by what the user says, and else by what the files look like."""
    told = {override.path: override.value for override in map(parse_override, overrides)}
    task, format = told.get(("task",), "translation"), told.get(("data", "format"), "auto")
    source, target = (told.get(("data", name), usual) for name, usual in (("source", 0), ("target", 1)))
    if task not in LOOKED_AT and task in tasks():
        raise _by_recipe(str(task), paths)
    if format == "lines" or source is None or target is None:
        raise _by_recipe("pretraining" if target is None else "language", paths)
    if format == "auto" and (source, target) == DEFAULT_COLUMNS:
        found = detect_format(paths)
    elif format in FORMATS and isinstance(source, str | int) and isinstance(target, str | int):
        found = DetectedFormat(*settle_format(paths, format, source, target), "as you say")  # type: ignore[arg-type]
    else:  # what it is instead is told when the override is read
        found = detect_format(paths)
    if found.format == "conllu":
        raise _by_recipe("tagging", paths, " data.format=conllu")
    return found


def _by_recipe(task: str, paths: Sequence[Path], further: str = "") -> UsageError:
    names = ",".join(quote(path.name) for path in paths)
    train = names if len(paths) == 1 else f"[{names}]"
    return UsageError(
        f"looking at data finds recipes for {' and '.join(LOOKED_AT)}, not for {task}. Write one and name the data in "
        f"it: regard new {task} -o {task}.yaml, then: regard train {task}.yaml data.train={train}{further}"
    )


def choose(figures: Figures, found: DetectedFormat, paths: Sequence[Path]) -> Looked:
    """The recipe for data with these figures."""
    reasons = [f"format {found.format}: {found.reason}"]
    inflection = found.format in INFLECTION
    units = _choose_units(figures, inflection, reasons)
    tokens = _tokens(figures.target, units.target)
    rule = rules.size_rule(tokens)
    short = (
        units.target == "character" or figures.target.median_words <= rules.SHORT_WORDS or units.source == "character"
    )
    sentences = rule is rules.SENTENCES and units.target == "bpe" and not short
    recipe: dict[str, object] = {
        "task": "inflection" if inflection else "translation",
        "run": f"runs/{_run_name(paths)}",
        "data": _data(figures, found, paths, reasons),
        "text": _text(units),
        "model": _model(rule, units, tokens, reasons, sentences=sentences),
        "training": _training(rule, tokens, reasons, short=short, sentences=sentences),
    }
    _limit_lengths(recipe, figures, units, reasons)
    recipe["evaluation"] = _evaluation(short, reasons)
    return Looked(recipe_from(recipe, name="the recipe chosen by looking"), tuple(reasons))


def _run_name(paths: Sequence[Path]) -> str:
    """The name of one file without its ending; of two that differ in their last part both: `train.en-de`."""
    first, *others = (_stem(path) for path in paths)
    beginning, dot, _ = first.rpartition(".")
    if beginning and all(other.startswith(beginning + dot) for other in others):
        others = [other.removeprefix(beginning + dot) for other in others]
    return "-".join((first, *(other for other in others if other != first)))


def _stem(path: Path) -> str:
    name = path.name
    while name.lower().endswith(_ENDINGS) and len(name) > len(Path(name).suffix):
        name = name.removesuffix(Path(name).suffix)
    return name


def _choose_units(figures: Figures, inflection: bool, reasons: list[str]) -> Units:
    if inflection:
        reasons.append("characters, because this is inflection; each feature of the source is a token of its own")
        return Units("inflection", "character", shared=False, size=8000)
    source, why_source = _choose_unit(figures.source, "source")
    target, why_target = _choose_unit(figures.target, "target")
    # Words on one side of a text that needs subwords on the other would give up the common vocabulary for nothing.
    if {source, target} == {"word", "bpe"}:
        reasons.append(why_source if source == "bpe" else why_target)
        source = target = "bpe"
    elif source == target == "bpe" or why_source == why_target:
        reasons.append(why_source)
    else:
        reasons += [why_source, why_target]
    shared = source == target and _choose_shared(figures, source, reasons)
    sides = [side for side, unit in ((figures.source, source), (figures.target, target)) if unit == "bpe"]
    return Units(source, target, shared, _choose_size(sides, shared, reasons) if sides else 8000)


def _choose_unit(side: SideFigures, name: str) -> tuple[str, str]:
    """What a token of one side is, and why."""
    chance = f"{side.unseen:.1%}" if side.unseen >= 0.001 else f"{side.unseen:.2%}"
    if side.types <= rules.WORD_TYPES and side.unseen <= rules.WORD_UNSEEN and side.median_words > 1:
        return "word", (
            f"words as {name}, because there are only {side.types:,} different ones and {chance} of words in new text "
            "will be unknown"
        )
    if side.median_characters < rules.SHORT_CHARACTERS and side.median_words <= rules.SHORT_WORDS:
        plural = "s" if side.median_words != 1 else ""
        return "character", (
            f"characters as {name}, because the median {name} has {side.median_characters} characters and "
            f"{side.median_words} word{plural}"
        )
    return "bpe", (
        f"subwords, because the {name} has {side.types:,} different words and {chance} of words in new text are new"
    )


def _choose_shared(figures: Figures, unit: str, reasons: list[str]) -> bool:
    if unit == "word":
        share, least, what = overlap(figures.source.vocabulary, figures.target.vocabulary), rules.SAME_WORDS, "words"
    else:
        share, least, what = (
            overlap(figures.source.alphabet, figures.target.alphabet),
            rules.SAME_ALPHABET,
            "characters",
        )
    shared = share >= least
    choice = "one vocabulary for both sides" if shared else "a vocabulary for each side"
    reasons.append(f"{choice}, because {share:.0%} of the target's {what} occur in the source")
    return shared


def _choose_size(sides: Sequence[SideFigures], shared: bool, reasons: list[str]) -> int:
    """A number of subwords that the text can support and that has room for each of its characters and bytes."""
    words = sum(_words(side) for side in sides) * (1 if shared or len(sides) == 1 else 0.5)
    alphabet = set().union(*(side.alphabet for side in sides))
    size = max(rules.subword_rule(words).size, -(-(2 * len(alphabet) + rules.BYTES) // 100) * 100)
    reasons.append(
        f"{size:,} subwords, because there are {words:,.0f} words and {len(alphabet):,} different characters"
    )
    return size


def _words(side: SideFigures) -> float:
    return max(side.words, side.characters / (2 * rules.CHARACTERS_OF_A_WORD))


def _tokens(side: SideFigures, unit: str) -> float:
    match unit:
        case "character":
            return side.characters
        case "word":
            return side.words
        case _:
            return _words(side) * rules.WORDS_TO_SUBWORDS


def _data(figures: Figures, found: DetectedFormat, paths: Sequence[Path], reasons: list[str]) -> dict[str, object]:
    data: dict[str, object] = {"train": _joined(paths), "format": found.format}
    data |= {"source": found.source, "target": found.target}
    for part, names in _SIBLINGS.items():
        beside = _beside(paths, names)
        if beside:
            data[part] = _joined(beside)
            reasons.append(
                f"{', '.join(path.name for path in beside)} as {part} data, because it lies beside the training data"
            )
        else:
            reasons.append(f"{part} data split off the {figures.pairs:,} pairs, because none lies beside them")
    if figures.empty and figures.empty <= rules.FEW_EMPTY * figures.pairs:
        data["empty_lines"] = "skip"
        reasons.append(
            f"pairs with an empty side left out and listed, because there are only {figures.empty:,} of them "
            f"(the first at {figures.first_empty})"
        )
    return data


def _joined(paths: Sequence[Path]) -> str | list[str]:
    return str(paths[0]) if len(paths) == 1 else [str(path) for path in paths]


def _beside(paths: Sequence[Path], names: Sequence[str]) -> tuple[Path, ...]:
    """Files named as the training files are, with another word for `train`; none if one of them is missing."""
    for name in names:
        found = []
        for path in paths:
            other = path.name.replace("train", name, 1)
            variants = [path.with_name(each) for each in (other, other.removesuffix(".gz"), f"{other}.gz")]
            found += [each for each in variants if each != path and each.is_file()][:1]
        if len(found) == len(paths) and all("train" in path.name for path in paths):
            return tuple(found)
    return ()


def _text(units: Units) -> dict[str, object]:
    text: dict[str, object] = {"unit": units.target, "size": units.size, "shared": units.shared}
    if units.source != units.target:
        text["source"] = {"unit": units.source, "size": units.size}
    return text


def _model(
    rule: rules.SizeRule, units: Units, tokens: float, reasons: list[str], *, sentences: bool
) -> dict[str, object]:
    plain = units.target == "word" and units.source == "word"
    layers = min(rule.layers, rules.WORD_LAYERS) if plain else rule.layers
    dropout = min(rule.dropout, rules.WORD_DROPOUT) if plain else rule.dropout
    also = " and words are few and frequent" if plain else ""
    reasons.append(
        f"a Transformer of width {rule.width} with {layers} layers and dropout {dropout}, because there are about "
        f"{tokens:,.0f} target {_PLURALS[units.target]}{also}"
    )
    side = {"kind": "transformer", "heads": rule.heads, **(rules.SENTENCE_SIDES if sentences else {})}
    return {
        "width": rule.width,
        "layers": layers,
        "dropout": dropout,
        "tie": "all" if units.shared else "target",
        "encoder": side,
        "decoder": side,
    }


def _training(
    rule: rules.SizeRule, tokens: float, reasons: list[str], *, short: bool, sentences: bool
) -> dict[str, object]:
    training: dict[str, object] = {
        "steps": rule.steps,
        "batch_tokens": rule.batch_tokens,
        "learning_rate": rules.LEARNING_RATE,
        "warmup": rule.warmup,
        "validate_every": max(rule.steps // rules.VALIDATIONS, 1),
        "patience": rules.PATIENCE,
        "select": "exact" if short else "loss",
        "average": 1 if short else rules.AVERAGE,
        **rules.MEASURED,
        **(rules.SENTENCE_TRAINING if sentences else {}),
    }
    steps = rules.SENTENCE_TRAINING["steps"] if sentences else rule.steps
    assert isinstance(steps, int)
    end = (
        "with a learning rate that falls to 0 at their end, as on Multi30k"
        if sentences
        else f"ending after {rules.PATIENCE} validations without a gain"
    )
    many = "" if sentences else "at most "
    times = steps * rule.batch_tokens / tokens
    reasons.append(f"{many}{steps:,} steps of {rule.batch_tokens:,} tokens, about {times:,.0f} times the data, {end}")
    return training


def _limit_lengths(recipe: dict[str, object], figures: Figures, units: Units, reasons: list[str]) -> None:
    """Leave room for all but one pair in a thousand, within reason."""
    longest = max(_tokens_of_longest(figures.source, units.source), _tokens_of_longest(figures.target, units.target))
    limit = rules.SHORTEST_LIMIT
    while limit < min(longest, rules.LONGEST_LIMIT):
        limit *= 2
    data = recipe["data"]
    assert isinstance(data, dict)
    data["max_length"] = limit
    recipe["search"] = {"max_length": limit, "max_ratio": max(3.0, 2.0 * figures.ratio)}
    reasons.append(f"at most {limit} tokens a side, because all but one pair in a thousand have at most {longest:.0f}")


def _tokens_of_longest(side: SideFigures, unit: str) -> float:
    match unit:
        case "word":
            return side.most_words
        case "bpe":
            return max(side.most_words * 2, side.most_characters / rules.CHARACTERS_OF_A_WORD)
        case _:
            return side.most_characters


def _evaluation(short: bool, reasons: list[str]) -> dict[str, object]:
    if short:
        reasons.append("judged by exact matches, edit distance and token accuracy, because outputs are short")
        return {"metrics": ["exact", "edit_distance", "accuracy"]}
    reasons.append("judged by BLEU, chrF and TER, because outputs are sentences")
    return {"metrics": ["BLEU", "chrF", "TER"]}
