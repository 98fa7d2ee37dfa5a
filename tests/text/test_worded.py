"""Lines as a model reads them, and their words."""

# ruff: noqa: RUF001 (the marks of several languages look alike, and are meant)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.text.worded import Wording
from rela.text.words import word_texts

TOKENISED = Wording(tokenised=True)

JOINED = [
    ("", ""),
    ("A dog , a cat .", "A dog, a cat."),
    ("Well ... what now ?!", "Well... what now?!"),
    ("Wait … he ( the boss ) said [ sic ] : no ;", "Wait… he (the boss) said [sic]: no;"),
    ("( Applause . )", "(Applause.)"),
    ('He said " yes " and " no " .', 'He said "yes" and "no".'),
    ("the word ' yes ' here", "the word 'yes' here"),
    ('the end of it " .', 'the end of it".'),
    ('" It began', '"It began'),
    ("Er sagte „ ja “ , nicht ‚ nein ‘ .", "Er sagte „ja“, nicht ‚nein‘."),
    ("He said “ yes ” and ‘ no ’ .", "He said “yes” and ‘no’."),
    ("« Oui » ¿ sí ?", "«Oui» ¿sí?"),
    ("It 's the dog 's , they 're in , I do n't", "It's the dog's, they're in, I don't"),
    ("It ’s not what they ’ve seen", "It’s not what they’ve seen"),
    ("the members ' rights", "the members' rights"),
    ("Mr Dell ' Alba and Ms O ' Neill", "Mr Dell'Alba and Ms O'Neill"),
    ("l' eau d’ ici", "l'eau d’ici"),
    ("die CO2 -Emissionen und Ein- und -ausfuhr", "die CO2-Emissionen und Ein- und -ausfuhr"),
    ("this - just so - is well-known", "this - just so - is well-known"),
    ("gut so – , aber", "gut so –, aber"),
    ("25 % of them", "25 % of them"),
    ("this and / or that", "this and/or that"),
    ("`` yes '' it is", "``yes'' it is"),
    ("  many\tblanks  here ", "many blanks here"),
]


@pytest.mark.parametrize(("line", "text"), JOINED)
def test_joined_as_raw_text_has_it(line: str, text: str):
    found = TOKENISED.read(line)
    assert found.text == text
    assert found.words == line.split() == word_texts(found.text, found.spans)


@pytest.mark.parametrize("tokenised", [False, True])
def test_replacements_are_whole_words(tokenised: bool):
    wording = Wording(tokenised=tokenised, replacements={"daß": "dass", "muß": "muss", "x": "sehr viel mehr"})
    found = wording.read("Daß er , daß x muß , Nußmuß")
    assert found.words == ["Daß", "er", ",", "daß", "x", "muß", ",", "Nußmuß"]
    assert word_texts(found.text, found.spans) == ["Daß", "er", ",", "dass", "sehr viel mehr", "muss", ",", "Nußmuß"]
    comma = "," if tokenised else " ,"
    assert found.text == f"Daß er{comma} dass sehr viel mehr muss{comma} Nußmuß"


def test_raw_text_stays_as_it_is():
    line = "  Das  Haus, don't!\t"
    found = Wording().read(line)
    assert found.text == line
    assert found.words == word_texts(line, found.spans) == ["Das", "Haus", ",", "don't", "!"]
    same = Wording(replacements={"nothing": "here"}).read(line)
    assert same == found


SIGNS = st.sampled_from([*"\"'“”‘’„‚«»()[]/-.,;:!?%&…`", "'s", "n't", "-x", "l'", "a", "O", "CO2", "dogs", "é\u0301"])
LINES = st.one_of(st.text(), st.lists(SIGNS).map(" ".join))


@given(LINES, st.booleans(), st.dictionaries(SIGNS, st.text(min_size=1)))
def test_no_word_is_lost(line: str, tokenised: bool, replacements: dict[str, str]):
    found = Wording(tokenised=tokenised, replacements=replacements).read(line)
    assert len(found.words) == len(found.spans)
    if tokenised:
        assert found.words == line.split()
    assert word_texts(found.text, found.spans) == [replacements.get(word, word) for word in found.words]
    assert all(a.end <= b.start for a, b in zip(found.spans, found.spans[1:], strict=False))


@given(LINES)
def test_joining_takes_away_blanks_alone(line: str):
    assert "".join(TOKENISED.read(line).text.split()) == "".join(line.split())
