"""Verb complexes: everything verbal of a clause, in pieces that the clause puts in their places.

English comes as auxiliary, negation and main verb (*does* - *not* - *turn on*), German as finite verb, reflexive
pronoun, *gerade*, negation and the end of the clause (*schaltet* - - - *nicht* - *ein*). In a verb-final clause the
finite verb stands at the end too. The German tense is a function of the English one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from .german import AUXILIARIES, REFLEXIVE
from .lexicon import Tokens, Verb
from .links import encode

(
    PRESENT, PAST, PERFECT, PLUPERFECT, FUTURE, PROGRESSIVE,
    CAN, COULD, MUST, HAVE_TO, HAD_TO, WANT, WANTED, SHOULD, MAY, WOULD_LIKE,
    PASSIVE_PRESENT, PASSIVE_PAST, PASSIVE_PERFECT, PASSIVE_FUTURE, PASSIVE_CAN, PASSIVE_MUST, PASSIVE_SHOULD,
    INFINITIVE,
) = range(24)  # fmt: skip
MODALS = frozenset({CAN, COULD, MUST, HAVE_TO, HAD_TO, WANT, WANTED, SHOULD, MAY, WOULD_LIKE})
PASSIVE_MODALS = frozenset({PASSIVE_CAN, PASSIVE_MUST, PASSIVE_SHOULD})
PERFECTS = frozenset({PERFECT, PLUPERFECT})
PASSIVES = frozenset({PASSIVE_PRESENT, PASSIVE_PAST, PASSIVE_PERFECT, PASSIVE_FUTURE}) | PASSIVE_MODALS
NUM_TENSES = 24
POSITIVE, NOT, NO, NEVER = range(4)
"""Polarity: *not* is *nicht*; under `NO` it goes into the object's *kein*."""
MAIN, QUESTION, FINAL = range(3)
"""Orders: English subject first; English auxiliary first; German verb last."""

_MODAL_WORDS = {
    CAN: ("can", "können"),
    COULD: ("could", "konnten"),
    MUST: ("must", "müssen"),
    SHOULD: ("should", "sollten"),
    MAY: ("may", "dürfen"),
    PASSIVE_CAN: ("can", "können"),
    PASSIVE_MUST: ("must", "müssen"),
    PASSIVE_SHOULD: ("should", "sollten"),
}
_BE = ("am", "are", "is", "are", "are", "are")
_WAS = ("was", "were", "was", "were", "were", "were")
_TAIL_TAGS = {
    "asleep": "ADJ", "goodbye": "NOUN", "care": "NOUN", "love": "NOUN", "forward": "ADV", "away": "ADV", "along": "ADV",
    "back": "ADV",
}  # fmt: skip


class Word(NamedTuple):
    """A word, its tag and its part in the complex: links join equal parts for the most part, see `_kind`."""

    text: str
    tag: str
    part: str


# Parts. English: verb v, particle t, particle with the meaning of the verb s, auxiliary a, second auxiliary b, *do* d,
# *be* of the progressive g, *to* o, negation n, *cannot* c. German: verb v, prefix x, auxiliary a, second auxiliary b,
# reflexive r, *gerade* e, *zu* z, negation n.
_SURE = {("v", "v"), ("s", "v"), ("a", "a"), ("b", "b"), ("n", "n"), ("o", "z"), ("c", "a"), ("c", "n")}
_POSSIBLE = {("g", "v"), ("g", "e"), ("v", "r"), ("o", "v")}


class Group(NamedTuple):
    """The links between two pieces, one of each side, counted from 0 among those of the complex."""

    english: int
    german: int
    links: tuple[int, ...]


class Complex(NamedTuple):
    """The English pieces (auxiliary, negation, main verb) and German ones (finite, reflexive, adverb, negation, end).

    ``mask`` has a bit for each piece that is not empty, English ones first. ``pattern`` and ``verb`` are what
    it was made from.
    """

    english: tuple[str, ...]
    german: tuple[str, ...]
    mask: int
    verb: Verb
    pattern: Pattern

    @property
    def groups(self) -> tuple[Group, ...]:
        """The links between the pieces."""
        return _link_parts(*["".join([word.part for word in piece]) for piece in self.pattern.pieces])

    def spell(self) -> tuple[Tokens, ...]:
        """The words of all pieces, English ones first."""
        forms = _forms(self.verb)
        return tuple(tuple((forms.get(text, text), tag) for text, tag, _ in piece) for piece in self.pattern.pieces)


class Pattern(NamedTuple):
    """The make-up of a complex: its pieces, with names in place of verb forms.

    ``texts`` are the pieces without tags: in one where no form of the verb is among the words.
    """

    pieces: tuple[list[Word], ...]
    texts: tuple[str | list[str], ...]
    mask: int


def get_complex(verb: Verb, tense: int, person: int, polarity: int, order: int) -> Complex:
    """The complex of these choices, built on first use."""
    key = ((tense * 6 + person) * 4 + polarity) * 3 + order
    found = verb.forms.get(key)
    if found is None:
        found = verb.forms[key] = _build(verb, tense, person, polarity, order)
    return found


class _Traits(NamedTuple):
    """All that the make-up of a complex depends on besides the forms of the verb, which stand for themselves in it."""

    being: bool
    tag: str
    tail: tuple[tuple[str, str], ...]
    """Tags and parts of the fixed particles."""
    prefix: bool
    reflexive: bool
    sein: bool


@cache
def _forms(verb: Verb) -> dict[str, str]:
    """The forms of a verb by what stands for them."""
    english, german = verb.english, verb.conjugation
    forms = {
        "<base>": english.base,
        "<third>": english.third,
        "<past>": english.past,
        "<participle>": english.participle,
        "<gerund>": english.gerund,
        "<Prefix>": german.prefix,
        "<Infinitive>": german.infinitive,
        "<Participle>": german.participle,
        "<zu-Infinitive>": german.to_infinitive[-1],
    }
    for index, word in enumerate(english.tail):
        forms[f"<tail {index}>"] = word
    for person in range(6):
        forms[f"<Present {person}>"] = german.present[person]
        forms[f"<Past {person}>"] = german.past[person]
        forms[f"<Prefix><Present {person}>"] = german.prefix + german.present[person]
        forms[f"<Prefix><Past {person}>"] = german.prefix + german.past[person]
    return forms


@cache
def _traits(verb: Verb) -> _Traits:
    return _Traits(
        verb.frame in {"copula", "existential"},
        "AUX" if verb.frame == "copula" else "VERB",
        tuple((_TAIL_TAGS.get(word, "ADP"), "s" if word == "asleep" else "t") for word in verb.english.tail),
        bool(verb.conjugation.prefix),
        verb.reflexive,
        verb.sein,
    )


def _build(verb: Verb, tense: int, person: int, polarity: int, order: int) -> Complex:
    pattern = _make_pattern(_traits(verb), tense, person, polarity, order)
    forms = _forms(verb)
    texts = tuple([
        text if isinstance(text, str) else " ".join([forms.get(word, word) for word in text]) for text in pattern.texts
    ])  # fmt: skip
    return _make_complex((texts[:3], texts[3:], pattern.mask, verb, pattern))


_make_complex: Callable[[Any], Complex] = partial(tuple.__new__, Complex)


def _english(traits: _Traits, tense: int, person: int, support: bool) -> tuple[list[Word], list[Word]]:
    """The operator, before *not*, and the rest."""
    copula, tag = traits.being, traits.tag
    tail = [Word(f"<tail {index}>", tag, part) for index, (tag, part) in enumerate(traits.tail)]
    third = person == 2

    def main(text: str) -> list[Word]:
        return [Word(text, tag, "v"), *tail]

    base = main("<base>")
    to = Word("to", "PART", "o")
    have = Word("has" if third else "have", "AUX", "a")
    if copula and tense in {PRESENT, PAST}:
        return main((_BE if tense == PRESENT else _WAS)[person]), []
    if tense in {PRESENT, PAST}:
        if support:
            return [Word("did" if tense == PAST else "does" if third else "do", "AUX", "d")], base
        return [], main("<past>" if tense == PAST else "<third>" if third else "<base>")
    if tense in {HAVE_TO, HAD_TO, WANT, WANTED}:
        word = "have" if tense in {HAVE_TO, HAD_TO} else "want"
        past = tense in {HAD_TO, WANTED}
        if support:
            return [Word("did" if past else "does" if third else "do", "AUX", "d")], [
                Word(word, "VERB", "a"),
                to,
                *base,
            ]
        finite = {"have": ("had", "has"), "want": ("wanted", "wants")}[word]
        text = finite[0] if past else finite[1] if third else word
        return [], [Word(text, "VERB", "a"), to, *base]
    if tense == WOULD_LIKE:
        return [Word("would", "AUX", "a")], [Word("like", "VERB", "a"), to, *base]
    if tense in {PERFECT, PLUPERFECT}:
        return [have if tense == PERFECT else Word("had", "AUX", "a")], main("<participle>")
    if tense == FUTURE:
        return [Word("will", "AUX", "a")], base
    if tense == PROGRESSIVE:
        return [Word(_BE[person], "AUX", "g")], main("<gerund>")
    if tense in {PASSIVE_PRESENT, PASSIVE_PAST}:
        return [Word((_BE if tense == PASSIVE_PRESENT else _WAS)[person], "AUX", "a")], main("<participle>")
    if tense == PASSIVE_PERFECT:
        return [have], [Word("been", "AUX", "b"), *main("<participle>")]
    if tense == PASSIVE_FUTURE:
        return [Word("will", "AUX", "a")], [Word("be", "AUX", "b"), *main("<participle>")]
    if tense == INFINITIVE:
        return [], [to, *base]
    modal = Word(_MODAL_WORDS[tense][0], "AUX", "a")
    if tense in PASSIVE_MODALS:
        return [modal], [Word("be", "AUX", "b"), *main("<participle>")]
    return [modal], base


def _german(traits: _Traits, tense: int, person: int, forbidden: bool) -> tuple[Word, list[Word]]:
    """The finite verb, and what stands before it in a verb-final clause."""
    tag = traits.tag

    def auxiliary(name: str) -> Word:
        return Word(AUXILIARIES[name][person], "AUX", "a")

    participle = Word("<Participle>", tag, "v")
    infinitive = Word("<Infinitive>", tag, "v")
    passive = [participle, Word("werden", "AUX", "b")]
    if tense in {PRESENT, PAST, PROGRESSIVE}:
        finite = Word(f"<Past {person}>" if tense == PAST else f"<Present {person}>", tag, "v")
        return finite, [Word("<Prefix>", "ADP", "x")] if traits.prefix else []
    if tense == PERFECT:
        return auxiliary("sein" if traits.sein else "haben"), [participle]
    if tense == PLUPERFECT:
        return auxiliary("waren" if traits.sein else "hatten"), [participle]
    if tense == PASSIVE_PRESENT:
        return auxiliary("werden"), [participle]
    if tense == PASSIVE_PAST:
        return auxiliary("wurden"), [participle]
    if tense == PASSIVE_PERFECT:
        return auxiliary("sein"), [participle, Word("worden", "AUX", "b")]
    if tense == PASSIVE_FUTURE:
        return auxiliary("werden"), passive
    names = {FUTURE: "werden", WANT: "wollen", WANTED: "wollten", HAVE_TO: "müssen", HAD_TO: "mussten"}
    names[WOULD_LIKE] = "möchten"
    name = names.get(tense) or _MODAL_WORDS[tense][1]
    if forbidden and name == "müssen" and tense != HAVE_TO:
        name = "dürfen"  # what one must not do, "darf man nicht"; but "muss man nicht ...?"
    return auxiliary(name), passive if tense in PASSIVE_MODALS else [infinitive]


@cache
def _make_pattern(traits: _Traits, tense: int, person: int, polarity: int, order: int) -> Pattern:
    """The pattern of all complexes with these traits and choices."""
    negated = polarity in {NOT, NO}
    operator, rest = _english(traits, tense, person, support=negated or order == QUESTION)
    negation = [Word("never" if polarity == NEVER else "not", "ADV" if polarity == NEVER else "PART", "n")]
    if polarity == POSITIVE:
        negation = []
    if negated and tense in {CAN, PASSIVE_CAN} and order != QUESTION:
        operator, negation = [], [Word("cannot", "AUX", "c")]  # one word: it stands where the negation stands
    german_negation = (
        [Word("nie" if polarity == NEVER else "nicht", "ADV" if polarity == NEVER else "PART", "n")] if negation else []
    )
    if polarity == NO:
        german_negation = []
    finite: list[Word] = []
    if tense == INFINITIVE:
        end = [*([] if traits.prefix else [Word("zu", "PART", "z")]), Word("<zu-Infinitive>", traits.tag, "v")]
    else:
        word, end = _german(traits, tense, person, forbidden=negated and order != QUESTION)
        if order != FINAL:
            finite = [word]
        elif end and end[-1].part == "x":
            end = [Word(end[-1].text + word.text, word.tag, "v")]
        else:
            end = [*end, word]
    reflexive = [Word(REFLEXIVE[person], "PRON", "r")] if traits.reflexive else []
    adverb = [Word("gerade", "ADV", "e")] if tense == PROGRESSIVE else []
    pieces = (operator, negation, rest, finite, reflexive, adverb, german_negation, end)
    words = [[word.text for word in piece] for piece in pieces]
    texts = tuple([some if "<" in "".join(some) else " ".join(some) for some in words])
    return Pattern(pieces, texts, sum([1 << index for index, piece in enumerate(pieces) if piece]))


@cache
def _link_parts(*pieces: str) -> tuple[Group, ...]:
    """The links between the three English and five German pieces that consist of these parts."""
    english, german = pieces[:3], pieces[3:]
    parts = set("".join(german))
    particle = bool({"s", "t"} & set("".join(english)))
    found: list[Group] = []
    for e, own in enumerate(english):
        for d, foreign in enumerate(german):
            kinds = {
                (i, j): _kind(first, second, parts, particle)
                for i, first in enumerate(own)
                for j, second in enumerate(foreign)
            }
            links = tuple(encode(i, j, sure) for (i, j), sure in kinds.items() if sure is not None)
            if links:
                found.append(Group(e, d, links))
    return tuple(found)


def _kind(own: str, foreign: str, parts: set[str], particle: bool) -> bool | None:
    """Sure, possible or no link between two parts; ``parts`` are those on the German side."""
    if (own, foreign) in _SURE:
        return True
    if own == "d":  # *do* carries what the German finite verb carries
        return False if foreign == ("a" if "a" in parts else "v") else None
    if own == "t":
        return True if foreign == ("x" if "x" in parts else "v") else None
    if (own, foreign) == ("v", "x"):
        return not particle
    if (own, foreign) == ("o", "v") and "z" in parts:
        return None
    return False if (own, foreign) in _POSSIBLE else None
