"""What the tests of the grammar share: samples, and clauses built part by part."""

from functools import cache
from itertools import islice

from rela.text.grammar.complexes import FINAL, MAIN, NO, POSITIVE, QUESTION, get_complex
from rela.text.grammar.german import NOMINATIVE
from rela.text.grammar.lexicon import Adjective, Noun, Verb, load_lexicon
from rela.text.grammar.links import decode, encode
from rela.text.grammar.pairs import GrammarPair, generate, trace
from rela.text.grammar.phrases import DETERMINERS, Phrase, join, noun_phrase, preposition
from rela.text.grammar.plans import ASKED, PLANS, SUBJECT_FIRST, VERB_FINAL, assemble
from rela.text.grammar.splits import Combination


@cache
def sample(split: str = "train", count: int = 8000) -> tuple[GrammarPair, ...]:
    return tuple(islice(generate(split, count=count), count))


@cache
def traced(split: str, count: int) -> tuple[tuple[GrammarPair, frozenset[Combination]], ...]:
    return tuple(trace(split, seed=1, count=count))


def find_noun(key: str) -> Noun:
    return next(noun for nouns in load_lexicon().nouns.values() for noun in nouns if noun.key == key)


def find_verb(key: str, frame: str = "") -> Verb:
    verbs = (verb for verbs in load_lexicon().verbs.values() for verb in verbs)
    return next(verb for verb in verbs if verb.key == key and frame in ("", verb.frame))


def find_adjective(english: str) -> Adjective:
    return next(adjective for adjective in load_lexicon().adjectives if adjective.english == english)


def phrase(text: str, case: int = NOMINATIVE, before: tuple[str, str] = ("", "")) -> Phrase:
    """``determiner [adjective] noun``; the noun by its key, ``+`` after it for the plural."""
    determiner, *adjective, noun = text.split()
    return noun_phrase(
        find_noun(noun.rstrip("+")),
        int(noun.endswith("+")),
        DETERMINERS[determiner.replace("_", " ")],
        case,
        find_adjective(adjective[0]) if adjective else None,
        preposition(*before),
    )


def clause(
    verb: Verb,
    tense: int,
    subject: Phrase,
    *,
    person: int = 2,
    polarity: int = POSITIVE,
    order: int = SUBJECT_FIRST,
    what: int = 0,
    flags: int = 0,
    **parts: Phrase,
) -> Phrase:
    pieces = {VERB_FINAL: FINAL, ASKED: QUESTION}.get(order, MAIN)
    flags |= 8 if polarity == NO else 0
    return assemble(
        PLANS[order][what][flags], get_complex(verb, tense, person, polarity, pieces), subject=subject, **parts
    )


def show(*phrases: Phrase) -> tuple[str, str]:
    """English and German as they are written, without capital and final mark."""
    english, german, _ = join(*phrases)
    return english.replace(" ,", ","), german.replace(" ,", ",")


def links_of(whole: Phrase) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Sure links and merely possible ones, as pairs of words."""
    english, german, links = whole.spelling.spell()
    sure, possible = decode(links, encode(0, 0))
    named = [{(english[i][0], german[j][0]) for i, j in links} for links in (sure[:-1], possible[:-1])]
    return named[0], named[1] - named[0]
