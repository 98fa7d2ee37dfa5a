"""Who does what to whom: judged from the finished sentences, by words, tags and links."""

import re
from collections import Counter

from tests.text.grammar.helpers import clause, find_verb, sample, show
from tests.text.grammar.test_agreement import NOUN_FORMS, read_nouns

from rela.text.grammar.closed import FIRST_NAMES, NAMES, PRONOUNS, TIMES
from rela.text.grammar.complexes import PAST
from rela.text.grammar.lexicon import load_lexicon
from rela.text.grammar.nouns import NOUNS
from rela.text.grammar.pairs import GrammarPair
from rela.text.grammar.phrases import NO_NOMINAL, PRONOUN
from rela.text.grammar.plans import INVERTED, PRONOUNS_FIRST, place_pronouns

NUM_PAIRS = 20_000
GROUP = {"DET", "NUM", "ADJ", "NOUN", "PROPN"}


def test_where_pronouns_stand():
    laura, she, them = NAMES[8], PRONOUNS[3], PRONOUNS[5]
    assert place_pronouns(laura, PRONOUNS[2][1]) == place_pronouns(laura, NO_NOMINAL, them[2]) == PRONOUNS_FIRST
    assert place_pronouns(laura, them[1]) == place_pronouns(laura, NO_NOMINAL, she[2]) == 0
    assert place_pronouns(she[0], PRONOUNS[2][1]) == 0
    friday = next(time for time in TIMES[PAST] if time.english == "on Friday")
    built = clause(
        find_verb("love=lieben"), PAST, laura.phrase, order=INVERTED, opening=friday, what=PRONOUN,
        flags=place_pronouns(laura, them[1]), direct=them[1].phrase,
    )  # fmt: skip
    assert show(built) == ("on Friday Laura loved them", "am Freitag liebte Laura sie")


def test_no_object_that_looks_like_a_subject_comes_first():
    """After *sie* or *ihr* for *her* or *them*, no noun phrase follows that is before it in English."""
    checked = 0
    for pair in sample("train", NUM_PAIRS):
        words, tags = pair.target_words, pair.target_tags
        english = {j: i for i, j in pair.sure}
        for j, word in enumerate(words):
            if word not in {"sie", "ihr"} or tags[j] != "PRON" or pair.source_words[english[j]] not in {"her", "them"}:
                continue
            after = english.get(j + 1)
            follows = after is None or after > english[j] or words[j + 1].startswith("kein")
            assert tags[j + 1] not in GROUP or follows, pair
            checked += tags[j - 1] in {"NOUN", "PROPN"}
    assert checked > 10


def shows_nominative(words: tuple[str, ...], tags: tuple[str, ...]) -> bool:
    """Whether what begins here can be nothing but a subject."""
    if words[0] in {"ich", "du", "er", "wir"}:
        return True
    noun = next(index for index, tag in enumerate(tags) if tag in {"NOUN", "PROPN", "PRON"})
    masculine = "mn" in NOUN_FORMS.get(words[noun], ())
    return masculine and bool(re.match("(der|dieser|jeder|(ein|kein|mein|dein|sein|ihr|unser))$", words[0]))


def is_plural(verb: str) -> bool:
    return verb.endswith("n") and not verb.endswith("nn")


PEOPLE = {noun.english[1][-1] for cls in ("person", "kin", "animal") for noun in load_lexicon().nouns[cls]} - {"sheep"}
LIVING = {noun.english[0][-1] for cls in ("person", "kin", "animal") for noun in load_lexicon().nouns[cls]} | PEOPLE


def test_subjects_of_relative_clauses_are_known_by_their_case_or_the_verb():
    """*die Frau, die er liebt*, *die Frau, die die Kinder lieben*; but not *die Frau, die Laura liebt*."""
    checked = 0
    for pair in sample("train", NUM_PAIRS):
        german = dict(pair.sure)
        for i, word in enumerate(pair.source_words):
            if word != "whom" or pair.target_words[german[i]] not in {"die", "das"}:
                continue
            start = german[i] + 1
            end = next(j for j in range(start, len(pair.target_words)) if pair.target_words[j] in ",.?")
            plural = pair.source_words[i - 1].lower() in PEOPLE
            plain = shows_nominative(pair.target_words[start:], pair.target_tags[start:])
            assert plain or is_plural(pair.target_words[end - 1]) != plural, pair
            checked += 1
    assert checked > 100


def test_subjects_of_questions_are_known_by_their_case_or_the_verb():
    checked = 0
    for pair in sample("train", NUM_PAIRS):
        words = pair.target_words
        if words[0] not in {"Welche", "Welches"}:
            continue
        verb = next(j for j, tag in enumerate(pair.target_tags) if tag in {"VERB", "AUX"})
        nouns = [word for word, tag in zip(pair.source_words, pair.source_tags, strict=True) if tag == "NOUN"]
        if nouns[0] in LIVING:
            plain = shows_nominative(words[verb + 1 :], pair.target_tags[verb + 1 :])
            assert plain or is_plural(words[verb]) != (nouns[0] in PEOPLE), pair
            checked += 1
    assert checked > 10


def nouns_of(pair: GrammarPair) -> Counter[str]:
    """The nouns and first names of the German side, each in its plain form."""
    found = Counter[str]()
    for word, tag in zip(pair.target_words, pair.target_tags, strict=True):
        if tag == "PROPN" and word.removesuffix("s") in FIRST_NAMES:
            found[word.removesuffix("s")] += 1
        elif tag == "NOUN" and word in LEMMAS and word != "Uhr":  # *o'clock*, too
            found[LEMMAS[word]] += 1
    return found


def read_lemmas() -> dict[str, str]:
    forms = {}
    for table in NOUNS.values():
        for line in table.strip().splitlines():
            lemma = line.split("|")[1].split()[1]
            forms |= dict.fromkeys(read_nouns({"": line}), lemma)
    return forms


LEMMAS = read_lemmas()


def test_nobody_and_nothing_is_named_twice():
    for pair in sample("train", NUM_PAIRS) + sample("test-compositional", 2000):
        assert max(nouns_of(pair).values(), default=1) == 1, pair


def test_names_and_owners_occur():
    texts = " ".join(pair.source for pair in sample("train", NUM_PAIRS))
    assert all(f"{name}'s " in texts for name in FIRST_NAMES)
