"""German: verb second, verb last in subordinate clauses, participles and particles at the end, kein, four cases.

The middle of a clause is ordered: pronouns and names, time, recipient, adverb, object, nicht, place, prepositional
object, predicate. An object's relative clause moves to the end of the clause.
"""

from dataclasses import replace

from regard.data.pocket import german_forms as forms
from regard.data.pocket.lexicon_english import VERBS as ENGLISH_VERBS
from regard.data.pocket.lexicon_german import CONTRACTIONS, PREPOSITIONS, TIMES, VERBS
from regard.data.pocket.phrases import (
    Clause,
    Coordination,
    Name,
    NounPhrase,
    Participant,
    Place,
    Pronoun,
    Relative,
    Sentence,
    is_plural,
)
from regard.data.pocket.rendering import Form, Leaf, Node, Phrase, Rendering, finish

_COMMA = Form(",", "PUNCT", ",")
_FULL_STOP = Form(".", "PUNCT", ".")
_QUESTION_MARK = Form("?", "PUNCT", "?")
_NICHT = Form("nicht", "PART", "nicht", "Polarity=Neg")
_UND = Form("und", "CCONJ", "und")
_ABER = Form("aber", "CCONJ", "aber")
_DASS = Form("dass", "SCONJ", "dass")
_MIT = Form("mit", "ADP", "mit")
_ADVERBS = {
    "never": Form("nie", "ADV", "nie"),
    "often": Form("oft", "ADV", "oft"),
    "sometimes": Form("manchmal", "ADV", "manchmal"),
    "always": Form("immer", "ADV", "immer"),
}
_TIME_TAGS = {
    "every_day": ("DET", "NOUN"),
    "in_the_morning": ("ADP", "NOUN"),
    "in_the_evening": ("ADP", "NOUN"),
    "last_year": ("ADJ", "NOUN"),
    "next_week": ("ADJ", "NOUN"),
}
_TIME_LEMMAS = {"jeden": "jeder", "am": "an", "letztes": "letzt", "nächste": "nächst"}


def render(sentence: Sentence) -> Rendering:
    """A sentence in German."""
    if sentence.question:
        return finish(Phrase("S", [*_clause(sentence.main, "", "first"), Leaf(_QUESTION_MARK, ".")]))
    stop = Leaf(_FULL_STOP, ".")
    if sentence.second is None or sentence.link is None:
        return finish(Phrase("S", [*_clause(sentence.main, "", "second"), stop]))
    if sentence.link in ("and", "but"):
        main = Phrase("S", _clause(sentence.main, "", "second"))
        second = Phrase("S", _clause(sentence.second, "2", "second"))
        joint: list[Node] = [Leaf(_UND, "k")] if sentence.link == "and" else [Leaf(_COMMA, "m"), Leaf(_ABER, "k")]
        return finish(Phrase("S", [main, *joint, second, stop]))
    word = _link(sentence.link, sentence.second.tense)
    linked = Phrase("S", [Leaf(Form(word, "SCONJ", word), "k"), *_clause(sentence.second, "2", "last")])
    if sentence.second_first:
        return finish(Phrase("S", [linked, Leaf(_COMMA, "m"), *_clause(sentence.main, "", "first"), stop]))
    return finish(Phrase("S", [*_clause(sentence.main, "", "second"), Leaf(_COMMA, "k"), linked, stop]))


def _link(link: str, tense: str) -> str:
    """`when` is `als` for what happened once, `wenn` otherwise."""
    if link == "when":
        return "als" if tense == "past" else "wenn"
    return {"because": "weil", "while": "während", "if": "wenn"}[link]


def _clause(clause: Clause, path: str, order: str, plural: bool | None = None) -> list[Node]:
    """The words of a clause with its finite verb first, second or last; `plural` serves an empty subject."""
    if plural is None:
        plural = is_plural(clause.subject)
    finite, right = _verbs(clause, path, plural, order == "last")
    front: list[Node] = []
    start: list[Node] = []
    subject: Node | None = None
    if clause.subject is not None:
        subject = _participant(clause.subject, path + "s", "nominative")
        start.append(subject)
    if order == "second":
        front = [_time(clause.time, path)] if clause.time is not None and clause.time_first else [start.pop()]
    middle, extraposed = _middle(clause, path)
    sequence = [*front, *finite, *start, *middle, *right]
    open_relative = isinstance(clause.subject, NounPhrase) and clause.subject.relative is not None
    if subject is not None and open_relative and subject is not sequence[-1]:
        sequence.insert(sequence.index(subject) + 1, Leaf(_COMMA))
    if extraposed is not None:
        sequence.append(extraposed)
    if clause.complement is not None:
        inner = [Leaf(_DASS, path + "k"), *_clause(clause.complement, path + "c", "last")]
        sequence += [Leaf(_COMMA, path + "k"), Phrase("S", inner)]
    return sequence


def _verbs(clause: Clause, path: str, plural: bool, last: bool) -> tuple[list[Node], list[Node]]:
    """What stands in the place of the finite verb, and what closes the clause."""
    entry = VERBS[clause.verb]
    verb, auxiliary = path + "v", path + "x"
    english_preposition = ENGLISH_VERBS[clause.verb].preposition
    absorbed = (path + "vp",) if english_preposition and not entry.preposition else ()
    if clause.tense in ("future", "perfect"):
        helper = Leaf(forms.auxiliary(clause.verb, clause.tense, plural), auxiliary)
        main = Leaf(forms.infinite(clause.verb, clause.tense), verb, *absorbed)
        return ([], [main, helper]) if last else ([helper], [main])
    if last:
        return [], [Leaf(forms.finite(clause.verb, clause.tense, plural, True), verb, auxiliary, *absorbed)]
    finite = forms.finite(clause.verb, clause.tense, plural, False)
    if not entry.particle:
        return [Leaf(finite, verb, auxiliary, *absorbed)], []
    particle = Leaf(Form(entry.particle, "ADP", entry.particle), *(absorbed or (verb,)))
    return [Leaf(finite, verb, auxiliary)], [particle]


def _middle(clause: Clause, path: str) -> tuple[list[Node], Phrase | None]:
    """The middle of the clause in its order, and the relative clause that moves behind it."""
    entry = VERBS[clause.verb]
    early: list[Node] = []
    late: list[Node] = []
    target, negated = clause.object, clause.manner == "not"
    relative: Phrase | None = None
    if isinstance(target, NounPhrase) and target.relative is not None:
        relative = _relative(target.relative, target, path + "oc")
        target = replace(target, relative=None)
    if target is not None and not entry.preposition:
        kein = negated and isinstance(target, NounPhrase) and target.determiner in ("a", "bare", "generic")
        negated = negated and not kein
        node = _participant(target, path + "o", entry.case, path + "n" if kein else None)
        (early if isinstance(target, Pronoun | Name) else late).append(node)
    recipient: list[Node] = []
    if clause.recipient is not None:
        node = _participant(clause.recipient, path + "r", "dative", None, path + "rt")
        (early if isinstance(clause.recipient, Pronoun | Name) else recipient).append(node)
    nodes = early
    if clause.time is not None and not clause.time_first:
        nodes.append(_time(clause.time, path))
    nodes += recipient
    if clause.manner in _ADVERBS:
        nodes.append(Phrase("ADVP", [Leaf(_ADVERBS[clause.manner], path + "n")]))
    nodes += late
    if negated:
        nodes.append(Leaf(_NICHT, path + "n"))
    if clause.place is not None:
        nodes.append(_place(clause.place, path + "l"))
    if target is not None and entry.preposition:
        anchor = path + ("ot" if clause.verb in ("go", "come") else "vp")
        nodes.append(_prepositional(entry.preposition, anchor, target, path + "o", entry.case))
    if clause.predicate is not None:
        nodes.append(Phrase("AP", [Leaf(forms.predicative(clause.predicate), path + "p")]))
    return nodes, relative


def _participant(
    participant: Participant, path: str, case: str, negation: str | None = None, marker: str | None = None
) -> Node:
    """`marker` is the anchor of an English `to` or `of` that the case expresses."""
    extra = () if marker is None else (marker,)
    match participant:
        case NounPhrase():
            return _noun_phrase(participant, path, case, negation=negation, marker=marker)
        case Name(text):
            return Phrase("NP", [Leaf(forms.name(text, False), path, *extra)])
        case Pronoun(text):
            return Phrase("NP", [Leaf(forms.pronoun(text, case), path, *extra)])
        case Coordination(first, second):
            one = _participant(first, path + "1", case, negation, marker)
            two = _participant(second, path + "2", case)
            return Phrase("NP", [one, Leaf(_UND, path + "&"), two])


def _noun_phrase(
    phrase: NounPhrase,
    path: str,
    case: str,
    *,
    negation: str | None = None,
    marker: str | None = None,
    article: bool = True,
) -> Phrase:
    """`article` False leaves the article to a contraction before the phrase."""
    children: list[Node] = []
    name = phrase.determiner
    extra = () if marker is None else (marker,)
    if isinstance(phrase.possessor, Name):
        children.append(Leaf(forms.name(phrase.possessor.name, True), path + "g", path + "go", *extra))
    elif negation is not None:
        anchors = (negation, path + "d") if name == "a" else (negation,)
        name = "no"
        children.append(Leaf(forms.determiner(name, phrase.noun, phrase.plural, case), *anchors))
    elif name not in ("bare", "generic") and article:
        children.append(Leaf(forms.determiner(name, phrase.noun, phrase.plural, case), path + "d", *extra))
    for index, adjective in enumerate(phrase.adjectives):
        form = forms.adjective(adjective, name, phrase.noun, phrase.plural, case)
        children.append(Leaf(form, f"{path}a{index}"))
    children.append(Leaf(forms.noun(phrase.noun, phrase.plural, case), path))
    if isinstance(phrase.possessor, NounPhrase):
        children.append(_noun_phrase(phrase.possessor, path + "g", "genitive", marker=path + "go"))
    if phrase.attire is not None:
        attire = _noun_phrase(phrase.attire, path + "w", "dative")
        children.append(Phrase("PP", [Leaf(_MIT, path + "wo"), attire]))
    if phrase.relative is not None:
        children.append(_relative(phrase.relative, phrase, path + "c"))
    return Phrase("NP", children)


def _relative(relative: Relative, head: NounPhrase, path: str) -> Phrase:
    clause = relative.clause
    case = "nominative" if relative.role == "subject" else VERBS[clause.verb].case
    pronoun = forms.relative_pronoun(head.noun, head.plural, case)
    plural = head.plural if relative.role == "subject" else is_plural(clause.subject)
    words = _clause(clause, path, "last", plural)
    return Phrase("S", [Leaf(_COMMA, path + "k"), Leaf(pronoun, path + "k"), *words])


def _prepositional(preposition: str, anchor: str, target: Participant, path: str, case: str) -> Phrase:
    """A preposition with its phrase, contracted with the article where German does: `im`, `zur`."""
    if isinstance(target, NounPhrase) and target.determiner == "the" and not isinstance(target.possessor, Name):
        article = forms.determiner("the", target.noun, target.plural, case).text
        contracted = CONTRACTIONS.get((preposition, article))
        if contracted is not None:
            word = Leaf(Form(contracted, "ADP", preposition, "Definite=Def|PronType=Art"), anchor, path + "d")
            return Phrase("PP", [word, _noun_phrase(target, path, case, article=False)])
    word = Leaf(Form(preposition, "ADP", preposition), anchor)
    return Phrase("PP", [word, _participant(target, path, case)])


def _place(place: Place, path: str) -> Phrase:
    on_the_shore = place.preposition == "on" and place.phrase.noun == "bank_river"
    preposition = "an" if on_the_shore else PREPOSITIONS[place.preposition]
    return _prepositional(preposition, path + "t", place.phrase, path, "dative")


def _time(name: str, path: str) -> Phrase:
    words = TIMES[name]
    if len(words) == 1:
        anchors = (path + "td", path + "tn")
        return Phrase("ADVP", [Leaf(Form(words[0], "ADV", words[0]), *anchors)])
    first, second = (
        Form(word, tag, _TIME_LEMMAS.get(word, word)) for word, tag in zip(words, _TIME_TAGS[name], strict=True)
    )
    label = "PP" if first.tag == "ADP" else "NP"
    return Phrase(label, [Leaf(first, path + "td"), Leaf(second, path + "tn")])
