"""The corpora that are known by name: where each part comes from, and under what terms. The one table of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, Literal

from rela.text import addresses
from rela.text.corpus import Corpus, Part, Selection, Side
from rela.text.download import Remote

_WMT_TERMS: Final = "released for the WMT shared tasks, for research; parts keep the terms of their makers: statmt.org"


def _archive(
    name: str,
    remote: Remote,
    members: Mapping[str, str],
    form: Literal["text", "sgm", "titles"] = "text",
    selection: Selection | None = None,
) -> Part:
    sides = {language: Side(remote=remote, member=member) for language, member in members.items()}
    return Part(name=name, sides=sides, form=form, selection=selection)


def _aligned(name: str, remote: Remote, member: str, *languages: str) -> Part:
    """A part whose members differ in the language only: ``{}`` in the member."""
    return _archive(name, remote, {language: member.format(language) for language in languages})


def _newstest(name: str, remote: Remote, members: Mapping[str, str]) -> tuple[Part, ...]:
    return (_archive(name, remote, members, form="sgm"),)


_MULTI30K_FILES: Final = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test-2017-flickr": "test_2017_flickr",
    "test-2017-mscoco": "test_2017_mscoco",
}


def _multi30k(target: str, *, num_splits: int) -> Corpus:
    local_names = dict(list(_MULTI30K_FILES.items())[:num_splits])
    splits: dict[str, tuple[Part, ...]] = {}
    for split, stem in local_names.items():
        names = {language: f"{stem}.{language}.gz" for language in ("en", target)}
        sides = {language: Side(remote=addresses.multi30k(name)) for language, name in names.items()}
        splits[split] = (Part(name=stem, sides=sides),)
    return Corpus(
        name=f"multi30k-en-{target}",
        source_language="en",
        target_language=target,
        splits=splits,
        description=f"Multi30k, task 1: 29,000 image captions, English and {target}, raw text",
        terms="research use; captions of Flickr30k: github.com/multi30k/dataset",
        folder="multi30k",
        local_names=local_names,
    )


_EUROPARL_MEMBERS: Final = {language: f"europarl-v7.de-en.{language}" for language in ("de", "en")}


def _europarl(selection: Selection) -> tuple[Part, ...]:
    return (_archive("europarl-v7", addresses.EUROPARL_DE_EN, _EUROPARL_MEMBERS, selection=selection),)


def _wmt14(target: str, *more: Part) -> Corpus:
    pair = f"{target}-en"
    return Corpus(
        name=f"wmt14-en-{target}",
        source_language="en",
        target_language=target,
        splits={
            "train": (
                _aligned("europarl-v7", addresses.EUROPARL_7, f"training/europarl-v7.{pair}.{{}}", "en", target),
                _aligned("commoncrawl", addresses.COMMON_CRAWL, f"commoncrawl.{pair}.{{}}", "en", target),
                _aligned(
                    "news-commentary-v9",
                    addresses.NEWS_COMMENTARY_9,
                    f"training/news-commentary-v9.{pair}.{{}}",
                    "en",
                    target,
                ),
                *more,
            ),
            "dev": _newstest(
                "newstest2013",
                addresses.TEST_13,
                {side: f"test/newstest2013-src.{side}.sgm" for side in ("en", target)},
            ),
            "test": _newstest(
                "newstest2014",
                addresses.TEST_14,
                {
                    "en": f"test-full/newstest2014-{target}en-src.en.sgm",
                    target: f"test-full/newstest2014-{target}en-ref.{target}.sgm",
                },
            ),
        },
        description=f"WMT14 English to {target}: the training data of the task, newstest2013 and newstest2014",
        terms=_WMT_TERMS,
        notes=("test is the whole newstest2014 (3,003 sentences), not the shorter set of the task itself",),
        folder=f"wmt14-en-{target}",
    )


CORPORA: Final[dict[str, Corpus]] = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            name="grammar",
            source_language="en",
            target_language="de",
            splits={"train": (), "dev": (), "test": (), "test-compositional": ()},
            description="sentences made by rules, with their translation: built in, nothing is fetched",
            terms="part of this package",
            folder="grammar",
        ),
        _multi30k("de", num_splits=5),
        _multi30k("fr", num_splits=5),
        _multi30k("cs", num_splits=3),
        Corpus(
            name="europarl-en-de",
            source_language="en",
            target_language="de",
            splits={
                "train": _europarl(Selection(stop=-5_000, words=(2, 25))),
                "dev": _europarl(Selection(start=-5_000, stop=-3_000)),
                "test": _europarl(Selection(start=-3_000)),
            },
            description="Europarl v7, speeches of the European Parliament 1996-2011, raw text",
            terms="text of the European Parliament, source to be named: statmt.org/europarl",
            notes=(
                "from the web, this is Europarl v7: the last 3,000 pairs are test, the 2,000 before them dev, and of "
                "all others those of 2 to 25 words a side train; a copy under RELA_DATA may be another selection, so "
                "numbers of the two cannot be compared",
            ),
            folder="europarl-de-en",
        ),
        _wmt14("de"),
        _wmt14(
            "fr",
            _aligned("un", addresses.UN_2000, "un/undoc.2000.fr-en.{}", "en", "fr"),
            _aligned("giga", addresses.GIGA, "giga-fren.release2.fixed.{}.gz", "en", "fr"),
        ),
        Corpus(
            name="wmt18-en-fi",
            source_language="en",
            target_language="fi",
            splits={
                "train": (
                    _aligned("europarl-v8", addresses.EUROPARL_8_FI, "training/europarl-v8.fi-en.{}", "en", "fi"),
                    _aligned(
                        "paracrawl-v1",
                        addresses.PARACRAWL_FI,
                        "paracrawl-release1.en-fi.zipporah0-dedup-clean.{}",
                        "en",
                        "fi",
                    ),
                    _aligned("rapid2016", addresses.RAPID, "rapid2016.en-fi.{}", "en", "fi"),
                    _archive(
                        "wiki-titles",
                        addresses.WIKI_TITLES,
                        {"fi": "wiki/fi-en/titles.fi-en", "en": "wiki/fi-en/titles.fi-en"},
                        form="titles",
                    ),
                ),
                "dev": _newstest(
                    "newstest2017",
                    addresses.TEST_17,
                    {"en": "test/newstest2017-enfi-src.en.sgm", "fi": "test/newstest2017-enfi-ref.fi.sgm"},
                ),
                "test": _newstest(
                    "newstest2018",
                    addresses.TEST_18,
                    {"en": "test/newstest2018-enfi-src.en.sgm", "fi": "test/newstest2018-enfi-ref.fi.sgm"},
                ),
            },
            description="WMT18 English to Finnish: about 3.3 million pairs, newstest2017 and newstest2018",
            terms=_WMT_TERMS,
            folder="wmt18-en-fi",
        ),
        Corpus(
            name="wmt18-zh-en",
            source_language="zh",
            target_language="en",
            splits={
                "train": (
                    _aligned(
                        "news-commentary-v13",
                        addresses.NEWS_COMMENTARY_13,
                        "training-parallel-nc-v13/news-commentary-v13.zh-en.{}",
                        "zh",
                        "en",
                    ),
                    _aligned("un-v1", addresses.UN_1, "en-zh/UNv1.0.en-zh.{}", "zh", "en"),
                ),
                "dev": _newstest(
                    "newstest2017",
                    addresses.TEST_17,
                    {"zh": "test/newstest2017-zhen-src.zh.sgm", "en": "test/newstest2017-zhen-ref.en.sgm"},
                ),
                "test": _newstest(
                    "newstest2018",
                    addresses.TEST_18,
                    {"zh": "test/newstest2018-zhen-src.zh.sgm", "en": "test/newstest2018-zhen-ref.en.sgm"},
                ),
            },
            description="WMT18 Chinese to English: News Commentary v13 and UN v1.0, newstest2017 and newstest2018",
            terms=f"{_WMT_TERMS}; UN Parallel Corpus v1.0: free, the United Nations to be named",
            notes=(
                "train lacks the CWMT corpus (about 9 million pairs), which is given out on registration only; to "
                "train on all, join it with the other parts in RELA_DATA/wmt18-zh-en/train.zh and train.en",
            ),
            folder="wmt18-zh-en",
        ),
        Corpus(
            name="wmt16-ro-en",
            source_language="ro",
            target_language="en",
            splits={
                "train": (
                    _aligned(
                        "europarl-v8",
                        addresses.EUROPARL_8_RO,
                        "training-parallel-ep-v8/europarl-v8.ro-en.{}",
                        "ro",
                        "en",
                    ),
                    _aligned("setimes2", addresses.SETIMES, "SETIMES.en-ro.{}", "ro", "en"),
                ),
                "dev": _newstest(
                    "newsdev2016",
                    addresses.DEV_16,
                    {"ro": "dev/newsdev2016-roen-src.ro.sgm", "en": "dev/newsdev2016-roen-ref.en.sgm"},
                ),
                "test": _newstest(
                    "newstest2016",
                    addresses.TEST_16,
                    {"ro": "test/newstest2016-roen-src.ro.sgm", "en": "test/newstest2016-roen-ref.en.sgm"},
                ),
            },
            description="WMT16 Romanian to English: about 608,000 pairs, newsdev2016 and newstest2016",
            terms=_WMT_TERMS,
            folder="wmt16-ro-en",
        ),
    )
}
"""All corpora, by name."""


def own_name(corpus: Corpus) -> str:
    """The name by which the table knows a corpus, or the one whose languages it has exchanged."""
    return next(name for name, known in CORPORA.items() if corpus.name in (name, known.reversed().name))


def find_corpus(name: str) -> Corpus:
    """The corpus of this name, or, for a name with the languages exchanged, its reverse."""
    if name in CORPORA:
        return CORPORA[name]
    names = {corpus.reversed().name: corpus for corpus in CORPORA.values()}
    if name in names:
        return names[name].reversed()
    near = [known for known in CORPORA if known.startswith(f"{name}-")]
    near = near or difflib.get_close_matches(name, [*CORPORA, *names], n=1)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(
        f"expected a known corpus, got {name!r}; {hint}Known are {', '.join(CORPORA)}, and each with its languages "
        "exchanged"
    )
