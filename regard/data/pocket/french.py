"""French: ne ... pas around the finite verb, clitics before it, adjectives after the noun, agreeing participles.

The past is the passé composé for what happens and the imparfait for states; the perfect is the passé composé too.
"""

from regard.data.pocket import french_forms as forms
from regard.data.pocket.lexicon_english import VERBS as ENGLISH_VERBS
from regard.data.pocket.lexicon_french import ADJECTIVES, NAMES_FEMININE, NOUNS, PREPOSITIONS, TIMES, VERBS
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
_NE = Form("ne", "ADV", "ne", "Polarity=Neg")
_QUE = Form("que", "SCONJ", "que")
_EST_CE = Form("est-ce", "ADV", "est-ce")
_ET = Form("et", "CCONJ", "et")
_MAIS = Form("mais", "CCONJ", "mais")
_DE = Form("de", "ADP", "de")
_DE_ARTICLE = Form("de", "DET", "un")
_BEAUCOUP = Form("beaucoup", "ADV", "beaucoup")
_QUI = Form("qui", "PRON", "qui", "PronType=Rel")
_QUE_RELATIVE = Form("que", "PRON", "que", "PronType=Rel")
_ADVERBS = {
    "not": Form("pas", "ADV", "pas", "Polarity=Neg"),
    "never": Form("jamais", "ADV", "jamais", "Polarity=Neg"),
    "often": Form("souvent", "ADV", "souvent"),
    "sometimes": Form("parfois", "ADV", "parfois"),
    "always": Form("toujours", "ADV", "toujours"),
}
_LINKS = {"because": ("parce", "que"), "when": ("quand",), "while": ("pendant", "que"), "if": ("si",)}
_CONTRACTED = {("à", False): "au", ("à", True): "aux", ("de", False): "du", ("de", True): "des"}
_TIME_LEMMAS = {"l'": "le", "la": "le", "dernière": "dernier", "prochaine": "prochain"}


def render(sentence: Sentence) -> Rendering:
    """A sentence in French."""
    main = Phrase("S", _clause(sentence.main, ""))
    if sentence.question:
        asking: list[Node] = [Leaf(_EST_CE, "q"), Leaf(_QUE, "q")]
        return finish(Phrase("S", [*asking, main, Leaf(_QUESTION_MARK, ".")]), forms.elide)
    stop = Leaf(_FULL_STOP, ".")
    if sentence.second is None or sentence.link is None:
        return finish(Phrase("S", [*main.children, stop]), forms.elide)
    second = Phrase("S", _clause(sentence.second, "2"))
    if sentence.link in ("and", "but"):
        joint: list[Node] = [Leaf(_ET, "k")] if sentence.link == "and" else [Leaf(_COMMA, "m"), Leaf(_MAIS, "k")]
        return finish(Phrase("S", [main, *joint, second, stop]), forms.elide)
    words = [Leaf(Form(word, "SCONJ", word), "k") for word in _LINKS[sentence.link]]
    linked = Phrase("S", [*words, second])
    if sentence.second_first:
        return finish(Phrase("S", [linked, Leaf(_COMMA, "m"), *main.children, stop]), forms.elide)
    return finish(Phrase("S", [*main.children, linked, stop]), forms.elide)


def _clause(clause: Clause, path: str, head: NounPhrase | None = None) -> list[Node]:
    """A clause; `head` is what a relative pronoun stands for and fills the empty place."""
    children: list[Node] = []
    if clause.time is not None and clause.time_first:
        children.append(_time(clause.time, path))
    if clause.subject is not None:
        children.append(_participant(clause.subject, path + "s"))
    children.append(Phrase("VP", [*_verb_group(clause, path, head), *_complements(clause, path)]))
    return children


def _verb_group(clause: Clause, path: str, head: NounPhrase | None) -> list[Node]:
    """ne, clitic, finite verb, pas or adverb, participle."""
    subject = head if clause.subject is None else clause.subject
    plural = is_plural(subject)
    group: list[Node] = []
    if clause.manner in ("not", "never"):
        group.append(Leaf(_NE, path + "n"))
    if isinstance(clause.object, Pronoun):
        group.append(Leaf(forms.pronoun(clause.object.name, "object"), path + "o"))
    if isinstance(clause.recipient, Pronoun):
        group.append(Leaf(forms.pronoun(clause.recipient.name, "recipient"), path + "r", path + "rt"))
    adverb = [Leaf(_ADVERBS[clause.manner], path + "n")] if clause.manner in _ADVERBS else []
    absorbed = (path + "vp",) if ENGLISH_VERBS[clause.verb].preposition else ()
    entry = VERBS[clause.verb]
    if clause.tense == "perfect" or (clause.tense == "past" and not entry.imperfect):
        participle = forms.participle(clause.verb, *_participle_agreement(clause, head))
        auxiliary = Leaf(forms.auxiliary(clause.verb, plural), path + "x")
        return [*group, auxiliary, *adverb, Leaf(participle, path + "v", *absorbed)]
    finite = forms.finite(clause.verb, clause.tense, plural)
    return [*group, Leaf(finite, path + "v", path + "x", *absorbed), *adverb]


def _participle_agreement(clause: Clause, head: NounPhrase | None) -> tuple[str, bool]:
    """With être the participle agrees with the subject, with avoir with an object that stands before it."""
    if VERBS[clause.verb].auxiliary == "être":
        subject = head if clause.subject is None else clause.subject
        return _gender(subject), is_plural(subject)
    if isinstance(clause.object, Pronoun):
        return _gender(clause.object), is_plural(clause.object)
    if head is not None and clause.subject is not None:
        return _gender(head), head.plural
    return "m", False


def _gender(participant: Participant | None) -> str:
    match participant:
        case NounPhrase():
            return NOUNS[participant.noun].gender
        case Name(name):
            return "f" if name in NAMES_FEMININE else "m"
        case Pronoun(name):
            return "f" if name == "she" else "m"
        case Coordination(first, second):
            return "f" if _gender(first) == _gender(second) == "f" else "m"
        case None:
            raise AssertionError("only a relative clause has an empty place, and its head fills it")


def _complements(clause: Clause, path: str) -> list[Node]:
    children: list[Node] = []
    if clause.predicate is not None:
        form = forms.adjective(clause.predicate, _gender(clause.subject), is_plural(clause.subject), False)
        children.append(Phrase("AP", [Leaf(form, path + "p")]))
    if clause.object is not None and not isinstance(clause.object, Pronoun):
        preposition = VERBS[clause.verb].preposition
        if preposition:
            children.append(_prepositional(preposition, path + "ot", clause.object, path + "o"))
        else:
            children.append(_participant(clause.object, path + "o", clause.manner in ("not", "never")))
    if clause.recipient is not None and not isinstance(clause.recipient, Pronoun):
        children.append(_prepositional("à", path + "rt", clause.recipient, path + "r"))
    if clause.place is not None:
        children.append(_place(clause.place, path + "l"))
    if clause.time is not None and not clause.time_first:
        children.append(_time(clause.time, path))
    if clause.complement is not None:
        children.append(Phrase("S", [Leaf(_QUE, path + "k"), *_clause(clause.complement, path + "c")]))
    return children


def _participant(participant: Participant, path: str, negated: bool = False) -> Node:
    match participant:
        case NounPhrase():
            return _noun_phrase(participant, path, negated=negated)
        case Name(name):
            return Phrase("NP", [Leaf(forms.name(name), path)])
        case Pronoun(name):
            return Phrase("NP", [Leaf(forms.pronoun(name, "subject"), path)])
        case Coordination(first, second):
            one, two = _participant(first, path + "1"), _participant(second, path + "2")
            return Phrase("NP", [one, Leaf(_ET, path + "&"), two])


def _noun_phrase(phrase: NounPhrase, path: str, *, negated: bool = False, article: bool = True) -> Phrase:
    """`article` False leaves the article to a contraction before the phrase."""
    gender, plural = NOUNS[phrase.noun].gender, phrase.plural
    noun = forms.noun(phrase.noun, plural)
    before: list[Node] = []
    after: list[Node] = []
    following = noun.text
    for index, name in enumerate(phrase.adjectives):
        form = forms.adjective(name, gender, plural, forms.starts_with_vowel(noun.text))
        if ADJECTIVES[name].before:
            before.append(Leaf(form, f"{path}a{index}"))
            following = form.text
        else:
            after.append(Leaf(form, f"{path}a{index}"))
    children = _determiner(phrase, path, negated, following, bool(before)) if article else []
    children += [*before, Leaf(noun, path), *after]
    if phrase.possessor is not None:
        children.append(_prepositional("de", path + "go", phrase.possessor, path + "g"))
    if phrase.attire is not None:
        children.append(_prepositional("à", path + "wo", phrase.attire, path + "w"))
    if phrase.relative is not None:
        children.append(_relative(phrase.relative, phrase, path + "c"))
    return Phrase("NP", children)


def _determiner(phrase: NounPhrase, path: str, negated: bool, following: str, adjective_first: bool) -> list[Node]:
    """The determiner; `un` and `des` become `de` under negation, `des` also before an adjective."""
    name = phrase.determiner
    if name == "many":
        return [Leaf(_BEAUCOUP, path + "d"), Leaf(_DE, path + "d")]
    anchor = path + "d"
    if isinstance(phrase.possessor, Name):
        anchor = path + "go"
    elif name in ("bare", "generic"):
        anchor = path
    if (negated and name in ("a", "bare")) or (name == "bare" and adjective_first):
        return [Leaf(_DE_ARTICLE, anchor)]
    vowel = forms.starts_with_vowel(following)
    return [Leaf(forms.determiner(name, NOUNS[phrase.noun].gender, phrase.plural, vowel), anchor)]


def _relative(relative: Relative, head: NounPhrase, path: str) -> Phrase:
    pronoun = _QUI if relative.role == "subject" else _QUE_RELATIVE
    return Phrase("S", [Leaf(pronoun, path + "k"), *_clause(relative.clause, path, head)])


def _prepositional(preposition: str, anchor: str, target: Participant, path: str) -> Phrase:
    """A preposition with its phrase; à and de contract with le and les."""
    if isinstance(target, NounPhrase) and target.determiner == "the" and preposition in ("à", "de"):
        noun = NOUNS[target.noun]
        masculine = noun.gender == "m" and not forms.starts_with_vowel(_first_word(target))
        if target.plural or masculine:
            text = _CONTRACTED[preposition, target.plural]
            features = "Definite=Def|" + forms.agreement(noun.gender, target.plural)
            word = Leaf(Form(text, "ADP", preposition, features), anchor, path + "d")
            return Phrase("PP", [word, _noun_phrase(target, path, article=False)])
    word = Leaf(Form(preposition, "ADP", preposition), anchor)
    return Phrase("PP", [word, _participant(target, path)])


def _first_word(phrase: NounPhrase) -> str:
    """The word after the article."""
    if phrase.adjectives and ADJECTIVES[phrase.adjectives[0]].before:
        return ADJECTIVES[phrase.adjectives[0]].masculine
    return NOUNS[phrase.noun].singular


def _place(place: Place, path: str) -> Phrase:
    *front, last = PREPOSITIONS[place.preposition]
    phrase = _prepositional(last, path + "t", place.phrase, path)
    phrase.children[:0] = [Leaf(Form(word, "ADV", word), path + "t") for word in front]
    return phrase


def _time(name: str, path: str) -> Phrase:
    words = TIMES[name]
    if len(words) == 1:
        return Phrase("ADVP", [Leaf(Form(words[0], "ADV", words[0]), path + "tn")])
    if len(words) == 2:
        tags, anchors = ("DET", "NOUN"), (path + "td", path + "tn")
        rows = list(zip(words, tags, anchors, strict=True))
    else:
        rows = list(zip(words, ("DET", "NOUN", "ADJ"), (path + "tn", path + "tn", path + "td"), strict=True))
    return Phrase("NP", [Leaf(Form(word, tag, _TIME_LEMMAS.get(word, word)), anchor) for word, tag, anchor in rows])
