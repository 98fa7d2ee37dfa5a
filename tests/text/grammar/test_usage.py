# ruff: noqa: E501 (tables: a row a line)
"""Usage: what a proof-reader found in earlier sentences, and what must not come back."""

import re
from collections.abc import Iterable

import pytest
from tests.text.grammar.helpers import clause, find_adjective, find_noun, find_verb, links_of, phrase, sample, show

from rela.text.grammar.closed import FREQUENCIES, IN_CITY, MANNERS, PLACES, PRONOUNS, THERE, TIMES
from rela.text.grammar.complexes import INFINITIVE, MUST, NEVER, NO, NOT, PASSIVE_PAST, PAST, PERFECT, PRESENT
from rela.text.grammar.german import ACCUSATIVE, DATIVE, GENITIVE
from rela.text.grammar.lexicon import load_lexicon
from rela.text.grammar.nouns import UNIONS
from rela.text.grammar.pairs import GrammarPair
from rela.text.grammar.phrases import INDEFINITE, NOTHING, PRONOUN, Phrase
from rela.text.grammar.plans import (
    ASKED,
    DATIVE_INDEFINITE,
    DATIVE_PRONOUN,
    INVERTED,
    KNOWN_FIRST,
    PRONOUNS_FIRST,
    VERB_FINAL,
)
from rela.text.grammar.sentences import existential


def adverb(english: str, choices: Iterable[Phrase]) -> Phrase:
    return next(found for found in choices if found.english == english)


def place(english: str) -> Phrase:
    return adverb(english, PLACES)


MAN, THEY, US = phrase("the man"), PRONOUNS[5][0].phrase, PRONOUNS[4]
SECRETLY = adverb("secretly", MANNERS["transitive"])
BECAUSE_OF_THE_CHILD = phrase("the child", GENITIVE, ("because of", "wegen"))
A_SOUP, LETTERS = phrase("a soup", ACCUSATIVE), phrase("not_any letter+", ACCUSATIVE)
cook, write, sell, call = (
    find_verb(key) for key in ("cook=kochen", "write=schreiben", "sell=verkaufen", "call=anrufen")
)
hug, thank, arrive, repair = (
    find_verb(key) for key in ("hug=umarmen", "thank=danken", "arrive=ankommen", "repair=reparieren")
)
greet = find_verb("greet=begrüßen")
LAST_WEEK = adverb("last week", TIMES[PAST])
RARELY, PROUDLY = adverb("rarely", FREQUENCIES[PAST]), adverb("proudly", MANNERS["transitive"])

PAIRS: list[tuple[Phrase, str, str]] = [
    # indefinite objects after adverbs
    (clause(cook, PAST, MAN, what=INDEFINITE, direct=A_SOUP, adverbial=SECRETLY), "the man cooked a soup secretly", "der Mann kochte heimlich eine Suppe"),
    (clause(cook, PAST, MAN, direct=phrase("the soup", ACCUSATIVE), adverbial=SECRETLY), "the man cooked the soup secretly", "der Mann kochte die Suppe heimlich"),
    (clause(cook, INFINITIVE, NOTHING, order=VERB_FINAL, what=INDEFINITE, direct=A_SOUP, adverbial=SECRETLY), "to cook a soup secretly", "heimlich eine Suppe zu kochen"),
    (clause(write, PERFECT, MAN, polarity=NO, direct=LETTERS, adverbial=SECRETLY), "the man has not written any letters secretly", "der Mann hat heimlich keine Briefe geschrieben"),
    (clause(write, PAST, MAN, polarity=NEVER, what=INDEFINITE, direct=phrase("a letter", ACCUSATIVE), adverbial=SECRETLY), "the man never wrote a letter secretly", "der Mann schrieb nie heimlich einen Brief"),
    (clause(sell, PAST, MAN, what=INDEFINITE, dative=phrase("this queen", DATIVE), direct=phrase("a radio", ACCUSATIVE), adverbial=SECRETLY), "the man sold this queen a radio secretly", "der Mann verkaufte dieser Königin heimlich ein Radio"),
    (clause(find_verb("see=sehen"), PAST, MAN, what=INDEFINITE, direct=phrase("bare cold field+", ACCUSATIVE), adverbial=place("here")), "the man saw cold fields here", "der Mann sah hier kalte Felder"),
    (clause(cook, PAST, MAN, what=INDEFINITE, direct=A_SOUP, place=IN_CITY[0]), "the man cooked a soup in Berlin", "der Mann kochte eine Suppe in Berlin"),
    (clause(find_verb("help=helfen"), PRESENT, MAN, flags=DATIVE_INDEFINITE, dative=phrase("many child+", DATIVE), adverbial=place("here")), "the man helps many children here", "der Mann hilft hier vielen Kindern"),
    (clause(existential(), PAST, THERE, what=INDEFINITE, direct=phrase("bare water", ACCUSATIVE), adverbial=place("downstairs")), "there was water downstairs", "es gab unten Wasser"),
    (clause(repair, PASSIVE_PAST, phrase("the car"), polarity=NOT, what=INDEFINITE, direct=phrase("the man", DATIVE, ("by", "von")), adverbial=SECRETLY), "the car was not repaired by the man secretly", "das Auto wurde nicht heimlich vom Mann repariert"),
    # causes
    (clause(arrive, PAST, THEY, person=5, polarity=NOT, cause=BECAUSE_OF_THE_CHILD), "they did not arrive because of the child", "sie kamen wegen des Kindes nicht an"),
    (clause(call, PERFECT, MAN, polarity=NOT, direct=phrase("the woman", ACCUSATIVE), cause=phrase("the conference", GENITIVE, ("despite", "trotz"))), "the man has not called the woman despite the conference", "der Mann hat die Frau trotz der Konferenz nicht angerufen"),
    (clause(find_verb("buy=kaufen"), PAST, THEY, person=5, polarity=NO, direct=phrase("not_a fire_truck", ACCUSATIVE), cause=BECAUSE_OF_THE_CHILD, time=LAST_WEEK), "they did not buy a fire truck because of the child last week", "sie kauften letzte Woche wegen des Kindes kein Feuerwehrauto"),
    (clause(call, PAST, MAN, what=PRONOUN, direct=US[1].phrase, cause=phrase("the party", GENITIVE, ("during", "während"))), "the man called us during the party", "der Mann rief uns während der Feier an"),
    # definite objects before time and frequency
    (clause(find_verb("lose=verlieren"), MUST, MAN, polarity=NOT, flags=KNOWN_FIRST, direct=phrase("our report", ACCUSATIVE), time=adverb("tomorrow", TIMES[MUST])), "the man must not lose our report tomorrow", "der Mann darf unseren Bericht morgen nicht verlieren"),
    (clause(greet, PAST, MAN, flags=KNOWN_FIRST, direct=phrase("the guest+", ACCUSATIVE), adverbial=PROUDLY, frequency=RARELY), "the man rarely greeted the guests proudly", "der Mann begrüßte die Gäste selten stolz"),
    (clause(greet, PAST, MAN, direct=phrase("the guest+", ACCUSATIVE), frequency=RARELY), "the man rarely greeted the guests", "der Mann begrüßte selten die Gäste"),
    (clause(find_verb("disappear=verschwinden"), PAST, THEY, person=5, cause=BECAUSE_OF_THE_CHILD, frequency=RARELY), "they rarely disappeared because of the child", "sie verschwanden selten wegen des Kindes"),
    # pronouns before a subject that is none
    (clause(thank, PAST, phrase("three boss+"), person=5, order=INVERTED, opening=LAST_WEEK, flags=DATIVE_PRONOUN | PRONOUNS_FIRST, dative=US[2].phrase), "last week three bosses thanked us", "letzte Woche dankten uns drei Chefs"),
    (clause(hug, PRESENT, phrase("a tired child"), order=ASKED, what=PRONOUN, flags=PRONOUNS_FIRST, direct=US[1].phrase), "does a tired child hug us", "umarmt uns ein müdes Kind"),
    (clause(hug, PRESENT, PRONOUNS[3][0].phrase, order=ASKED, what=PRONOUN, direct=US[1].phrase), "does she hug us", "umarmt sie uns"),
    # what one must not do, and what one is asked about
    (clause(call, MUST, MAN, polarity=NOT, order=ASKED, direct=phrase("the woman", ACCUSATIVE)), "must the man not call the woman", "muss der Mann die Frau nicht anrufen"),
]  # fmt: skip


@pytest.mark.parametrize(("built", "english", "german"), PAIRS, ids=[english for _, english, _ in PAIRS])
def test_pairs(built: Phrase, english: str, german: str):
    assert show(built) == (english, german)


def test_links_of_falling_asleep():
    asleep = find_verb("fall_asleep=einschlafen")
    apart = links_of(clause(asleep, PRESENT, MAN))
    assert apart == ({("the", "der"), ("man", "Mann"), ("falls", "schläft"), ("asleep", "schläft")}, {("falls", "ein")})
    together = links_of(clause(asleep, PERFECT, MAN))
    assert {("fallen", "eingeschlafen"), ("asleep", "eingeschlafen")} < together[0]


def test_tags_of_compounds_and_prepositions():
    tags = {
        key: [tag for _, tag in find_noun(key).english_tokens[0]]
        for key in ("old_town", "red_wine", "main_street", "front_door", "garden_gate")
    }
    assert tags.pop("garden_gate") == ["NOUN", "NOUN"]
    assert set(map(tuple, tags.values())) == {("ADJ", "NOUN")}
    before = (
        phrase("the house", DATIVE, ("in front of", "vor")),
        phrase("the house", DATIVE, ("next to", "neben")),
    )
    assert [tag for _, tag in before[0].spelling.spell().english] == ["ADP", "NOUN", "ADP", "DET", "NOUN"]
    assert [tag for _, tag in before[1].spelling.spell().english] == ["ADV", "ADP", "DET", "NOUN"]


def test_words_in_their_classes():
    nouns = load_lexicon().nouns
    assert find_noun("gift").cls == "object"
    for key in ("put_on=anziehen", "take_off=ausziehen"):
        assert "hat" not in {noun.key for noun in nouns[find_verb(key).object_class]}
    assert "hat" in {noun.key for noun in nouns["wearable"]}
    bright = find_adjective("bright")
    assert {noun.cls for some in nouns.values() for noun in some if bright in noun.adjectives} == {
        "building",
        "room",
        "outdoors",
        "spot",
    }
    assert set(UNIONS["event"]) == {"occasion", "journey"}


# A pattern of English and one of German; no pair may have both.
FREQUENCY = r"(?:often|always|sometimes|usually|rarely|probably|also|certainly|already|just|finally|perhaps)"
ADVERB = r"(?:here|there|outside|upstairs|downstairs|everywhere|at home)"
PRONOUN_OBJECT = r"(?:me|you|him|us|them)"
PLAIN = ".*"
HOW_OFTEN = r"(?:oft|immer|manchmal|normalerweise|selten|wahrscheinlich|auch|bestimmt|schon|endlich|vielleicht)"
HOW = r"(?:schnell|langsam|vorsichtig|leise|laut|fröhlich|geduldig|stolz|höflich|nervös|heimlich|ruhig|sofort|eifrig|begeistert)"
GROUP = r"(?:de[nmr]|die|das|diese[nmrs]?|(?:mein|dein|sein|ihr|unser)(?:e[nmrs]?)?) (?:[a-zäöüß]+ )?[A-ZÄÖÜ]\w+"
STATES = r"(?:lieben|kennen|bewundern|brauchen|haben|mögen|hassen|respektieren|vertrauen|glauben|fürchten)"
NEVER_PAIRS: dict[str, tuple[str, str]] = {
    "indefinite object before adverb": (PLAIN, r"\bk?einen (?:[a-zäöüß]+ )?[A-ZÄÖÜ]\w+ (?:heimlich|langsam|vorsichtig|sofort|hier|dort|oben|unten|draußen|überall|zu Hause)\b"),
    "cause after negation": (PLAIN, r"\b(?:nicht|nie|k?einen (?:[a-zäöüß]+ )?[A-ZÄÖÜ]\w+) (?:wegen|trotz|während) "),
    "negation before": (r"\b(?:before|Before|until) [^,]*\b(?:not|cannot|never|no)\b(?! one)", PLAIN),
    "how often of what happened once": (rf"^(?=.*\b[Ww]hen\b)(?!When (?:is|are|do|does|did|was|were|has|have|will|can)\b)(?!.*\?).*\b(?:{FREQUENCY}|never|every (?:day|evening|morning|week))\b", r"\b[Aa]ls (?!\w+\.$)"),
    "pronoun after particle": (rf"\bp(?:ick|icks|icked|icking) up {PRONOUN_OBJECT}\b", PLAIN),
    "two negations in a clause": (r"^(?!.*(?:,|\b(?:who|whom|that|whether|because|although|if|while|before|after|when|until|and|in order)\b)).*\b(?:not|cannot|never|[Nn]o)\b.* no\b", PLAIN),
    "directed verb with an adverb of place": (rf"^(?!.*(?:,|\b(?:who|whom|that|whether|because|although|if|while|before|after|when|until|and)\b)).*\b(?:carr(?:y|ies|ied|ying)|br(?:ing(?:s|ing)?|ought)|sen(?:d|ds|t|ding)|invit(?:e|es|ed|ing)|follow(?:s|ed|ing)?|return(?:s|ed|ing)?|along)\b.* {ADVERB}\b(?! of)", PLAIN),
    "must not asked": (r"^Must .*\bnot\b", r"^D[aü]rf"),
    "degree of what has none": (r"\b(?:very|too) (?:red|blue|green|white|black|yellow|brown|broken)\b", PLAIN),
    "direction to a trip": (r"\b(?:go|goes|went|gone|run|runs|ran|come|comes|came|back) (?:alone |quickly )?to (?:the|this|my|your|his|her|our|their) (?:\w+ )?(?:class )?trip\b", r"\bzu[mr]? "),
    "no and must in a clause": (r"^(?!.*\b(?:who|whom|that)\b)(?:[^,]*\b[Nn]o (?:\w+ ){1,3}must\b|.*\bmust (?:\w+ ){1,3}no\b)", PLAIN),
    "biting people": (r"\bto (?:bite|chase)\b", r"\bzu (?:beißen|jagen)\b"),
    "packed gifts": (r"\b(?:un)?pack(?:s|ed|ing)? (?:\w+ ){1,2}gifts?\b", PLAIN),
    "hats put on": (r"\b(?:put|puts|putting) on (?:\w+ ){1,2}hats?\b", PLAIN),
    "gerade sofort": (PLAIN, rf"\b(?:gerade|bald|später|schon|{HOW_OFTEN}) sofort\b"),
    "immediately and now": (r"^(?!.*(?:,|\b(?:who|whom|that|whether|because|although|if|while|before|after|when|until|and)\b)).*\b(?:am|is|are|Am|Is|Are) (?:.* )?\w+ing\b.* immediately\b", PLAIN),
    "cause before frequency": (PLAIN, rf"(?<!, )\b(?:wegen|trotz|während) (?:\w+ ){{1,2}}[A-ZÄÖÜ]\w+ {HOW_OFTEN}\b"),
    "about the cause alone": (PLAIN, r"\b(?:auch|schon|endlich|gerade) (?:wegen|trotz|während) "),
    "just loved": (r"\b(?:just|already|finally) (?:been )?(?:loved|known|needed|had|liked|hated|respected|admired|trusted|believed|feared)\b", PLAIN),
    "parties everywhere": (r"^There .*\b(?:party|wedding|exam|meeting|concert) (?:here|everywhere|upstairs|downstairs|outside|at home)", PLAIN),
    "frequency, object, manner": (PLAIN, rf"\b{HOW_OFTEN} {GROUP} {HOW}\b"),
    "time, object, negation": (PLAIN, rf"\b(?:bald|morgen|gestern|heute|jetzt|später|neulich) {GROUP} nicht\b"),
    "not soon": (r"\bnot\b[^,]* soon\b", r"\bbald [^,]*nicht\b|\bnicht [^,]*bald\b"),
    "people that there are": (r"^There (?:is|are|was|were)\b.*\b(?:visitor|man|men|woman|women|child|children|king|boss|thief|brother|mother)(?:e?s)?\b", PLAIN),
    "said twice": (r"\bold old town|\bred red wine", r"\balte[nmrs]? Altst|\brote[nmrs]? Rotwein"),
    "states on purpose": (PLAIN, rf", um [^,]* zu {STATES}\b"),
    "states as deeds": (r"\b(?:tr(?:y|ies|ied)|beg[aiu]ns?|forgets?|forgot(?:ten)?|promise[sd]?|decide[sd]?|plan(?:s|ned)?|refuse[sd]?|hope[sd]?) to (?:love|know|need|have|like|hate|respect|admire|trust|believe|fear)\b", PLAIN),
    "short shoes": (r"\b(?:long|short) (?:shoe|hat|problem|idea|mistake|decision|secret|rule|plan)s?\b", PLAIN),
    "hot salad": (r"\b(?:hot (?:\w+ )?(?:salad|butter|juice)|sweet (?:cheese|egg|sausage|fish))s?\b", PLAIN),
    "how often before": (rf"\b(?:[Bb]efore|until|[Aa]fter) [^,]*\b{FREQUENCY}\b", rf"\b(?:[Bb]evor|bis|[Nn]achdem) [^,]*\b{HOW_OFTEN}\b"),
    "no after a preposition": (PLAIN, r"\b(?:für|an|auf|über|um|mit|von|vor|in|zu|bei) kein(?:e[nmrs]?)?\b"),
    "no asked": (r"^(?:Do|Does|Did|Is|Are|Was|Were|Has|Have|Will|Can|Could|Must|Should|May|Would|Why|When)\b(?!.*,)[^,]*\bno \w+(?! that| who).*\?$", PLAIN),
    "seen slowly": (r"^(?!.*(?:,|\b(?:who|whom|that|whether|because|although|if|while|before|after|when|until|and|in order)\b)).*\b(?:see|sees|saw|seen|find|finds|found|lose|loses|lost|hear|hears|heard|remember(?:s|ed)?)\b.* (?:slowly|quickly|carefully|quietly|nervously|calmly)\b", PLAIN),
    "entered somewhere": (PLAIN, r"\b(?:[Bb]etritt|[Bb]etrat|[Bb]etrete)\b [^,]*\b(?:im?|beim?|vor|hinter|neben|auf|unter|dort|hier|draußen)\b(?! (?:\w+ )?(?:Stunden|Tagen|Woche|Jahr|Nacht|Sommer|Winter|Frühling|Herbst|Januar|Februar|März|April|Mai|Ju[nl]i|August|September|Oktober|November|Dezember))"),
    "verb after the relative clause of an object": (PLAIN, r" (?:den|[a-z]+en) (?:[a-zäöüß]+en )?[A-ZÄÖÜ]\w+, (?:der|den|die) [^,]*, [a-zäöüß]+[.?]$"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEVER_PAIRS)
def test_never(name: str):
    english, german = (re.compile(pattern) for pattern in NEVER_PAIRS[name])
    found = [pair for pair in sample("train", 20_000) if english.search(pair.source) and german.search(pair.target)]
    assert found == []


JOINT = re.compile(
    r",|\b(?:who|whom|that|whether|because(?! of)|although|if|while|before|after|when|until|and|in order)\b"
)


def clauses_of(pair: GrammarPair) -> list[str]:
    return JOINT.split(pair.source)


def test_no_frequency_beside_no():
    for pair in sample("train", 20_000):
        if re.search(r"\b(?:who|whom|that)\b", pair.source):
            continue  # where a relative clause ends is not to be seen
        for part in clauses_of(pair):
            negated = re.search(r"\b[Nn]o\b", part)
            assert not (negated and re.search(rf"\b{FREQUENCY}\b|\bevery (?:day|evening|morning|week)\b", part)), pair


def test_comparisons_of_different_things():
    for pair in sample("train", 20_000):
        if match := re.search(r"(\w+) (?:ist|sind|war|waren)(?: nicht)? \w+ als (?:\w+ ){1,2}(\w+)\.$", pair.target):
            assert match[1] != match[2], pair


def test_relatives_of_objects_come_after_the_verb():
    late = re.compile(r"^\w+ (?:hat|habe|haben|kann|will|wird) [^,]*[a-zäöüß]+, (?:der|die|das|den) [^,]*\.$")
    found = [pair.target for pair in sample("train", 20_000) if late.search(pair.target)]
    assert len(found) > 10
