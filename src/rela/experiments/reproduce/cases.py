"""Sentences to look at, for the paper's figures 7 to 10: their weights in a model, kept beside the numbers.

Text of the corpora is not ours to hand on, so pictures show sentences that were written for them, and links that we
drew between their words.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.results import EXAMPLES_FILE
from rela.analysis.study import StudyOptions, run_study
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Job
from rela.experiments.reproduce.scales import Task
from rela.experiments.reproduce.texts import tagger_for, weights_corpus
from rela.text.registry import find_corpus

_SENTENCES: Final = 32
_CAPTIONS: Final = {language: Path(__file__).with_name(f"captions.{language}") for language in ("en", "de")}
_LINKS: Final = Path(__file__).with_name("captions.links")


def cases_corpus(places: Places, task: Task) -> Corpus | None:
    """Of the built-in corpus its own sentences; for other corpora English and German captions. None: none fit."""
    corpus = find_corpus(task.corpus)
    if corpus.is_generated:
        return weights_corpus(places, task)
    languages = corpus.source_language, corpus.target_language
    if set(languages) != set(_CAPTIONS):
        return None
    return Corpus(
        source=_CAPTIONS[languages[0]],
        target=_CAPTIONS[languages[1]],
        gold=GoldFiles(sure=_LINKS, flipped=languages[0] != "en"),
        tags=tagger_for(languages[1]),
    )


def keep_cases(places: Places, job: Job) -> dict[str, Any]:
    """Weights of some sentences, in a file beside the others; and which heads link their words best."""
    corpus = cases_corpus(places, job.task)
    if corpus is None:
        reason = "there are sentences to look at in English and German only"
        return {"examples": None, "best": None, "reason": reason}
    folder = Path(tempfile.mkdtemp(prefix="cases-", dir=places.run(job)))
    try:
        options = StudyOptions(num_hallucinated=0, num_examples=_SENTENCES)
        results = run_study([places.run(job)], corpus, folder, options)
        kept = places.kept(job, "cases").with_suffix(".npz")
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / EXAMPLES_FILE, kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"examples": kept.name, "best": results["models"][0]["best"], "reason": None}
