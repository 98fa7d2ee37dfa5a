# ruff: noqa: E501 (tables: a row a line)
"""Forms of nouns, determiners, adjectives and verbs, against paradigms written by hand."""

import pytest
from tests.text.grammar.helpers import find_noun, find_verb, phrase

from rela.text.grammar.english import EnglishVerb, takes_an, with_s
from rela.text.grammar.german import Conjugation, decline_noun


@pytest.mark.parametrize(
    ("key", "singular", "plural"),
    [
        ("man", "Mann Mann Mann Mannes", "Männer Männer Männern Männer"),
        ("woman", "Frau Frau Frau Frau", "Frauen Frauen Frauen Frauen"),
        ("student", "Student Studenten Studenten Studenten", "Studenten Studenten Studenten Studenten"),
        ("boy", "Junge Jungen Jungen Jungen", "Jungen Jungen Jungen Jungen"),
        ("car", "Auto Auto Auto Autos", "Autos Autos Autos Autos"),
        ("bus", "Bus Bus Bus Busses", "Busse Busse Bussen Busse"),
        ("secret", "Geheimnis Geheimnis Geheimnis Geheimnisses", "Geheimnisse Geheimnisse Geheimnissen Geheimnisse"),
        ("girl", "Mädchen Mädchen Mädchen Mädchens", "Mädchen Mädchen Mädchen Mädchen"),
        ("kitchen_table", "Küchentisch Küchentisch Küchentisch Küchentisches", "Küchentische Küchentische Küchentischen Küchentische"),
        ("bird", "Vogel Vogel Vogel Vogels", "Vögel Vögel Vögeln Vögel"),
    ],
)  # fmt: skip
def test_nouns(key: str, singular: str, plural: str):
    assert find_noun(key).german == (tuple(singular.split()), tuple(plural.split()))


def test_a_mass_noun_has_no_plural():
    assert decline_noun("Reis", "-es", "-") == (("Reis", "Reis", "Reis", "Reises"), ())


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("the old dog", "der alte Hund / den alten Hund / dem alten Hund / des alten Hundes"),
        ("a old dog", "ein alter Hund / einen alten Hund / einem alten Hund / eines alten Hundes"),
        ("my old dog+", "meine alten Hunde / meine alten Hunde / meinen alten Hunden / meiner alten Hunde"),
        ("bare old dog+", "alte Hunde / alte Hunde / alten Hunden / alter Hunde"),
        ("many old dog+", "viele alte Hunde / viele alte Hunde / vielen alten Hunden / vieler alter Hunde"),
        ("all old dog+", "alle alten Hunde / alle alten Hunde / allen alten Hunden / aller alten Hunde"),
        ("the dark kitchen", "die dunkle Küche / die dunkle Küche / der dunklen Küche / der dunklen Küche"),
        ("no dark kitchen", "keine dunkle Küche / keine dunkle Küche / keiner dunklen Küche / keiner dunklen Küche"),
        ("this expensive car", "dieses teure Auto / dieses teure Auto / diesem teuren Auto / dieses teuren Autos"),
        ("our expensive car", "unser teures Auto / unser teures Auto / unserem teuren Auto / unseres teuren Autos"),
        ("every tall tree", "jeder hohe Baum / jeden hohen Baum / jedem hohen Baum / jedes hohen Baumes"),
        ("bare cold milk", "kalte Milch / kalte Milch / kalter Milch / kalter Milch"),
        ("bare cold coffee", "kalter Kaffee / kalten Kaffee / kaltem Kaffee / kalten Kaffees"),
        ("bare cold water", "kaltes Wasser / kaltes Wasser / kaltem Wasser / kalten Wassers"),
        (
            "a tired student",
            "ein müder Student / einen müden Studenten / einem müden Studenten / eines müden Studenten",
        ),
        ("three red rose+", "drei rote Rosen / drei rote Rosen / drei roten Rosen / drei roter Rosen"),
        ("not_a new book", "kein neues Buch / kein neues Buch / keinem neuen Buch / keines neuen Buches"),
    ],
)
def test_noun_phrases(text: str, forms: str):
    found = [phrase(text, case).german for case in range(4)]
    assert found == forms.split(" / ")


@pytest.mark.parametrize(
    ("key", "forms"),
    [
        ("see=sehen", "sehe siehst sieht sehen; sah sahen; gesehen; zu sehen"),
        ("work=arbeiten", "arbeite arbeitest arbeitet arbeiten; arbeitete arbeiteten; gearbeitet; zu arbeiten"),
        ("open=aufmachen", "mache machst macht machen; machte machten; aufgemacht; aufzumachen"),
        ("call=anrufen", "rufe rufst ruft rufen; rief riefen; angerufen; anzurufen"),
        ("understand=verstehen", "verstehe verstehst versteht verstehen; verstand verstanden; verstanden; zu verstehen"),
        ("repair=reparieren", "repariere reparierst repariert reparieren; reparierte reparierten; repariert; zu reparieren"),
        ("draw=zeichnen", "zeichne zeichnest zeichnet zeichnen; zeichnete zeichneten; gezeichnet; zu zeichnen"),
        ("smile=lächeln", "lächle lächelst lächelt lächeln; lächelte lächelten; gelächelt; zu lächeln"),
        ("dance=tanzen", "tanze tanzt tanzt tanzen; tanzte tanzten; getanzt; zu tanzen"),
        ("know=wissen", "weiß weißt weiß wissen; wusste wussten; gewusst; zu wissen"),
        ("like=mögen", "mag magst mag mögen; mochte mochten; gemocht; zu mögen"),
        ("prepare=vorbereiten", "bereite bereitest bereitet bereiten; bereitete bereiteten; vorbereitet; vorzubereiten"),
        ("try_on=anprobieren", "probiere probierst probiert probieren; probierte probierten; anprobiert; anzuprobieren"),
        ("pray=beten", "bete betest betet beten; betete beteten; gebetet; zu beten"),
        ("hike=wandern", "wandere wanderst wandert wandern; wanderte wanderten; gewandert; zu wandern"),
        ("live=wohnen", "wohne wohnst wohnt wohnen; wohnte wohnten; gewohnt; zu wohnen"),
        ("invite=einladen", "lade lädst lädt laden; lud luden; eingeladen; einzuladen"),
        ("bring=bringen", "bringe bringst bringt bringen; brachte brachten; gebracht; zu bringen"),
    ],
)  # fmt: skip
def test_verbs(key: str, forms: str):
    verb: Conjugation = find_verb(key).conjugation
    present, past, participle, infinitive = forms.split("; ")
    assert list(verb.present[:4]) == present.split()
    assert [verb.past[2], verb.past[3]] == past.split()
    assert verb.participle == participle
    assert " ".join(verb.to_infinitive) == infinitive


def test_english():
    assert [with_s(word) for word in ("dog", "box", "story", "boy", "church", "potato")] == [
        "dogs", "boxes", "stories", "boys", "churches", "potatoes",
    ]  # fmt: skip
    verb = EnglishVerb(["carry"])
    assert (verb.third, verb.past, verb.participle, verb.gerund) == ("carries", "carried", "carried", "carrying")
    assert EnglishVerb(["dance"]).gerund == "dancing"
    assert [takes_an(word) for word in ("apple", "university", "honest", "useful", "house", "umbrella")] == [
        True, False, True, False, False, True,
    ]  # fmt: skip
