"""Back-translation: monolingual text of the target language makes a translation model better (Sennrich et al. 2016).

A reverse model, learned from the same pairs, translates the monolingual text; its translations are synthetic sources of
real targets. The forward model is then learned from scratch from real and synthetic pairs together, and compared with
one that had only the real pairs. Samples teach more than the best translations (Edunov et al. 2018), but where the
reverse model is weak; a tag in front of synthetic sources tells them from real ones (Caswell et al. 2019). With text of
the source language too there can be more rounds, in which the reverse model learns from the forward model's
translations first (Hoang et al. 2018).

All models have the same vocabularies, learned from the real pairs and the monolingual text. In the folder:

data/       the pairs of the recipe as they were read, split once, in both directions
text/       the vocabularies; reverse_text/ the same the other way round
baseline/, reverse/                       runs of the real pairs
round1/     translations.jsonl, mixed.jsonl, final/ (the run); in later rounds also those of the reverse model
backtranslation.json, backtranslation.md  what came of it

Every step looks for what an earlier call has left, and does only what is missing.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

from regard.data import Ledger, read_lines
from regard.errors import DataError, RegardError, UsageError
from regard.metrics.comparison import Difference, compare
from regard.recipe import override_recipe, recipe_from
from regard.recipe.build import build_metrics
from regard.recipe.schema import Recipe
from regard.recipe.texts import Texts, load_texts, text_names, train_texts
from regard.run.folder import RunFolder
from regard.run.preparation import examples_of, read_sets
from regard.run.series import Failed, Finished, Job, digest, train_all
from regard.run.synthetic import (
    Draw,
    Made,
    Mixed,
    Pair,
    Tell,
    Translations,
    mix,
    pair_of,
    read_pairs,
    translate,
    write_pairs,
)

TAG = "<BT>"
STAGES = ("baseline", "reverse", "final")
MOST_LINES = 1_000_000
"""So many lines of monolingual text are looked at for the vocabularies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for. `settings` are overrides by stage, such as ("final", "training.steps=900")."""

    mono: Path
    source_mono: Path | None = None
    rounds: int = 1
    draw: Draw = "sample"
    tagged: bool = True
    share: float = 0.5
    settings: Sequence[tuple[str, str]] = ()
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"share = {self.share}: the share of real pairs must lie between 0 and 1; 0.5 is 1:1")
        if self.rounds < 1:
            raise UsageError(f"rounds = {self.rounds}: there must be at least 1")
        if self.rounds > 1 and self.source_mono is None:
            raise UsageError(
                f"rounds = {self.rounds}: from the second round on the reverse model learns from text of the source "
                "language, too; give a file of it with --source-mono, or take 1 round"
            )
        if self.rounds == 1 and self.source_mono is not None:
            raise UsageError("text of the source language is only used from the second round on; take 2 rounds or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: what was translated, what the mixture was, and the gain over the baseline on the test set."""

    made: Made
    mixed: Mixed
    final: Finished
    gains: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtranslated:
    """What came of it all."""

    folder: Path
    plan: Plan
    baseline: Finished
    reverse: Finished
    rounds: tuple[Round, ...]
    tag_tokens: int
    skipped: str


def backtranslate(recipe: Recipe, plan: Plan, *, tell: Tell = print, overwrite: bool = False) -> Backtranslated:
    """Do all of it, going on where an earlier call stopped, into a folder beside the recipe's own."""
    check_recipe(recipe, plan)
    work = _Work(recipe, plan, tell)
    home = RunFolder(work.folder)
    home.make()
    with home.locked():
        if overwrite:
            work.clear()
        return _done(work, plan)


def _done(work: "_Work", plan: Plan) -> Backtranslated:
    ledger = work.read()
    work.learn_texts()
    runs = work.train(
        Job("baseline", work.recipe("baseline", "forward", "data/forward/train.jsonl", "baseline")),
        Job("reverse", work.recipe("reverse", "reverse", "data/reverse/train.jsonl", "reverse")),
    )
    rounds: list[Round] = []
    reverse, forward = "reverse", "baseline"
    for number in range(1, plan.rounds + 1):
        if number > 1:
            assert plan.source_mono is not None, "checked by Plan"
            reverse, _, _, _ = work.retrain(f"round{number}", "reverse", forward, plan.source_mono)
        forward, made, mixed, final = work.retrain(f"round{number}", "forward", reverse, plan.mono)
        rounds.append(Round(made=made, mixed=mixed, final=final, gains=work.gains(runs["baseline"], final)))
    return Backtranslated(
        folder=work.folder,
        plan=plan,
        baseline=runs["baseline"],
        reverse=runs["reverse"],
        rounds=tuple(rounds),
        tag_tokens=work.tag_tokens,
        skipped=ledger.summary(),
    )


def check_recipe(recipe: Recipe, plan: Plan) -> None:
    """Refuse recipes whose models cannot be turned round, and settings that would have no effect."""
    turned = recipe.model.shape == "encoder-decoder" and recipe.reads_text and recipe.data.target is not None
    if not turned or recipe.data.factors or recipe.data.attributes or recipe.text.unit in ("inflection", "imported"):
        raise UsageError(
            "back-translation needs a recipe that can be turned round: an encoder-decoder from text to text, without "
            "factors or attributes, that learns its own vocabularies"
        )
    for name, value in (("text.start_from", recipe.text.start_from), ("model.start_from", recipe.model.start_from)):
        if value is not None:
            raise UsageError(f"back-translation learns vocabularies and models of its own: leave out `{name}`")
    for stage, setting in plan.settings:
        if stage not in STAGES:
            raise UsageError(f"{stage}.{setting}: settings of one stage begin with {', '.join(STAGES)}")
        if setting.partition("=")[0].split(".")[0] in ("data", "text", "run", "seed", "evaluation"):
            raise UsageError(f"{stage}.{setting}: data, text, seed, run and evaluation are the same for all stages")


class _Work:
    """The folder and its steps."""

    def __init__(self, recipe: Recipe, plan: Plan, tell: Tell) -> None:
        self.base = recipe
        self.plan = plan
        self.tell = tell
        self.folder = Path(f"{recipe.run}-backtranslation")
        self.tag = TAG if plan.tagged else ""

    def clear(self) -> None:
        """Delete what an earlier call left, and nothing else."""
        rounds = (path.name for path in self.folder.glob("round*"))
        for name in ("data", "text", "reverse_text", "baseline", "reverse", *rounds):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def read(self) -> Ledger:
        """Read the sets of the recipe and write them in both directions."""
        ledger = Ledger()
        train, valid, test, _ = read_sets(self.base, ledger)
        sets = {"train": train, "valid": valid, "test": test}
        sets |= {f"further-{name}": examples_of(self.base, paths, ledger) for name, paths in self._further.items()}
        for name, examples in sets.items():
            pairs = [pair_of(example) for example in examples]
            if self.tag and any(TAG in pair.source.split() for pair in pairs):
                raise DataError(
                    f"sources of the set {name} hold {TAG}, which is the tag of synthetic ones; take --untagged"
                )
            write_pairs(self.folder / f"data/forward/{name}.jsonl", pairs)
            write_pairs(self.folder / f"data/reverse/{name}.jsonl", [Pair(one.target, one.source) for one in pairs])
        ledger.write(self.folder / "data/skipped.tsv")
        return ledger

    @property
    def _further(self) -> dict[str, str | tuple[str, ...]]:
        return self.base.data.further

    def learn_texts(self) -> None:
        """Learn the vocabularies from real and monolingual text, once; the tag is a word of the sources."""
        mono = [path for path in (self.plan.mono, self.plan.source_mono) if path is not None]
        record = {
            "format": 1,
            "text": sha256(repr(self.base.text.model_dump()).encode()).hexdigest(),
            "pairs": digest(self.folder / "data/forward/train.jsonl"),
            "mono": [digest(path) for path in mono],
            "tag": self.tag,
        }
        home = RunFolder(self.folder / "text")
        there = home.read_json(home.path / "made.json")
        if there == record:
            self.texts = load_texts(self.base, home.path)
            return
        if isinstance(there, dict):
            differing = [name for name in ("text", "pairs", "mono", "tag") if there.get(name) != record[name]]
            raise UsageError(
                f"{self.folder}: this folder holds a back-translation with other settings or data (different: "
                f"{', '.join(differing)}). Choose another folder with run=FOLDER, or start anew with --overwrite"
            )
        self.tell("learning the vocabularies")
        self.texts = self._trained_texts()
        self._save_texts(home, self.base, self.texts)
        turned = replace(self.texts, source=self.texts.target, target=self.texts.source)
        self._save_texts(RunFolder(self.folder / "reverse_text"), reversed_text(self.base), turned)
        home.write_json(home.path / "made.json", record)

    def _trained_texts(self) -> Texts:
        pairs = list(read_pairs(self.folder / "data/forward/train.jsonl"))
        mono = self._lines(self.plan.mono)
        other = [] if self.plan.source_mono is None else self._lines(self.plan.source_mono)
        if not mono:
            raise DataError(f"{self.plan.mono}: there is not one line of text in it")
        section = self.base.text
        units = {section.unit, *(side.unit for side in (section.source, section.target) if side)}
        # As frequent as a line, a word or its characters are in a vocabulary however small; pieces are told by `whole`.
        tags = [self.tag] * max(len(pairs), len(mono)) if self.tag and not units <= {"bpe", "unigram"} else []
        sources = [*(pair.source for pair in pairs), *other, *tags]
        targets = [*(pair.target for pair in pairs), *mono]
        if self.plan.rounds > 1 and not self.base.text.shared:
            targets += tags
        return train_texts(self.base, sources, targets, whole=[self.tag] if self.tag else [])

    @staticmethod
    def _lines(path: Path) -> list[str]:
        return list(islice((line for line in read_lines(path, bad_lines="blank") if line.strip()), MOST_LINES))

    @staticmethod
    def _save_texts(home: RunFolder, recipe: Recipe, texts: Texts) -> None:
        home.path.mkdir(parents=True, exist_ok=True)
        texts.save(home.path)
        home.write_recipe(recipe)
        assert all((home.path / f"{name}.json").is_file() for name in text_names(recipe))

    @property
    def tag_tokens(self) -> int:
        """Tokens that the tag is made of; 0 without a tag."""
        return len(self.texts.source.encode(self.tag).ids) if self.tag else 0

    def recipe(self, stage: str, direction: str, train: str, run: str) -> Recipe:
        """The recipe of one run: that of the user, its data and vocabularies replaced by those of this folder."""
        base = self.base if direction == "forward" else reversed_text(self.base)
        tree = base.model_dump()
        data = self.folder.absolute() / "data" / direction
        tree["run"] = str(self.folder / run)
        tree["data"] |= {
            "train": str(self.folder.absolute() / train),
            "valid": str(data / "valid.jsonl"),
            "test": str(data / "test.jsonl"),
            "further": {name: str(data / f"further-{name}.jsonl") for name in self._further},
            "format": "jsonl",
            "source": "source",
            "target": "target",
        }
        texts = "text" if direction == "forward" else "reverse_text"
        tree["text"]["start_from"] = str(self.folder.absolute() / texts)
        own = [setting for name, setting in self.plan.settings if name == stage]
        return override_recipe(recipe_from(tree), own)

    def train(self, *jobs: Job) -> dict[str, Finished]:
        """Train in processes of their own; without one of the models there is no going on."""
        results = train_all(jobs, workers=self.plan.workers, tell=self.tell)
        finished: dict[str, Finished] = {}
        for name, result in results.items():
            if isinstance(result, Failed):
                raise _failure(name, result)
            finished[name] = result
        return finished

    def retrain(self, place: str, direction: str, teacher: str, mono: Path) -> tuple[str, Made, Mixed, Finished]:
        """Translate with the teacher, mix, and train the model of the other direction from scratch."""
        prefix = "" if direction == "forward" else "reverse_"
        translations = Translations(
            path=self.folder / place / f"{prefix}translations.jsonl",
            tokenizer=self.texts.target if direction == "forward" else self.texts.source,
            longest=self.base.data.max_length,
        )
        translate(
            self.folder / teacher,
            mono,
            translations.path,
            draw=self.plan.draw,
            seed=self.base.seed,
            workers=self.plan.workers,
            tell=lambda line: self.tell(f"{place}: {line}"),
        )
        made = translations.made()
        mixed = mix(
            list(read_pairs(self.folder / f"data/{direction}/train.jsonl")),
            translations.pairs(),
            self.folder / place / f"{prefix}mixed.jsonl",
            tag=self.tag,
            share=self.plan.share,
            seed=self.base.seed,
            tokenizer=translations.tokenizer,
        )
        run = f"{place}/{'final' if direction == 'forward' else 'reverse'}"
        stage = "final" if direction == "forward" else "reverse"
        job = Job(run, self.recipe(stage, direction, f"{place}/{prefix}mixed.jsonl", run))
        return run, made, mixed, self.train(job)[run]

    def gains(self, baseline: Finished, final: Finished) -> tuple[Difference, ...]:
        """By how much the outputs for the test set are better than those of the baseline."""
        references = [[pair.target] for pair in read_pairs(self.folder / "data/forward/test.jsonl")]
        section = self.base.evaluation
        return tuple(
            compare(metric, baseline.outputs, final.outputs, references, resamples=section.resamples or 1000)
            for metric in build_metrics(section)
        )


def reversed_text(recipe: Recipe) -> Recipe:
    """The recipe with the settings of the two sides' text exchanged."""
    tree = recipe.model_dump()
    tree["text"] |= {"source": tree["text"]["target"], "target": tree["text"]["source"]}
    return recipe_from(tree)


def _failure(name: str, failed: Failed) -> RegardError:
    error = RegardError(f"the run {name} failed: {failed.message}")
    error.exit_code = failed.code
    return error
