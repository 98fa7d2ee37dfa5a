"""What is held out, found in the sentences themselves: by their words, tags and links, not by what was drawn."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from tests.text.grammar.helpers import sample

from rela.text.grammar import GrammarPair, held_out_combinations
from rela.text.grammar.german import AUXILIARIES, DATIVE, FEMININE, NOMINATIVE
from rela.text.grammar.lexicon import Noun, Verb, load_lexicon
from rela.text.grammar.splits import (
    DATIVE_OBJECT,
    MODAL_FINAL,
    NOUN_ROLES,
    PASSIVE,
    PERFECT_FRAME,
    PLURAL_OBJECT,
    POSSESSOR,
    VERB_FRAMES,
)

BE = {"be", "been", "am", "is", "are", "was", "were"}
MODAL_FORMS = {
    form
    for name in ("können", "konnten", "müssen", "mussten", "wollen", "wollten", "sollten", "dürfen", "möchten")
    for form in AUXILIARIES[name]
}
INSIDE_A_PHRASE = {"DET", "NUM", "ADJ"}

Found = Iterator[tuple[str, str]]


@cache
def verbs_by_form() -> dict[str, list[Verb]]:
    """By infinitive and participle: in all frames that are held out, the German verb is one of them."""
    found: dict[str, list[Verb]] = {}
    for verb in (verb for verbs in load_lexicon().verbs.values() for verb in verbs):
        for form in {verb.conjugation.infinitive, verb.conjugation.participle}:
            found.setdefault(form, []).append(verb)
    return found


@cache
def nouns_by_form() -> dict[str, list[Noun]]:
    found: dict[str, list[Noun]] = {}
    for noun in {id(noun): noun for nouns in load_lexicon().nouns.values() for noun in nouns}.values():  # unions, too
        for form in {form for forms in noun.german for form in forms}:
            found.setdefault(form, []).append(noun)
    return found


@cache
def forms_of_dative_verbs() -> set[str]:
    """English forms of verbs that may have a dative in German."""
    verbs = [verb for frame in ("dative", "ditransitive", "ditransitive_to") for verb in load_lexicon().verbs[frame]]
    forms = [verb.english for verb in verbs]
    return {form for verb in forms for form in (verb.base, verb.third, verb.past, verb.participle, verb.gerund)}


def find_verb(pair: GrammarPair, i: int, j: int) -> Verb | None:
    """The verb whose main words are linked; of several, the one with the longest particles: *look for*, not *look*."""
    english = pair.source_words
    fitting = [
        verb
        for verb in verbs_by_form().get(pair.target_words[j], [])
        if english[i] in {verb.english.base, verb.english.participle, verb.english.past, verb.english.third}
        and english[i + 1 : i + 1 + len(verb.english.tail)] == verb.english.tail
    ]
    return max(fitting, key=lambda verb: len(verb.english.tail), default=None)


def find_noun(pair: GrammarPair, i: int, j: int) -> tuple[Noun, int] | None:
    """The noun that ends in English word i and is German word j, and its number in English."""
    english = tuple(word.lower().removesuffix("'s") for word in pair.source_words[: i + 1])
    for noun in nouns_by_form().get(pair.target_words[j], []):
        for number, words in enumerate(noun.english):
            if words != ("-",) and english[-len(words) :] == tuple(word.lower() for word in words):
                return noun, number
    return None


def phrase_start(tags: tuple[str, ...], last: int) -> int:
    """Where a noun phrase begins that ends here: before its noun stand adjectives, a determiner or a number."""
    while last > 0 and tags[last - 1] in INSIDE_A_PHRASE:
        last -= 1
        if tags[last] in {"DET", "NUM"}:
            break
    return last


def find_auxiliary(pair: GrammarPair, i: int) -> str:
    """The English auxiliary before a participle; nothing but its subject and adverbs may stand between them.

    A past tense may look like a participle in both languages: "we described", "wir beschrieben".
    """
    for place in reversed(range(i)):
        word, tag = pair.source_words[place].lower(), pair.source_tags[place]
        if tag == "AUX":
            return word
        if tag in {"VERB", "SCONJ", "CCONJ", "PUNCT"} or word in {"who", "whom", "that"}:
            break
    return ""


def frames_in(pair: GrammarPair) -> Found:
    """Verbs in the passive, the perfect, and beside a modal at the end of a clause."""
    german, german_tags = pair.target_words, pair.target_tags
    for i, j in pair.sure:
        if (pair.source_tags[i], german_tags[j]) != ("VERB", "VERB"):
            continue
        verb = find_verb(pair, i, j)
        if verb is None:
            continue
        if pair.source_words[i] == verb.english.participle and german[j] == verb.conjugation.participle:
            auxiliary = find_auxiliary(pair, i)
            if auxiliary in BE:
                yield verb.key, PASSIVE
            if auxiliary in {"have", "has", "had", "been"}:
                yield verb.key, PERFECT_FRAME
        after = german[j + 2] if german[j + 1] == "werden" else german[j + 1]
        if after in MODAL_FORMS and german_tags[j + 1] == "AUX":
            yield verb.key, MODAL_FINAL


def roles_in(pair: GrammarPair) -> Found:
    """Nouns as owners, as dative objects and as plural accusative objects."""
    for i, j in pair.sure:
        if (pair.source_tags[i], pair.target_tags[j]) != ("NOUN", "NOUN"):
            continue
        found = find_noun(pair, i, j)
        if found is None:
            continue
        noun, number = found
        if noun.human and pair.source_words[i].endswith("'s"):
            yield noun.key, POSSESSOR
            continue
        start = phrase_start(pair.target_tags, j)
        if start and pair.target_tags[start - 1] == "ADP":
            continue
        if noun.human and is_dative(pair, noun, number, start, j):
            yield noun.key, DATIVE_OBJECT
        elif number and follows_verb(pair, noun, i):
            yield noun.key, PLURAL_OBJECT


def is_dative(pair: GrammarPair, noun: Noun, number: int, start: int, j: int) -> bool:
    """By the ending of the determiner, or of a plural that has one of its own. No preposition stands before."""
    ending = pair.target_words[start][-2:].lower() if pair.target_tags[start] == "DET" else ""
    if number:
        own = noun.german[1][DATIVE] != noun.german[1][NOMINATIVE]
        return ending == "en" or (own and pair.target_words[j] == noun.german[1][DATIVE])
    return ending == "em" or (ending == "er" and noun.gender == FEMININE)


def follows_verb(pair: GrammarPair, noun: Noun, i: int) -> bool:
    """Whether the English noun phrase comes right after a verb, or its particle, whose German has no dative."""
    tags, words = pair.source_tags, pair.source_words
    place = phrase_start(tags, i - len(noun.english[1]) + 1) - 1
    while place > 0 and tags[place] in {"ADP", "ADV"}:
        place -= 1
    return place > 0 and tags[place] == "VERB" and words[place] not in forms_of_dative_verbs()


def find_all(pairs: Iterable[GrammarPair]) -> Counter[tuple[str, str]]:
    return Counter(found for pair in pairs for found in (*frames_in(pair), *roles_in(pair)))


@cache
def found_in(split: str, count: int) -> Counter[tuple[str, str]]:
    return find_all(sample(split, count))


@pytest.mark.parametrize("kind", [*VERB_FRAMES, *NOUN_ROLES])
def test_not_in_training(kind: str) -> None:
    held_out = {tuple(combination) for combination in held_out_combinations() if combination.frame == kind}
    found = found_in("train", 8000)
    assert {one: count for one, count in found.items() if one in held_out} == {}
    assert sum(count for (_, frame), count in found.items() if frame == kind) > 100  # with other words


@pytest.mark.parametrize("kind", [*VERB_FRAMES, *NOUN_ROLES])
def test_in_the_compositional_test(kind: str) -> None:
    """So what is looked for in training would be found there."""
    held_out = {tuple(combination) for combination in held_out_combinations() if combination.frame == kind}
    found = set(found_in("test-compositional", 2000))
    assert len(held_out & found) >= 0.7 * len(held_out), held_out - found


def test_a_passive_beside_a_modal_has_both() -> None:
    pairs = [pair for pair in sample() if "werden kann" in pair.target or "werden muss" in pair.target]
    assert len(pairs) > 10
    both = [{frame for _, frame in frames_in(pair)} >= {PASSIVE, MODAL_FINAL} for pair in pairs]
    assert sum(both) > 0.9 * len(both)
