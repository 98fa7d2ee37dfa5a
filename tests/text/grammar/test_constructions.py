# ruff: noqa: E501 (tables: a row a line)
"""Constructions, each built part by part and compared with a sentence pair written by hand."""

import pytest
from tests.text.grammar.helpers import clause, find_adjective, find_verb, links_of, phrase, show

from rela.text.grammar.closed import (
    AND,
    BUT,
    COMMA,
    FIRST_CLAUSE,
    HOME,
    IN_CITY,
    IN_ORDER,
    INFINITIVE_GROUP,
    IT,
    LATER_CLAUSE,
    NAMES,
    PRONOUNS,
    THAN,
    THERE,
    TIMES,
    TO_CITY,
    WHAT,
    WHO,
    WHY,
)
from rela.text.grammar.complexes import (
    CAN,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    INFINITIVE,
    MUST,
    NEVER,
    NO,
    NOT,
    PASSIVE_CAN,
    PASSIVE_FUTURE,
    PASSIVE_PAST,
    PASSIVE_PERFECT,
    PASSIVE_PRESENT,
    PAST,
    PERFECT,
    PLUPERFECT,
    PRESENT,
    PROGRESSIVE,
    SHOULD,
    WANT,
    WANTED,
    WOULD_LIKE,
)
from rela.text.grammar.german import ACCUSATIVE, DATIVE, GENITIVE
from rela.text.grammar.phrases import NOTHING, Phrase, join, join_crosswise
from rela.text.grammar.plans import ASKED, DATIVE_LAST, DATIVE_PRONOUN, INVERTED, PRONOUNS_FIRST, VERB_FINAL
from rela.text.grammar.predications import comparative, copula, predicate, profession
from rela.text.grammar.relatives import relative_pronoun
from rela.text.grammar.sentences import existential

PRONOUN_OBJECT, INDEFINITE_OBJECT = 1, 2
ICH, YOU, HE, SHE, WE, THEY = range(6)


def pronoun(index: int, case: int = 0) -> Phrase:
    return PRONOUNS[index][case].phrase


def time(text: str) -> Phrase:
    """An adverbial of time by its English words."""
    every = (found for times in TIMES.values() for found in times)
    return next(found for found in every if found.english == text)


def city(text: str, choices: tuple[Phrase, ...]) -> Phrase:
    return next(found for found in choices if found.english.split()[1] == text)


MAN, WOMAN, DOG, BOOK = phrase("the man"), phrase("the woman"), phrase("the dog"), phrase("the book", ACCUSATIVE)
THE_DOG = phrase("the dog", ACCUSATIVE)
see, buy, read, call, open_ = (
    find_verb(key) for key in ("see=sehen", "buy=kaufen", "read=lesen", "call=anrufen", "open=aufmachen")
)
sleep, go, help_ = find_verb("sleep=schlafen"), find_verb("go=gehen"), find_verb("help=helfen")
give, explain, wait = find_verb("give=geben"), find_verb("explain=erklären"), find_verb("wait=warten", "prepositional")
remember, hurry, turn_on = find_verb("remember=erinnern"), find_verb("hurry=beeilen"), find_verb("turn_on=einschalten")
WINDOW = phrase("the window", ACCUSATIVE)

PAIRS: list[tuple[Phrase, str, str]] = [
    # tense
    (clause(see, PRESENT, MAN, direct=THE_DOG), "the man sees the dog", "der Mann sieht den Hund"),
    (clause(see, PAST, MAN, direct=THE_DOG), "the man saw the dog", "der Mann sah den Hund"),
    (clause(see, PERFECT, MAN, direct=THE_DOG), "the man has seen the dog", "der Mann hat den Hund gesehen"),
    (clause(see, PLUPERFECT, MAN, direct=THE_DOG), "the man had seen the dog", "der Mann hatte den Hund gesehen"),
    (clause(see, FUTURE, MAN, direct=THE_DOG), "the man will see the dog", "der Mann wird den Hund sehen"),
    (clause(read, PROGRESSIVE, MAN, direct=BOOK), "the man is reading the book", "der Mann liest gerade das Buch"),
    (clause(go, PERFECT, WOMAN, complement=HOME), "the woman has gone home", "die Frau ist nach Hause gegangen"),
    (clause(go, PLUPERFECT, pronoun(ICH), person=0, complement=HOME), "I had gone home", "ich war nach Hause gegangen"),
    (clause(read, PRESENT, pronoun(YOU), person=1, direct=BOOK), "you read the book", "du liest das Buch"),
    # modals
    (clause(buy, CAN, MAN, direct=BOOK), "the man can buy the book", "der Mann kann das Buch kaufen"),
    (clause(buy, MUST, MAN, polarity=NOT, direct=BOOK), "the man must not buy the book", "der Mann darf das Buch nicht kaufen"),
    (clause(buy, HAVE_TO, MAN, polarity=NOT, direct=BOOK), "the man does not have to buy the book", "der Mann muss das Buch nicht kaufen"),
    (clause(buy, HAD_TO, MAN, direct=BOOK), "the man had to buy the book", "der Mann musste das Buch kaufen"),
    (clause(open_, WANT, pronoun(WE), person=3, direct=WINDOW), "we want to open the window", "wir wollen das Fenster aufmachen"),
    (clause(open_, WANTED, MAN, polarity=NOT, direct=WINDOW), "the man did not want to open the window", "der Mann wollte das Fenster nicht aufmachen"),
    (clause(open_, WOULD_LIKE, pronoun(SHE), direct=WINDOW), "she would like to open the window", "sie möchte das Fenster aufmachen"),
    (clause(sleep, SHOULD, phrase("the child+"), person=5), "the children should sleep", "die Kinder sollten schlafen"),
    (clause(sleep, CAN, pronoun(ICH), person=0, polarity=NOT), "I cannot sleep", "ich kann nicht schlafen"),
    (clause(sleep, CAN, MAN, polarity=NOT, order=ASKED), "can the man not sleep", "kann der Mann nicht schlafen"),
    # separable verbs
    (clause(open_, PRESENT, MAN, direct=WINDOW), "the man opens the window", "der Mann macht das Fenster auf"),
    (clause(open_, PERFECT, MAN, direct=WINDOW), "the man has opened the window", "der Mann hat das Fenster aufgemacht"),
    (clause(open_, PAST, MAN, order=VERB_FINAL, opening=FIRST_CLAUSE["because"], direct=WINDOW), "because the man opened the window", "weil der Mann das Fenster aufmachte"),
    (clause(open_, INFINITIVE, NOTHING, order=VERB_FINAL, direct=WINDOW), "to open the window", "das Fenster aufzumachen"),
    (clause(turn_on, PAST, MAN, direct=phrase("the lamp", ACCUSATIVE)), "the man turned on the lamp", "der Mann schaltete die Lampe ein"),
    # negation
    (clause(see, PRESENT, MAN, polarity=NOT, direct=THE_DOG), "the man does not see the dog", "der Mann sieht den Hund nicht"),
    (clause(see, PAST, MAN, polarity=NO, direct=phrase("not_a dog", ACCUSATIVE)), "the man did not see a dog", "der Mann sah keinen Hund"),
    (clause(buy, PERFECT, MAN, polarity=NO, direct=phrase("not_any book+", ACCUSATIVE)), "the man has not bought any books", "der Mann hat keine Bücher gekauft"),
    (clause(buy, CAN, MAN, polarity=NO, direct=phrase("not_a book", ACCUSATIVE)), "the man cannot buy a book", "der Mann kann kein Buch kaufen"),
    (clause(buy, PAST, MAN, polarity=NEVER, direct=BOOK), "the man never bought the book", "der Mann kaufte das Buch nie"),
    (clause(buy, PAST, MAN, polarity=NEVER, what=INDEFINITE_OBJECT, direct=phrase("a book", ACCUSATIVE)), "the man never bought a book", "der Mann kaufte nie ein Buch"),
    (clause(sleep, PAST, MAN, polarity=NOT, place=phrase("the kitchen", DATIVE, ("in", "in"))), "the man did not sleep in the kitchen", "der Mann schlief nicht in der Küche"),
    # word order
    (clause(see, PAST, MAN, direct=THE_DOG, place=phrase("the garden", DATIVE, ("in", "in")), time=time("yesterday")), "the man saw the dog in the garden yesterday", "der Mann sah gestern den Hund im Garten"),
    (clause(see, PAST, MAN, order=INVERTED, opening=time("last week"), direct=THE_DOG), "last week the man saw the dog", "letzte Woche sah der Mann den Hund"),
    (clause(see, PAST, MAN, what=PRONOUN_OBJECT, direct=pronoun(HE, ACCUSATIVE), time=time("yesterday")), "the man saw him yesterday", "der Mann sah ihn gestern"),
    (clause(see, PAST, MAN, direct=THE_DOG, time=time("three days ago")), "the man saw the dog three days ago", "der Mann sah vor drei Tagen den Hund"),
    (clause(find_verb("drive=fahren"), PAST, MAN, complement=city("Munich", TO_CITY), time=time("at eight o'clock")), "the man drove to Munich at eight o'clock", "der Mann fuhr um acht Uhr nach München"),
    (clause(find_verb("fly=fliegen"), FUTURE, pronoun(THEY), person=5, complement=city("Switzerland", TO_CITY), time=time("tomorrow")), "they will fly to Switzerland tomorrow", "sie werden morgen in die Schweiz fliegen"),
    # objects
    (clause(help_, PRESENT, MAN, dative=phrase("the student", DATIVE)), "the man helps the student", "der Mann hilft dem Studenten"),
    (clause(give, PAST, MAN, dative=phrase("the child+", DATIVE), direct=phrase("a ball", ACCUSATIVE)), "the man gave the children a ball", "der Mann gab den Kindern einen Ball"),
    (clause(give, PAST, MAN, flags=DATIVE_PRONOUN, dative=pronoun(SHE, DATIVE), direct=BOOK, time=time("today")), "the man gave her the book today", "der Mann gab ihr heute das Buch"),
    (clause(explain, PERFECT, MAN, flags=DATIVE_LAST, dative=phrase("the neighbor", DATIVE, ("to", "")), direct=phrase("the problem", ACCUSATIVE)), "the man has explained the problem to the neighbor", "der Mann hat dem Nachbarn das Problem erklärt"),
    (clause(wait, PAST, WOMAN, complement=phrase("my brother", ACCUSATIVE, ("for", "auf"))), "the woman waited for my brother", "die Frau wartete auf meinen Bruder"),
    (clause(remember, PAST, WOMAN, complement=phrase("the concert", ACCUSATIVE, ("", "an"))), "the woman remembered the concert", "die Frau erinnerte sich ans Konzert"),
    (clause(hurry, PERFECT, pronoun(ICH), person=0), "I have hurried", "ich habe mich beeilt"),
    (clause(hurry, PAST, MAN, order=INVERTED, opening=time("yesterday"), flags=PRONOUNS_FIRST), "yesterday the man hurried", "gestern beeilte sich der Mann"),
    # prepositions and contractions
    (clause(go, PAST, MAN, complement=phrase("the train_station", DATIVE, ("to", "zu"))), "the man went to the train station", "der Mann ging zum Bahnhof"),
    (clause(go, PAST, MAN, complement=phrase("the school", DATIVE, ("to", "zu"))), "the man went to the school", "der Mann ging zur Schule"),
    (clause(go, PAST, MAN, complement=phrase("the old house", ACCUSATIVE, ("into", "in"))), "the man went into the old house", "der Mann ging ins alte Haus"),
    (clause(sleep, PAST, MAN, place=phrase("the house", DATIVE, ("in front of", "vor"))), "the man slept in front of the house", "der Mann schlief vor dem Haus"),
    (clause(sleep, PAST, MAN, place=phrase("the teacher", GENITIVE, ("because of", "wegen"))), "the man slept because of the teacher", "der Mann schlief wegen des Lehrers"),
    # passive
    (clause(find_verb("build=bauen"), PASSIVE_PAST, phrase("the house")), "the house was built", "das Haus wurde gebaut"),
    (clause(find_verb("build=bauen"), PASSIVE_PERFECT, phrase("the house")), "the house has been built", "das Haus ist gebaut worden"),
    (clause(find_verb("build=bauen"), PASSIVE_CAN, phrase("the house"), order=VERB_FINAL, opening=LATER_CLAUSE["that"]), "that the house can be built", ", dass das Haus gebaut werden kann"),
    (clause(find_verb("build=bauen"), PASSIVE_FUTURE, phrase("the house+"), person=5), "the houses will be built", "die Häuser werden gebaut werden"),
    (clause(call, PASSIVE_PRESENT, WOMAN, what=INDEFINITE_OBJECT, direct=phrase("the doctor", DATIVE, ("by", "von"))), "the woman is called by the doctor", "die Frau wird vom Arzt angerufen"),
    # subordinate clauses
    (join(clause(sleep, PRESENT, MAN), clause(read, PERFECT, WOMAN, order=VERB_FINAL, opening=LATER_CLAUSE["because"], direct=BOOK)), "the man sleeps because the woman has read the book", "der Mann schläft, weil die Frau das Buch gelesen hat"),
    (join(clause(sleep, PAST, DOG, order=VERB_FINAL, opening=FIRST_CLAUSE["when"]), COMMA, clause(read, PAST, WOMAN, order=INVERTED, direct=BOOK)), "when the dog slept, the woman read the book", "als der Hund schlief, las die Frau das Buch"),
    (clause(call, MUST, MAN, order=VERB_FINAL, opening=LATER_CLAUSE["although"], what=PRONOUN_OBJECT, direct=pronoun(WE, ACCUSATIVE)), "although the man must call us", ", obwohl der Mann uns anrufen muss"),
    (join(clause(find_verb("try=versuchen"), PAST, MAN), INFINITIVE_GROUP, clause(open_, INFINITIVE, NOTHING, order=VERB_FINAL, direct=WINDOW)), "the man tried to open the window", "der Mann versuchte, das Fenster aufzumachen"),
    (join(clause(go, PAST, MAN, complement=HOME), IN_ORDER, clause(read, INFINITIVE, NOTHING, order=VERB_FINAL, direct=BOOK)), "the man went home in order to read the book", "der Mann ging nach Hause, um das Buch zu lesen"),
    # relative clauses
    (clause(sleep, PAST, NOTHING, order=VERB_FINAL, opening=relative_pronoun(True, 0, 0)), "who slept", ", der schlief"),
    (clause(see, PERFECT, WOMAN, order=VERB_FINAL, opening=relative_pronoun(False, ACCUSATIVE, 0)), "that the woman has seen", ", den die Frau gesehen hat"),
    # coordination, questions, being
    (join(clause(sleep, PAST, MAN), clause(read, PAST, WOMAN, opening=BUT, direct=BOOK)), "the man slept, but the woman read the book", "der Mann schlief, aber die Frau las das Buch"),
    (join(clause(sleep, PAST, MAN), clause(read, PAST, WOMAN, opening=AND, direct=BOOK)), "the man slept and the woman read the book", "der Mann schlief und die Frau las das Buch"),
    (clause(see, PRESENT, MAN, order=ASKED, direct=THE_DOG), "does the man see the dog", "sieht der Mann den Hund"),
    (clause(read, PAST, MAN, order=ASKED, opening=WHAT), "what did the man read", "was las der Mann"),
    (clause(see, PRESENT, WHO, direct=THE_DOG), "who sees the dog", "wer sieht den Hund"),
    (clause(call, PERFECT, MAN, order=ASKED, opening=WHY, direct=NAMES[0].phrase), "why has the man called Anna", "warum hat der Mann Anna angerufen"),
    (clause(copula(), PRESENT, IT[1].phrase, polarity=NOT, complement=predicate(find_adjective("old"))), "it is not old", "sie ist nicht alt"),
    (clause(copula(), PAST, DOG, complement=join(comparative(find_adjective("old")), THAN, phrase("the cat"))), "the dog was older than the cat", "der Hund war älter als die Katze"),
    (clause(copula(), PERFECT, DOG, complement=join(comparative(find_adjective("dangerous")), THAN, phrase("the lion+"))), "the dog has been more dangerous than the lions", "der Hund ist gefährlicher als die Löwen gewesen"),
    (clause(copula(), PRESENT, pronoun(SHE), direct=profession(0, feminine=True)), "she is a teacher", "sie ist Lehrerin"),
    (clause(existential(), PRESENT, THERE, person=5, direct=phrase("two dog+", ACCUSATIVE), place=city("Berlin", IN_CITY)), "there are two dogs in Berlin", "es gibt zwei Hunde in Berlin"),
    # possessors
    (join_crosswise(phrase("the teacher", GENITIVE), phrase("theirs new car")), "the teacher new car", "das neue Auto des Lehrers"),
    (join(phrase("the door"), phrase("the house", GENITIVE, ("of", ""))), "the door of the house", "die Tür des Hauses"),
]  # fmt: skip


@pytest.mark.parametrize(("built", "english", "german"), PAIRS, ids=[english for _, english, _ in PAIRS])
def test_pairs(built: Phrase, english: str, german: str):
    found = show(built)
    assert found == (english, german.replace(" ,", ",") if not german.startswith(",") else german)


LINKS: list[tuple[Phrase, set[tuple[str, str]], set[tuple[str, str]]]] = [
    (
        clause(see, PRESENT, MAN, polarity=NOT, direct=THE_DOG),
        {("the", "der"), ("man", "Mann"), ("see", "sieht"), ("not", "nicht"), ("the", "den"), ("dog", "Hund")},
        {("does", "sieht")},
    ),
    (
        clause(open_, PRESENT, MAN, direct=phrase("the front_door", ACCUSATIVE)),
        {("the", "der"), ("man", "Mann"), ("opens", "macht"), ("opens", "auf"), ("the", "die"), ("front", "Haustür"), ("door", "Haustür")},
        set(),
    ),
    (
        clause(turn_on, PAST, MAN, direct=phrase("the lamp", ACCUSATIVE)),
        {("the", "der"), ("man", "Mann"), ("turned", "schaltete"), ("on", "ein"), ("the", "die"), ("lamp", "Lampe")},
        {("turned", "ein")},
    ),
    (
        clause(sleep, PAST, MAN, place=phrase("the garden", DATIVE, ("in", "in"))),
        {("the", "der"), ("man", "Mann"), ("slept", "schlief"), ("in", "im"), ("garden", "Garten")},
        {("the", "im")},
    ),
    (
        clause(buy, CAN, MAN, polarity=NO, direct=phrase("not_a book", ACCUSATIVE)),
        {("the", "der"), ("man", "Mann"), ("cannot", "kann"), ("cannot", "kein"), ("buy", "kaufen"), ("book", "Buch")},
        {("a", "kein")},
    ),
    (
        clause(hurry, PERFECT, pronoun(ICH), person=0),
        {("I", "ich"), ("have", "habe"), ("hurried", "beeilt")},
        {("hurried", "mich")},
    ),
    (
        join(INFINITIVE_GROUP, clause(read, INFINITIVE, NOTHING, order=VERB_FINAL, direct=BOOK)),
        {("to", "zu"), ("read", "lesen"), ("the", "das"), ("book", "Buch")},
        set(),
    ),
    (
        clause(explain, PAST, MAN, flags=DATIVE_LAST, dative=phrase("the boy", DATIVE, ("to", "")), direct=phrase("a rule", ACCUSATIVE)),
        {("the", "der"), ("man", "Mann"), ("explained", "erklärte"), ("a", "eine"), ("rule", "Regel"), ("the", "dem"), ("boy", "Jungen")},
        {("to", "dem")},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("built", "sure", "possible"), LINKS, ids=[show(built)[0] for built, _, _ in LINKS])
def test_links(built: Phrase, sure: set[tuple[str, str]], possible: set[tuple[str, str]]):
    assert links_of(built) == (sure, possible)
