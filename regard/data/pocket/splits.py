"""Training, validation and two test sets of the pocket world, by seed.

`test` holds sentences that training does not; `combinations` holds sentences with at least one pair of known words (an
adjective with a noun, a verb with its object) that occurs nowhere else. All four are distinct sentences.

That they are distinct, and that the later sets have no sentence of the earlier and no word form that training has not,
makes them slightly different from the distribution they are drawn from: common sentences, which would repeat, are
rarer. Against the exact entropy of 25.99 nats per English sentence (seed 1, `World.entropy`) sentences that are not
among 20,000 training sentences have 0.14 nats more, those not among 200,000 have 0.57 more; as they are also longer,
their exact perplexity per word is higher by 0.1 % and 0.4 %. The chance of drawing 1000 of them is larger: 0.23 nats.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Final

from regard.data.pocket.alignment import align, pharaoh
from regard.data.pocket.rendering import Rendering
from regard.data.pocket.rules import Pair
from regard.data.pocket.world import Derivation, World, check_language
from regard.errors import UsageError

HELD_OUT_SHARE: Final = 0.08
"""How many of all combinations are kept for the combinations set."""

LARGEST_SHARE: Final = 0.25
"""How many of its own combinations a word may lose at most."""

KNOWN_WORDS_FROM: Final = 5000
"""From this training size on, every word form outside training occurs in training."""

NAMES: Final = ("train", "valid", "test", "combinations")


@dataclass(frozen=True, slots=True)
class PocketExample:
    """A sentence pair with gold annotations, as written to the .jsonl files; items of a list are joined by spaces.

    `log_probability` is that of the derivation under the whole grammar; `topic`, `sentiment` and `rating` are explained
    in `labels`.
    """

    source: str
    target: str
    alignment: str
    source_tags: str
    target_tags: str
    source_tree: str
    source_lemmas: str
    target_lemmas: str
    log_probability: float
    topic: str
    sentiment: str
    rating: float

    def record(self) -> dict[str, str | float]:
        """The example as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Splits:
    """The four sets, and the combinations that only the last one has."""

    train: tuple[PocketExample, ...]
    valid: tuple[PocketExample, ...]
    test: tuple[PocketExample, ...]
    combinations: tuple[PocketExample, ...]
    held_out: frozenset[Pair]

    def named(self) -> dict[str, tuple[PocketExample, ...]]:
        """The sets by name, in the order they are written."""
        return dict(zip(NAMES, (self.train, self.valid, self.test, self.combinations), strict=True))


def examples(
    *, size: int = 20000, seed: int = 1, source: str = "en", target: str = "de", world: World | None = None
) -> Splits:
    """Draw the four sets in memory; `size` is the number of training sentences, the others have up to 1000 each."""
    check_language(source)
    check_language(target)
    if source == target:
        raise UsageError(f"source and target are both {source!r}; choose two different languages of en, de, fr")
    if size < 1:
        raise UsageError(f"size is {size}; ask for at least 1 training sentence")
    world = world or World()
    held_out = choose_held_out(world, seed)
    drawing = _Drawing(world, source, target, require_known=size >= KNOWN_WORDS_FROM)
    smaller = min(1000, max(50, size // 20))

    def usual(derivation: Derivation) -> bool:
        return held_out.isdisjoint(derivation.combinations)

    def unusual(derivation: Derivation) -> bool:
        return not held_out.isdisjoint(derivation.combinations)

    return Splits(
        train=drawing.draw(Random(f"pocket {seed} train"), size, usual, training=True),  # noqa: S311
        valid=drawing.draw(Random(f"pocket {seed} valid"), smaller, usual),  # noqa: S311
        test=drawing.draw(Random(f"pocket {seed} test"), smaller, usual),  # noqa: S311
        combinations=drawing.draw(Random(f"pocket {seed} combinations"), smaller, unusual),  # noqa: S311
        held_out=held_out,
    )


def choose_held_out(world: World, seed: int) -> frozenset[Pair]:
    """Pairs to keep out of training: none with an ambiguous word, and at most a quarter of the pairs of any word."""
    every = sorted(world.combinations())
    totals = Counter(word for pair in every for word in pair)
    lost: Counter[str] = Counter()
    candidates = [pair for pair in every if not any("_" in word for word in pair)]
    Random(f"pocket {seed} held out").shuffle(candidates)  # noqa: S311
    chosen: list[Pair] = []
    for pair in candidates:
        if len(chosen) >= math.ceil(HELD_OUT_SHARE * len(every)):
            break
        if all(lost[word] + 1 <= LARGEST_SHARE * totals[word] for word in pair):
            chosen.append(pair)
            lost.update(pair)
    return frozenset(chosen)


class _Drawing:
    """Draws distinct sentences and remembers what training has seen."""

    def __init__(self, world: World, source: str, target: str, *, require_known: bool) -> None:
        self._world = world
        self._source = source
        self._target = target
        self._require_known = require_known
        self._seen: set[str] = set()
        self._known_source: set[str] = set()
        self._known_target: set[str] = set()

    def draw(
        self, random: Random, size: int, wanted: Callable[[Derivation], bool], *, training: bool = False
    ) -> tuple[PocketExample, ...]:
        found: list[PocketExample] = []
        for derivation in self._stream(random, wanted):
            if len(found) == size:
                break
            source = derivation.render(self._source)
            target = derivation.render(self._target)
            english = source.text if self._source == "en" else derivation.render("en").text
            # Two tenses can be one French sentence, so a source may repeat where its English does not.
            if source.text in self._seen or english in self._seen:
                continue
            if training:
                self._known_source.update(source.words)
                self._known_target.update(target.words)
            elif self._require_known and not self._known(source, target):
                continue
            self._seen.update((source.text, english))
            found.append(_example(derivation, source, target))
        return tuple(found)

    def _stream(self, random: Random, wanted: Callable[[Derivation], bool]) -> Iterator[Derivation]:
        while True:
            derivation = self._world.sample(random)
            if wanted(derivation):
                yield derivation

    def _known(self, source: Rendering, target: Rendering) -> bool:
        return self._known_source.issuperset(source.words) and self._known_target.issuperset(target.words)


def _example(derivation: Derivation, source: Rendering, target: Rendering) -> PocketExample:
    return PocketExample(
        source=source.text,
        target=target.text,
        alignment=pharaoh(align(source, target)),
        source_tags=" ".join(source.tags),
        target_tags=" ".join(target.tags),
        source_tree=source.tree,
        source_lemmas=" ".join(source.lemmas),
        target_lemmas=" ".join(target.lemmas),
        log_probability=round(derivation.log_probability, 6),
        topic=derivation.topic,
        sentiment=derivation.sentiment,
        rating=derivation.rating,
    )
