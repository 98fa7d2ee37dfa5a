"""German inflection: nouns, determiners, adjectives and verbs from the principal parts that the lexicon gives."""

from __future__ import annotations

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)
GENDERS = "mfn"

# Rows: nominative, accusative, dative, genitive; columns: masculine, feminine, neuter, plural.
ARTICLE = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "den"),
    ("des", "der", "des", "der"),
)
_DIESER = (("er", "e", "es", "e"), ("en", "e", "es", "e"), ("em", "er", "em", "en"), ("es", "er", "es", "er"))
_EIN = (("", "e", "", "e"), ("en", "e", "", "e"), ("em", "er", "em", "en"), ("es", "er", "es", "er"))
WEAK = (("e", "e", "e", "en"), ("en", "e", "e", "en"), ("en", "en", "en", "en"), ("en", "en", "en", "en"))
MIXED = (("er", "e", "es", "en"), ("en", "e", "es", "en"), ("en", "en", "en", "en"), ("en", "en", "en", "en"))
STRONG = (("er", "e", "es", "e"), ("en", "e", "es", "e"), ("em", "er", "em", "en"), ("en", "er", "en", "er"))

RELATIVE = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "denen"),
    ("dessen", "deren", "dessen", "deren"),
)

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
    ("von", "dem"): "vom",
    ("in", "das"): "ins",
    ("an", "das"): "ans",
}
"""Preposition and definite article that German says in one word."""

_ENDINGS = {"der": ARTICLE, "dies": _DIESER, "jed": _DIESER, "welch": _DIESER}


def decline_determiner(stem: str, case: int, gender: int) -> str:
    """``der``, words like *dieser* and plural words like *viele* by their endings; all others like *ein*."""
    if stem == "der":
        return ARTICLE[case][gender]
    if stem in _ENDINGS or stem in {"einig", "viel", "all", "mehrer", "beid"}:
        return stem + _DIESER[case][gender]
    return stem + _EIN[case][gender]


def decline_noun(singular: str, genitive: str, plural: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Singular and plural in the four cases. ``genitive`` is an ending, ``+n`` or ``+en`` for weak nouns."""
    if genitive.startswith("+"):
        oblique = singular + genitive[1:]
        singulars = (singular, oblique, oblique, oblique)
    else:
        singulars = (singular, singular, singular, singular + genitive[1:])
    if plural == "-":
        return singulars, ()
    dative = plural if plural.endswith(("n", "s")) else plural + "n"
    return singulars, (plural, plural, dative, plural)


# ---------------------------------------------------------------- verbs
# Persons: I, you (singular), he/she/it, we, (you plural, unused), they.
AUXILIARIES: dict[str, tuple[str, ...]] = {
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "hatten": ("hatte", "hattest", "hatte", "hatten", "hattet", "hatten"),
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "waren": ("war", "warst", "war", "waren", "wart", "waren"),
    "werden": ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    "wurden": ("wurde", "wurdest", "wurde", "wurden", "wurdet", "wurden"),
    "können": ("kann", "kannst", "kann", "können", "könnt", "können"),
    "konnten": ("konnte", "konntest", "konnte", "konnten", "konntet", "konnten"),
    "müssen": ("muss", "musst", "muss", "müssen", "müsst", "müssen"),
    "mussten": ("musste", "musstest", "musste", "mussten", "musstet", "mussten"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürft", "dürfen"),
    "wollen": ("will", "willst", "will", "wollen", "wollt", "wollen"),
    "wollten": ("wollte", "wolltest", "wollte", "wollten", "wolltet", "wollten"),
    "sollten": ("sollte", "solltest", "sollte", "sollten", "solltet", "sollten"),
    "möchten": ("möchte", "möchtest", "möchte", "möchten", "möchtet", "möchten"),
}
REFLEXIVE = ("mich", "dich", "sich", "uns", "euch", "sich")
_INSEPARABLE = ("be", "emp", "ent", "er", "ge", "ver", "zer", "über", "unter", "um")
_WHOLE_PRESENTS = {"mögen": "mag", "wissen": "weiß", "haben": "habe"}
"""First persons that do not end in -e added to the stem of the infinitive."""
_GE_VERBS = {"beten", "beißen", "erben", "gehen", "geben", "gießen"}
"""Verbs that only look as if they had an inseparable prefix."""


def _needs_e(stem: str) -> bool:
    """*arbeitet, findet, öffnet, zeichnet* but *lernt, wohnt, kommt*."""
    if stem.endswith(("t", "d")):
        return True
    return stem.endswith(("m", "n")) and (stem[-2] not in "aeiouäöürlhmn" or stem[-3:-1] == "ch")


class Conjugation:
    """All forms of one German verb that the grammar uses; the separable prefix stands apart in ``prefix``."""

    __slots__ = ("infinitive", "participle", "past", "prefix", "present", "to_infinitive")

    def __init__(self, parts: list[str]) -> None:
        self.prefix, _, base = parts[0].rpartition("|")
        stem = base[:-2] if base.endswith("en") else base[:-1]
        syllabic = not base.endswith("en")  # lächeln, füttern
        e = "e" if _needs_e(stem) else ""
        if len(parts) == 1:
            s = "" if stem.endswith(("s", "ß", "z", "x")) else "s"
            du, er, past = stem + e + s + "t", stem + e + "t", stem + e + "te"
            bare = base.endswith("ieren") or (base.startswith(_INSEPARABLE) and base not in _GE_VERBS)
            participle = ("" if bare else "ge") + stem + e + "t"
        else:
            du, er, past, participle = parts[1:]
        first = stem[:-2] + "l" if syllabic and stem.endswith("el") else stem
        ich = _WHOLE_PRESENTS.get(base, first + "e")
        self.present: tuple[str, ...] = (ich, du, er, base, er, base)
        plural = past + ("n" if past.endswith("e") else "en")
        second = past + ("est" if past.endswith(("t", "d", "s", "ß")) else "st")
        self.past: tuple[str, ...] = (past, second, past, plural, plural, plural)
        self.infinitive = self.prefix + base
        self.participle = self.prefix + participle
        self.to_infinitive = ("zu", base) if not self.prefix else (self.prefix + "zu" + base,)
