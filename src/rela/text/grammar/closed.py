"""Closed classes: pronouns, names, conjunctions, adverbs and fixed adverbials."""

from __future__ import annotations

from .complexes import (
    CAN,
    COULD,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    MAY,
    MUST,
    PASSIVE_CAN,
    PASSIVE_FUTURE,
    PASSIVE_MUST,
    PASSIVE_PAST,
    PASSIVE_PERFECT,
    PASSIVE_PRESENT,
    PASSIVE_SHOULD,
    PAST,
    PERFECT,
    PRESENT,
    SHOULD,
    WANT,
    WANTED,
    WOULD_LIKE,
)
from .phrases import DEFINITE, PRONOUN, Nominal, Phrase, fixed

# English subject, English object, German nominative, accusative, dative, person.
_PRONOUNS = (
    ("I", "me", "ich", "mich", "mir", 0),
    ("you", "you", "du", "dich", "dir", 1),
    ("he", "him", "er", "ihn", "ihm", 2),
    ("she", "her", "sie", "sie", "ihr", 2),
    ("we", "us", "wir", "uns", "uns", 3),
    ("they", "them", "sie", "sie", "ihnen", 5),
)
PRONOUNS: tuple[tuple[Nominal, Nominal, Nominal], ...] = tuple(
    (
        Nominal(fixed(subject, nominative, "PRON", "PRON", "0-0"), person, PRONOUN),
        Nominal(fixed(other, accusative, "PRON", "PRON", "0-0"), person, PRONOUN),
        Nominal(fixed(other, dative, "PRON", "PRON", "0-0"), person, PRONOUN),
    )
    for subject, other, nominative, accusative, dative, person in _PRONOUNS
)
"""Each pronoun by case. *you* is always *du*."""

IT = tuple(Nominal(fixed("it", word, "PRON", "PRON", "0-0"), 2, PRONOUN) for word in ("er", "sie", "es"))
"""*it* as a subject, by the German gender of what it stands for."""

FIRST_NAMES = ("Anna", "Peter", "Paul", "Maria", "Lisa", "Martin", "Julia", "Daniel", "Laura", "Simon")
_CITIES = (
    ("Berlin", "Berlin"), ("Munich", "München"), ("Vienna", "Wien"), ("Cologne", "Köln"), ("Hamburg", "Hamburg"),
    ("Zurich", "Zürich"), ("Paris", "Paris"), ("Rome", "Rom"), ("Germany", "Deutschland"), ("France", "Frankreich"),
    ("Italy", "Italien"), ("Spain", "Spanien"), ("Austria", "Österreich"), ("Poland", "Polen"),
)  # fmt: skip
NAMES = tuple(Nominal(fixed(name, name, "PROPN", "PROPN", "0-0"), 2, DEFINITE) for name in FIRST_NAMES)
POSSESSORS = tuple(fixed(f"{name}'s", f"{name}s", "PROPN", "PROPN", "0-0") for name in FIRST_NAMES)
IN_CITY = (
    *(fixed(f"in {a}", f"in {b}", "ADP PROPN", "ADP PROPN", "0-0 1-1") for a, b in _CITIES),
    fixed("in Switzerland", "in der Schweiz", "ADP PROPN", "ADP DET PROPN", "0-0 1-2", "1-1"),
)
TO_CITY = (
    *(fixed(f"to {a}", f"nach {b}", "ADP PROPN", "ADP PROPN", "0-0 1-1") for a, b in _CITIES),
    fixed("to Switzerland", "in die Schweiz", "ADP PROPN", "ADP DET PROPN", "0-0 1-2", "1-1"),
)

# ---------------------------------------------------------------- time
_PASTS = (PAST, COULD, HAD_TO, WANTED, PASSIVE_PAST)
_MODALS = (CAN, MUST, HAVE_TO, WANT, SHOULD, MAY, WOULD_LIKE, PASSIVE_CAN, PASSIVE_MUST, PASSIVE_SHOULD)
_PRESENTS = (PRESENT, PASSIVE_PRESENT, *_MODALS)
_FUTURES = (FUTURE, PASSIVE_FUTURE, *_MODALS)
_PERFECTS = (PERFECT, PASSIVE_PERFECT)


def _one(english: str, german: str) -> Phrase:
    return fixed(english, german, "ADV", "ADV", "0-0")


def _two(english: str, german: str, tags: str = "ADJ NOUN", german_tags: str = "ADJ NOUN") -> Phrase:
    return fixed(english, german, tags, german_tags, "0-0 1-1")


def _day(preposition: str, english: str, german: str, tag: str = "PROPN") -> Phrase:
    return fixed(f"{preposition} {english}", german, f"ADP {tag}", "ADP NOUN", "0-0 1-1")


def _part_of_day(english: str, german: str) -> Phrase:
    return fixed(english, german, "ADP DET NOUN", "ADP NOUN", "0-0 2-1", "1-0")


_DAYS = (
    ("Monday", "Montag"), ("Tuesday", "Dienstag"), ("Wednesday", "Mittwoch"), ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"), ("Saturday", "Samstag"), ("Sunday", "Sonntag"),
)  # fmt: skip
_MONTHS = (
    ("January", "Januar"), ("February", "Februar"), ("March", "März"), ("April", "April"), ("May", "Mai"),
    ("June", "Juni"), ("July", "Juli"), ("August", "August"), ("September", "September"), ("October", "Oktober"),
    ("November", "November"), ("December", "Dezember"),
)  # fmt: skip
_HOURS = (
    ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs"), ("seven", "sieben"),
    ("eight", "acht"), ("nine", "neun"), ("ten", "zehn"), ("eleven", "elf"), ("twelve", "zwölf"),
)  # fmt: skip

_PERIODS = [
    *(_day("on", a, f"am {b}") for a, b in _DAYS),
    *(_day("in", a, f"im {b}") for a, b in _MONTHS),
    *(fixed(f"at {a} o'clock", f"um {b} Uhr", "ADP NUM ADV", "ADP NUM NOUN", "0-0 1-1 2-2") for a, b in _HOURS),
]
_PARTS = [
    _part_of_day("in the morning", "am Morgen"),
    _part_of_day("in the evening", "am Abend"),
    _part_of_day("in the afternoon", "am Nachmittag"),
    _part_of_day("on the weekend", "am Wochenende"),
    fixed("at night", "in der Nacht", "ADP NOUN", "ADP DET NOUN", "0-0 1-2", "1-1"),
    _day("at", "noon", "am Mittag", "NOUN"),
    _day("in", "summer", "im Sommer", "NOUN"),
    _day("in", "winter", "im Winter", "NOUN"),
    _day("in", "spring", "im Frühling", "NOUN"),
    _day("in", "fall", "im Herbst", "NOUN"),
]
_ALWAYS = [
    _one("today", "heute"),
    _two("this week", "diese Woche", "DET NOUN", "DET NOUN"),
    _two("this year", "dieses Jahr", "DET NOUN", "DET NOUN"),
]
HABITS = [
    _two(f"every {a}", b, "DET NOUN", "DET NOUN")
    for a, b in (("day", "jeden Tag"), ("evening", "jeden Abend"), ("morning", "jeden Morgen"), ("week", "jede Woche"))
]
_ONCE = [
    _one("yesterday", "gestern"), _one("then", "dann"), _one("recently", "neulich"),
    _two("last week", "letzte Woche"), _two("last year", "letztes Jahr"), _two("last summer", "letzten Sommer"),
    _two("last night", "letzte Nacht"), _two("last month", "letzten Monat"),
    *(fixed(f"{a} hours ago", f"vor {b} Stunden", "NUM NOUN ADV", "ADP NUM NOUN", "2-0 0-1 1-2") for a, b in _HOURS),
    *(fixed(f"{a} days ago", f"vor {b} Tagen", "NUM NOUN ADV", "ADP NUM NOUN", "2-0 0-1 1-2") for a, b in _HOURS[:6]),
    fixed("a week ago", "vor einer Woche", "DET NOUN ADV", "ADP DET NOUN", "2-0 0-1 1-2"),
    fixed("a year ago", "vor einem Jahr", "DET NOUN ADV", "ADP DET NOUN", "2-0 0-1 1-2"),
]  # fmt: skip
_SOON = _one("soon", "bald")
_COMING = [
    _one("tomorrow", "morgen"), _SOON, _one("later", "später"),
    _two("next week", "nächste Woche"), _two("next year", "nächstes Jahr"), _two("next month", "nächsten Monat"),
    _two("next summer", "nächsten Sommer"),
]  # fmt: skip
_NOW = [_one("now", "jetzt")]
NOT_UNDER_NOT = (*HABITS, _SOON)
"""Times that would not mean the same on both sides of a negation, or nothing beside it."""


def _times() -> dict[int, tuple[Phrase, ...]]:
    found: dict[int, list[Phrase]] = {tense: [] for tense in range(24)}
    for tense in _PASTS:
        found[tense] += _ONCE * 2 + _PARTS * 2 + _PERIODS + HABITS + _ALWAYS[:1] * 3
    for tense in _PRESENTS:
        found[tense] += _PARTS * 2 + HABITS * 4 + _ALWAYS * 3 + _NOW * 6
    for tense in _FUTURES:
        found[tense] += _COMING * 5 + _PERIODS + _PARTS
    for tense in _PERFECTS:
        found[tense] += _ALWAYS
    return {tense: tuple(phrases) for tense, phrases in found.items()}


TIMES = _times()
"""What may say when, by tense: no *tomorrow* with the past, no *yesterday* with the present perfect."""

_OFTEN = tuple(
    _one(a, b)
    for a, b in (
        ("often", "oft"), ("always", "immer"), ("sometimes", "manchmal"), ("usually", "normalerweise"),
        ("rarely", "selten"), ("probably", "wahrscheinlich"), ("certainly", "bestimmt"), ("also", "auch"),
    )
)  # fmt: skip
_ALREADY = (_one("already", "schon"), _one("just", "gerade"), _one("finally", "endlich"), _one("often", "oft"))
_LIKELY = (_one("probably", "wahrscheinlich"), _one("certainly", "bestimmt"), _one("perhaps", "vielleicht"))
FREQUENCIES: dict[int, tuple[Phrase, ...]] = {
    PRESENT: _OFTEN, PAST: _OFTEN, PASSIVE_PRESENT: _OFTEN[:5], PASSIVE_PAST: _OFTEN[:5],
    PERFECT: _ALREADY, PASSIVE_PERFECT: _ALREADY, FUTURE: _LIKELY, PASSIVE_FUTURE: _LIKELY,
}  # fmt: skip
"""Adverbs between the English auxiliary and verb, by tense."""
FREQUENCIES_BESIDE_OTHERS: dict[int, tuple[Phrase, ...]] = {
    PRESENT: _OFTEN[:-1], PAST: _OFTEN[:-1], PASSIVE_PRESENT: _OFTEN[:5], PASSIVE_PAST: _OFTEN[:5],
    FUTURE: _LIKELY, PASSIVE_FUTURE: _LIKELY,
}  # fmt: skip
"""The same before a place or a cause, where others would be about that alone ("auch wegen des Kindes"), and of what one
is, which does not happen just or finally."""

_MANNERS = {
    english: _one(english, german)
    for english, german in (
        ("quickly", "schnell"), ("slowly", "langsam"), ("carefully", "vorsichtig"), ("quietly", "leise"),
        ("loudly", "laut"), ("happily", "fröhlich"), ("patiently", "geduldig"), ("alone", "allein"),
        ("proudly", "stolz"), ("politely", "höflich"), ("nervously", "nervös"), ("secretly", "heimlich"),
        ("calmly", "ruhig"), ("immediately", "sofort"), ("eagerly", "eifrig"), ("enthusiastically", "begeistert"),
    )
}  # fmt: skip
IMMEDIATELY = _MANNERS["immediately"]
"""Says when as well as how: no other adverbial of time goes with it."""


def _manners(words: str) -> tuple[Phrase, ...]:
    return tuple(_MANNERS[word] for word in words.split())


MANNERS: dict[str, tuple[Phrase, ...]] = {
    "intransitive": _manners("quietly loudly alone happily calmly patiently nervously"),
    "self_moving": _manners("slowly quickly"),
    "transitive": _manners("quickly slowly carefully secretly immediately alone quietly proudly enthusiastically"),
    "dative": _manners("politely patiently immediately happily eagerly calmly"),
    "ditransitive": _manners("immediately secretly proudly politely happily quickly nervously"),
    "ditransitive_to": _manners("immediately secretly proudly politely calmly slowly"),
    "prepositional": _manners("patiently nervously secretly quietly calmly"),
    "locative": _manners("quietly alone calmly patiently"),
    "motion": _manners("quickly slowly alone secretly immediately happily nervously"),
    "travel": _manners("alone secretly immediately happily"),
    "passive": _manners("quickly slowly carefully secretly immediately quietly"),
}
"""How something is done, by the frame of the verb."""
MANNERS_OF: dict[str, tuple[Phrase, ...]] = {
    verb: _manners(words)
    for verb, words in {
        "sleep": "calmly alone", "work": "alone quietly slowly carefully", "laugh": "loudly quietly",
        "cry": "loudly quietly", "dance": "alone happily enthusiastically", "wait": "patiently alone",
        "sing": "loudly quietly happily alone proudly",
        "play": "alone quietly happily loudly", "smoke": "alone secretly nervously", "swim": "slowly quickly alone",
        "rest": "alone", "get": "immediately slowly quickly quietly", "wake": "slowly", "fall": "quickly immediately",
        "sit": "slowly quickly quietly", "lie": "immediately quickly", "disappear": "quietly secretly quickly slowly",
        "smile": "happily proudly nervously politely", "pray": "alone quietly", "whisper": "quietly nervously",
        "cough": "loudly quietly", "jump": "quickly happily", "hurry": "nervously", "fight": "alone proudly",
        "grow": "slowly quickly", "depart": "slowly", "stop": "slowly",
    }.items()
}  # fmt: skip
"""The same by the English verb, where its frame says too little."""

_ADVERBS = (
    ("here", "hier"), ("there", "dort"), ("outside", "draußen"), ("upstairs", "oben"), ("downstairs", "unten"),
    ("everywhere", "überall"),
)  # fmt: skip
PLACES = (*(_one(a, b) for a, b in _ADVERBS), fixed("at home", "zu Hause", "ADP NOUN", "ADP NOUN", "0-0 1-1"))
HOME = fixed("home", "nach Hause", "ADV", "ADP NOUN", "0-1", "0-0")

_CONJUNCTIONS = (
    ("because", "weil"), ("although", "obwohl"), ("if", "wenn"), ("while", "während"), ("before", "bevor"),
    ("after", "nachdem"), ("when", "als"), ("that", "dass"), ("whether", "ob"), ("until", "bis"),
)  # fmt: skip
LATER_CLAUSE = {a: fixed(a, f", {b}", "SCONJ", "PUNCT SCONJ", "0-1") for a, b in _CONJUNCTIONS}
"""Conjunctions of a clause that follows the main clause; German sets a comma."""
FIRST_CLAUSE = {a: fixed(a, b, "SCONJ", "SCONJ", "0-0") for a, b in _CONJUNCTIONS}
COMMA = fixed(",", ",", "PUNCT", "PUNCT", "0-0")
BUT = fixed(", but", ", aber", "PUNCT CCONJ", "PUNCT CCONJ", "0-0 1-1")
AND = fixed("and", "und", "CCONJ", "CCONJ", "0-0")
INFINITIVE_GROUP = fixed("", ",", "", "PUNCT")
IN_ORDER = fixed("in order", ", um", "ADP NOUN", "PUNCT SCONJ", "0-1 1-1")
THERE = fixed("there", "es", "PRON", "PRON", "0-0")
WHO = fixed("who", "wer", "PRON", "PRON", "0-0")
WHAT = fixed("what", "was", "PRON", "PRON", "0-0")
WHOM = (WHO, fixed("whom", "wen", "PRON", "PRON", "0-0"), fixed("whom", "wem", "PRON", "PRON", "0-0"))
WHEN, WHY, WHERE = _one("when", "wann"), _one("why", "warum"), _one("where", "wo")
THAN = fixed("than", "als", "ADP", "ADP", "0-0")

PROFESSIONS = (
    ("teacher", "Lehrer", "Lehrerin"), ("doctor", "Arzt", "Ärztin"), ("cook", "Koch", "Köchin"),
    ("singer", "Sänger", "Sängerin"), ("artist", "Künstler", "Künstlerin"), ("musician", "Musiker", "Musikerin"),
    ("engineer", "Ingenieur", "Ingenieurin"), ("journalist", "Journalist", "Journalistin"),
    ("actor", "Schauspieler", "Schauspielerin"), ("pilot", "Pilot", "Pilotin"), ("lawyer", "Anwalt", "Anwältin"),
    ("judge", "Richter", "Richterin"), ("gardener", "Gärtner", "Gärtnerin"), ("baker", "Bäcker", "Bäckerin"),
)  # fmt: skip
"""What somebody is: without article in German, and in the feminine of a woman."""
