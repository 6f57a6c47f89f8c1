"""Words on a tree: what the language modules build, and what callers get.

Every word carries anchors, names of the parts of the meaning it expresses: `s` is the noun of the subject, `sd` its
determiner, `v` the verb, `n` the negation. Words of two languages that share an anchor are translations of each other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from regard.data.pocket.phrases import Sentence


class Form(NamedTuple):
    """A word form with its Universal part-of-speech tag, lemma and features."""

    text: str
    tag: str
    lemma: str
    features: str = "_"


class Leaf:
    """A word in place; French elision changes its text after the sentence is put together."""

    __slots__ = ("anchors", "form", "text")

    def __init__(self, form: Form, *anchors: str) -> None:
        self.form = form
        self.text = form.text
        self.anchors = anchors


class Phrase:
    """A labelled constituent."""

    __slots__ = ("children", "label")

    def __init__(self, label: str, children: "list[Leaf | Phrase]") -> None:
        self.label = label
        self.children = children


Node = Leaf | Phrase


@dataclass(frozen=True, slots=True)
class Rendering:
    """A sentence in one language with its gold annotations, one entry per word; `tree` is a bracketing."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lemmas: tuple[str, ...]
    features: tuple[str, ...]
    anchors: tuple[tuple[str, ...], ...]
    root: Phrase

    @property
    def text(self) -> str:
        """The tokenised sentence."""
        return " ".join(self.words)

    @property
    def tree(self) -> str:
        """The constituents in brackets, `(S (NP (DET the) (NOUN cat)) ...)`."""
        pieces: list[str] = []
        _bracket(self.root, pieces.append)
        return "".join(pieces)


def leaves(node: Node) -> Iterator[Leaf]:
    """The words of a tree, left to right."""
    if isinstance(node, Leaf):
        yield node
        return
    for child in node.children:
        if isinstance(child, Leaf):
            yield child
        else:
            yield from leaves(child)


def finish(root: Phrase, adjust: Callable[[list[Leaf]], None] | None = None) -> Rendering:
    """Read the words off a tree, after `adjust` has seen them side by side."""
    words = list(leaves(root))
    if adjust is not None:
        adjust(words)
    forms = [leaf.form for leaf in words]
    return Rendering(
        words=tuple([leaf.text for leaf in words]),
        tags=tuple([form.tag for form in forms]),
        lemmas=tuple([form.lemma for form in forms]),
        features=tuple([form.features for form in forms]),
        anchors=tuple([leaf.anchors for leaf in words]),
        root=root,
    )


def _bracket(node: Node, write: Callable[[str], None]) -> None:
    if isinstance(node, Leaf):
        write(f"({node.form.tag} {node.text})")
        return
    write(f"({node.label}")
    for child in node.children:
        write(" ")
        _bracket(child, write)
    write(")")


Renderer = Callable[[Sentence], Rendering]
"""A language: from the meaning of a sentence to its words."""
