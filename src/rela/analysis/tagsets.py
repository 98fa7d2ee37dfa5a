"""The tag sets of the Hannover Tagger's models, and the universal tags that theirs stand for.

https://universaldependencies.org/u/pos/ explains those. A tag is looked up whole, then without what stands in brackets
or, for English, by its first two letters. Verbs that are auxiliaries in most places (to be, to have, modal verbs) count
as such in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _by_tag(**tags: str) -> dict[str, str]:
    return {tag: universal for universal, found in tags.items() for tag in found.split()}


STTS: Final[Mapping[str, str]] = _by_tag(
    ADJ="ADJ",
    ADP="APPO APPR APPRART APZR PTKVZ",
    ADV="ADV PROAV PWAV",
    AUX="VA VM",
    CCONJ="KON KOKOM",
    DET="ART PDAT PIAT PPOSAT PRELAT PWAT",
    INTJ="ITJ",
    NOUN="NN NNA NNI",
    NUM="CARD",
    PART="PTKA PTKANT PTKNEG PTKZU",
    PRON="PDS PIS PPER PPOSS PRELS PRF PWS",
    PROPN="NE",
    PUNCT="$( $, $.",
    SCONJ="KOUI KOUS",
    VERB="VV",
    X="FM TRUNC XY UNKNOWN",
)
"""German: the Stuttgart-Tübingen tag set."""

CLAWS: Final[Mapping[str, str]] = _by_tag(
    ADJ="AJ ORD",
    ADP="PRF PRP AVP IN",
    ADV="AV",
    AUX="VB VD VH VM",
    CCONJ="CJC",
    DET="AT DT0",
    INTJ="ITJ",
    NOUN="NN",
    NUM="CRD",
    PART="POS TO XX",
    PRON="DPS DTQ EX PN",
    PROPN="NP",
    PUNCT="PU",
    SCONJ="CJ",
    VERB="VV",
    X="UNC ZZ !!! UNKNOWN",
)
"""English: C5, the tag set of the British National Corpus."""

CGN: Final[Mapping[str, str]] = _by_tag(
    ADJ="ADJ TW(rang",
    ADP="VZ",
    ADV="BW",
    CCONJ="VG(neven",
    DET="LID",
    INTJ="TSW",
    NOUN="N(soort",
    NUM="TW(hoofd",
    PRON="VNW",
    PROPN="N(eigen",
    PUNCT="LET",
    SCONJ="VG(onder",
    SYM="SPEC(symb",
    VERB="WW",
    X="SPEC UNKNOWN",
)
"""Dutch: the tag set of the Corpus Gesproken Nederlands."""

DUTCH_AUXILIARIES: Final = frozenset(("hebben", "kunnen", "moeten", "mogen", "willen", "worden", "zijn", "zullen"))
"""Its verbs have one tag: those with these lemmas are auxiliaries."""


def german(tag: str, lemma: str) -> str | None:  # noqa: ARG001 (one form for all)
    """The universal tag; None if the tag is unknown."""
    return STTS.get(tag) or STTS.get(tag.partition("(")[0])


def english(tag: str, lemma: str) -> str | None:  # noqa: ARG001
    """The universal tag; None if the tag is unknown."""
    return CLAWS.get(tag) or CLAWS.get(tag[:2])


def dutch(tag: str, lemma: str) -> str | None:
    """The universal tag; None if the tag is unknown."""
    base, _, rest = tag.partition("(")
    features = rest.rstrip(")").split(",")
    if base == "WW" and lemma in DUTCH_AUXILIARIES:
        return "AUX"
    if base == "VNW" and "adv-pron" in features:
        return "ADV"
    if base == "VNW" and "prenom" in features:
        return "DET"
    return CGN.get(f"{base}({features[0]}") or CGN.get(base)
