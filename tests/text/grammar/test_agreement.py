"""German agreement, judged from the finished sentences by tables of its own: none of the grammar's rules is used."""

import re
from collections.abc import Iterator, Mapping

import pytest
from tests.text.grammar.helpers import sample

from rela.text.grammar.nouns import NOUNS
from rela.text.grammar.pairs import GrammarPair

CASES = "nadg"
# For each form of the article: gender (or p for the plural) and case.
ARTICLES = {
    "der": "mn fd fg pg", "die": "fn fa pn pa", "das": "nn na", "den": "ma pd", "dem": "md nd", "des": "mg ng",
}  # fmt: skip
DIES = {"er": "mn fd fg pg", "e": "fn fa pn pa", "es": "nn na mg ng", "en": "ma pd", "em": "md nd"}
EIN = {"": "mn nn na", "e": "fn fa pn pa", "en": "ma pd", "em": "md nd", "er": "fd fg pg", "es": "mg ng"}
STEMS = {
    **dict.fromkeys(["dies", "jed", "welch", "einig", "viel", "mehrer", "all", "beid"], DIES),
    **dict.fromkeys(["ein", "kein", "mein", "dein", "sein", "ihr", "unser"], EIN),
}
PLURAL_ONLY = {"einig", "viel", "mehrer", "all", "beid"}
WEAK = {"mn": "e", "fn": "e", "fa": "e", "nn": "e", "na": "e"}  # en everywhere else
MIXED = {"mn": "er", "fn": "e", "fa": "e", "nn": "es", "na": "es"}  # en everywhere else
STRONG = {
    "mn": "er", "ma": "en", "md": "em", "mg": "en", "fn": "e", "fa": "e", "fd": "er", "fg": "er", "nn": "es",
    "na": "es", "nd": "em", "ng": "en", "pn": "e", "pa": "e", "pd": "en", "pg": "er",
}  # fmt: skip
CONTRACTED = {
    "im": "md nd", "am": "md nd", "zum": "md nd", "beim": "md nd", "vom": "md nd", "zur": "fd", "ins": "na",
    "ans": "na",
}  # fmt: skip
GOVERNED = {
    "mit": "d", "von": "d", "zu": "d", "bei": "d", "nach": "d", "für": "a", "ohne": "a", "um": "a", "wegen": "g",
    "trotz": "g", "während": "g", "im": "d", "am": "d", "zum": "d", "zur": "d", "vom": "d", "beim": "d", "ins": "a",
    "ans": "a",
    "auf": "ad", "in": "ad", "an": "ad", "vor": "d", "über": "a", "hinter": "d", "neben": "d", "unter": "d",
}  # fmt: skip


def read_nouns(tables: Mapping[str, str] = NOUNS) -> dict[str, set[str]]:
    """Gender and case of every form of every noun, read from the lexicon but inflected here."""
    found: dict[str, set[str]] = {}
    for table in tables.values():
        for line in table.strip().splitlines():
            gender, word, genitive, plural = line.split("|")[1].split()
            for case in CASES:
                form = word
                if (genitive[0] == "+" and case != "n") or case == "g":
                    form = word + genitive[1:]
                found.setdefault(form, set()).add(gender + case)
                if plural != "-":
                    form = plural + "n" if case == "d" and plural[-1] not in "ns" else plural
                    found.setdefault(form, set()).add("p" + case)
    return found


NOUN_FORMS = read_nouns()


def read_determiner(word: str) -> tuple[set[str], dict[str, str] | None] | None:
    """What a determiner may be, and the endings of an adjective after it (None: strong)."""
    if word in ARTICLES:
        return set(ARTICLES[word].split()), WEAK
    for stem, endings in STEMS.items():
        ending = word.removeprefix(stem)
        if word.startswith(stem) and ending in endings:
            places = set(endings[ending].split())
            if stem in PLURAL_ONLY:
                places = {place for place in places if place[0] == "p"}
            after = MIXED if endings is EIN else WEAK if stem not in {"einig", "viel", "mehrer"} else None
            return places, after
    return None


def noun_groups(pair: GrammarPair) -> Iterator[tuple[str, str, str, str]]:
    """Preposition, determiner, adjective and noun, each of the first three possibly empty."""
    words, tags = pair.target_words, pair.target_tags
    for index, tag in enumerate(tags):
        if tag != "NOUN" or words[index] not in NOUN_FORMS:
            continue
        start = index
        adjective = determiner = preposition = ""
        if tags[start - 1] == "ADJ" and start:
            start -= 1
            adjective = words[start]
        if start and tags[start - 1] in {"DET", "NUM"}:
            start -= 1
            determiner = words[start]
        if start and tags[start - 1] == "ADP" and words[start - 1] in GOVERNED:
            preposition = words[start - 1]
        yield preposition, determiner, adjective, words[index]


def lower(word: str) -> str:
    return word[:1].lower() + word[1:]


def test_determiner_adjective_and_noun_agree():
    checked = 0
    for pair in sample():
        for preposition, determiner, adjective, noun in noun_groups(pair):
            places = set(NOUN_FORMS[noun])
            endings: dict[str, str] | None = None
            if lower(preposition) in CONTRACTED and not determiner:
                places &= set(CONTRACTED[lower(preposition)].split())
                endings = WEAK
            elif determiner and (read := read_determiner(lower(determiner))):
                places &= read[0]
                endings = read[1]
            if preposition:
                places = {place for place in places if place[1] in GOVERNED[lower(preposition)]}
            if adjective:
                table = STRONG if endings is None else endings
                places = {place for place in places if re.search(table.get(place, "en") + "$", adjective)}
            assert places, (pair.target, preposition, determiner, adjective, noun)
            checked += 1
    assert checked > 10_000


@pytest.mark.parametrize("wrong", ["den alte Hund", "der Hunde", "ein altes Hund", "mit den Hund", "dem Studenten"])
def test_the_check_finds_errors(wrong: str):
    """It lets only the right ones pass (the last one is right)."""
    *front, noun = wrong.split()
    preposition = front.pop(0) if front[0] == "mit" else ""
    read = read_determiner(front[0])
    assert read is not None
    places = NOUN_FORMS[noun] & read[0]
    if preposition:
        places = {place for place in places if place[1] == "d"}
    if len(front) == 2 and read[1] is not None:
        places = {place for place in places if front[1].endswith(read[1].get(place, "en"))}
    right = {"dem Studenten": {"md"}, "der Hunde": {"pg"}}
    assert places == right.get(wrong, set())


FIRST = {"bin", "habe", "werde", "kann", "muss", "darf", "will", "mag", "weiß"}
PLURAL = {"sind"}


def test_finite_verbs_agree_with_pronouns():
    """A pronoun that opens the sentence, and the verb after it."""
    checked = dict.fromkeys(["Ich", "Du", "Wir", "Er"], 0)
    for pair in sample():
        pronoun, verb = pair.target_words[:2]
        if pronoun not in checked or pair.target_tags[1] not in {"VERB", "AUX"}:
            continue
        checked[pronoun] += 1
        if pronoun == "Ich":
            assert verb in FIRST or (verb[-1] == "e" or not verb.endswith(("st", "en"))) or verb == "las", pair.target
        elif pronoun == "Du":
            assert verb.endswith("st") or re.search("[sßz]t$", verb), pair.target
        elif pronoun == "Wir":
            assert verb in PLURAL or verb.endswith("n"), pair.target
        else:
            assert not verb.endswith(("st", "en")) or re.search("^ist$|^(ver)?l(ie|äs)st$|sst$|wächst$|reist$", verb), (
                pair.target
            )
    assert min(checked.values()) > 50


def test_finite_verbs_agree_with_nouns():
    """A sentence that begins with determiner and noun, then the finite verb: plural if the English noun is."""
    singular = plural = 0
    for pair in sample():
        if pair.target_tags[:2] != ("DET", "NOUN") or pair.target_tags[2] not in {"VERB", "AUX"}:
            continue
        noun, verb = pair.target_words[1:3]
        if noun not in NOUN_FORMS or pair.target_words[0].startswith("Welch"):
            continue  # no subject
        read = read_determiner(lower(pair.target_words[0]))
        assert read is not None
        places = {place for place in NOUN_FORMS[noun] & read[0] if place[1] == "n"}
        assert places, pair.target
        numbers = {place[0] == "p" for place in places}
        many = verb == "sind" or (verb.endswith("n") and not verb.endswith("nn"))
        assert many in numbers, pair.target
        singular += not many
        plural += many
    assert min(singular, plural) > 100


SEIN = {
    "geschwommen", "aufgestanden", "aufgewacht", "eingeschlafen", "angekommen", "verschwunden", "gesprungen",
    "abgefahren", "gewachsen", "gefolgt", "geblieben", "gegangen", "gelaufen", "gekommen", "zurückgegangen",
    "gewandert", "geflogen", "gereist", "umgezogen", "gefahren", "zurückgekommen", "gewesen",
}  # fmt: skip


def test_auxiliaries_of_the_perfect():
    """English *have* or *had* and a participle: German *sein* for verbs of motion and change, else *haben*."""
    counts = {"sein": 0, "haben": 0}
    for pair in sample():
        links = dict(pair.sure)
        for i, word in enumerate(pair.source_words):
            if word not in {"has", "have", "had"} or pair.source_tags[i] != "AUX" or "been" in pair.source_words:
                continue
            auxiliary = pair.target_words[links[i]]
            after = [k for k in range(i + 1, len(pair.source_tags)) if pair.source_tags[k] == "VERB"]
            participles = {pair.target_words[j] for k, j in pair.sure if after and k == after[0]}
            kind = "haben" if re.match("ha(be|st|t|ben|tte|tten|ttest)$", lower(auxiliary)) else "sein"
            assert (kind == "sein") == bool(participles & SEIN), pair.target
            counts[kind] += 1
    assert min(counts.values()) > 50


CONJUNCTIONS = {"weil", "obwohl", "wenn", "bevor", "nachdem", "als", "dass", "ob", "bis"}


def test_verbs_stand_last_in_subordinate_clauses():
    checked = 0
    for pair in sample():
        words, tags = pair.target_words, pair.target_tags
        for index, word in enumerate(words):
            if word in CONJUNCTIONS and tags[index] == "SCONJ" and "," not in words[index:]:
                assert words[index - 1] == ",", pair.target
                assert tags[-2] in {"VERB", "AUX"}, pair.target
                checked += 1
    assert checked > 500


def test_relative_clauses_have_commas_and_the_verb_last():
    checked = 0
    for pair in sample():
        words, tags = pair.target_words, pair.target_tags
        for index in range(1, len(words) - 1):
            if tags[index] == "PRON" and words[index - 1] == "," and words[index] in {*ARTICLES, "denen"}:
                end = next(k for k in range(index, len(words)) if words[k] in ",.?")
                assert tags[end - 1] in {"VERB", "AUX"}, pair.target
                places = set(ARTICLES[words[index]].split())
                heads = [k for k in range(index) if tags[k] == "NOUN"]
                genders = {place[0] for k in heads for place in NOUN_FORMS.get(words[k], ())}
                assert genders & {place[0] for place in places}, pair.target
                checked += 1
    assert checked > 200


def test_the_verb_is_second():
    """Statements with a fronted adverbial: the finite verb follows at once."""
    checked = 0
    fronts = {
        ("Gestern",),
        ("Heute",),
        ("Morgen",),
        ("Letzte", "Woche"),
        ("Am", "Abend"),
        ("Im", "Sommer"),
        ("Jeden", "Tag"),
    }
    for pair in sample():
        for front in fronts:
            if pair.target_words[: len(front)] == front:
                assert pair.target_tags[len(front)] in {"VERB", "AUX"}, pair.target
                checked += 1
    assert checked > 50


def test_nouns_have_capitals():
    for pair in sample():
        for word, tag in zip(pair.target_words[1:], pair.target_tags[1:], strict=True):
            if tag != "PUNCT":
                assert word[0].isupper() == (tag in {"NOUN", "PROPN"}), (pair.target, word)


def test_english_articles():
    odd = re.compile(r"\b[Aa] (?:[aeio]|u(?!ni|se)|hour|honest)|\b[Aa]n (?:[^aeiouh]|uni|use|h(?!our|onest))")
    for pair in sample():
        assert not odd.search(pair.source), pair.source
