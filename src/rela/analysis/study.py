"""A study: one model or several on one corpus, measured, compared, and written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rela._device import checked_device
from rela._files import write_text
from rela._lock import FolderLock
from rela._version import __version__
from rela._warn import warn
from rela.alignment.pairs import PairBatch, by_length, windows
from rela.analysis.ablation import Ablation
from rela.analysis.corpus import Corpus, Item
from rela.analysis.entry import Signatures, ablation_measures, describe_data, describe_model, measures_of
from rela.analysis.evidence import Evidence, add_findings
from rela.analysis.examples import ExamplesFile
from rela.analysis.finding import Finding
from rela.analysis.findings import specialists
from rela.analysis.measuring import Measuring
from rela.analysis.naming import NamedModel, name_models
from rela.analysis.opposite import check_opposite, symmetrised_measures
from rela.analysis.partial import Partial, drop_what_is_empty, recipe_of
from rela.analysis.results import EXAMPLES_FILE, FORMAT, RESULTS_FILE, Measures, grouped
from rela.analysis.sample import Sample, examples_of
from rela.model.directory import find_model_folder
from rela.model.opening import OpenedModel, open_model

Progress = Callable[[str, int], None]


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What is measured besides the statistics.

    Attributes:
        num_hallucinated: how many pairs, the first ones, also run with shuffled targets; 0: none.
        num_ablated: on how many pairs each head is silenced in turn; 0: none.
        num_examples: how many pairs are kept with all their weights, drawn from all.
        seed: of the shuffle and of the drawing.
    """

    num_hallucinated: int = 5_000
    num_ablated: int = 0
    num_examples: int = 200
    seed: int = 1
    device: str = "cpu"


def run_study(
    paths: Sequence[Path],
    corpus: Corpus,
    out: Path,
    options: StudyOptions | None = None,
    *,
    opposite: Path | None = None,
    progress: Progress = lambda _what, _count: None,
) -> dict[str, Any]:
    """Measure, and write ``results.json`` and ``attention.npz``; returns what is in the former.

    ``opposite`` is a model of the other direction, whose links are symmetrised with those of each model. One that was
    cut off goes on when it is called again in the same way.
    """
    options = options or StudyOptions()
    models = name_models(paths)
    corpus.check()
    backward = None if opposite is None else _load(find_model_folder(opposite), options)
    if backward is not None:
        check_opposite(models[0].languages, backward.languages, corpus)
        corpus = corpus.within(backward.model.max_pieces, opposite)
    for model in models:
        corpus = corpus.within(model.max_pieces, model.folder)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(out, f"{out}: another analysis is writing here; wait for it to end, or name another folder")
    try:
        folders = [model.folder for model in models]
        recipe = recipe_of(folders, opposite and find_model_folder(opposite), corpus, asdict(options))
        study = _Study(corpus, options, backward, Partial(out, recipe), progress)
        return study.run(models, out)
    finally:
        drop_what_is_empty(out, is_new=is_new)
        lock.release()


def _load(folder: Path, options: StudyOptions) -> OpenedModel:
    loaded = open_model(folder)
    return loaded._replace(model=loaded.model.to(checked_device(options.device)))


class _Study:
    def __init__(
        self,
        corpus: Corpus,
        options: StudyOptions,
        backward: OpenedModel | None,
        partial: Partial,
        progress: Progress,
    ) -> None:
        self._corpus, self._options, self._backward = corpus, options, backward
        self._partial, self._progress = partial, progress

    def run(self, models: Sequence[NamedModel], out: Path) -> dict[str, Any]:
        """All models, one after the other."""
        sample = Sample(self._options.num_examples, self._options.seed)
        entries: list[dict[str, Any]] = []
        found: list[list[Finding]] = []
        data: dict[str, Any] = {}
        with ExitStack() as stack:
            file: ExamplesFile | None = None
            for number, named in enumerate(models):
                loaded = _load(named.folder, self._options)
                measuring = self._measure(number, named, loaded, sample if number == 0 else None)
                if file is None:
                    data = describe_data(measuring, named)
                    examples = examples_of(sample.items(), self._corpus.wording)
                    partial = self._partial.folder / f"{EXAMPLES_FILE}.partial"
                    file = stack.enter_context(ExamplesFile(examples, self._corpus.wording, partial))
                entries.append(self._entry(number, named, loaded, measuring))
                evidence = Evidence([] if measuring.tags is None else specialists(measuring.tags.result()))
                file.add(named.name, loaded.model, loaded.tokenizers, entries[-1]["best"], evidence.look)
                found.append(evidence.findings)
            assert file is not None
            file.finish(out / EXAMPLES_FILE)
        add_findings(entries, found)
        results = {
            "format": FORMAT,
            "rela_version": __version__,
            "data": data,
            "models": entries,
            "groups": grouped(entries),
        }
        write_text(out / RESULTS_FILE, json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        self._partial.finish()
        return results

    def _measure(self, number: int, named: NamedModel, loaded: OpenedModel, sample: Sample | None) -> Measuring:
        """From where a model was left. All lines are read, also those that were measured before."""
        options = self._options
        measuring = Measuring(loaded.model, self._corpus, num_hallucinated=options.num_hallucinated, seed=options.seed)
        if (state := self._partial.state(number)) is not None:
            measuring.restore(state)

        def after_window(window: list[Item]) -> None:
            self._partial.keep_state(number, measuring.state())
            self._progress(f"analysing {named.name}", len(window))

        measuring.run(loaded.tokenizers, see_window=sample and sample.add, after_window=after_window)
        reading = measuring.reading
        assert reading is not None
        if measuring.num_pairs == 0:
            self._partial.finish()
            why = "; ".join(reading.lines()) or "the files are empty"
            raise ValueError(f"{self._corpus.source}: expected at least one pair to analyse, got none: {why}")
        for line in reading.lines() if number == 0 else reading.lines_on_length():
            warn(f"left out, {named.name}: {line}" if number else f"left out: {line}")
        return measuring

    def _entry(self, number: int, named: NamedModel, loaded: OpenedModel, measuring: Measuring) -> dict[str, Any]:
        """Of a model that was measured; what takes more passes is taken from an earlier time, if it was done then."""
        entry = self._partial.entry(number)
        if entry is None:
            signatures = Signatures(measuring, named.attention, named.name)
            measures = measures_of(measuring, signatures)
            if self._options.num_ablated:
                measures |= self._ablate(named, loaded, signatures)
            if self._backward is not None:
                measures |= symmetrised_measures(
                    loaded,
                    self._backward,
                    self._corpus,
                    signatures,
                    lambda count: self._progress(f"links of {named.name} in both directions", count),
                )
            entry = describe_model(named, measuring, measures, signatures)
            self._partial.keep_entry(number, entry)
        return entry

    def _ablate(self, named: NamedModel, loaded: OpenedModel, signatures: Signatures) -> Measures:
        """Silence each head in turn, on the first pairs."""
        ablation = Ablation(loaded.model)
        items = islice(self._corpus.read(loaded.tokenizers), self._options.num_ablated)
        num_pairs = 0
        for window in windows(item.pair for item in items):
            for places in by_length(window):
                ablation.add(PairBatch([window[place] for place in places], loaded.model.projection.device))
                self._progress(f"silencing heads of {named.name}", len(places))
            num_pairs += len(window)
        return ablation_measures(ablation.result().measures(), num_pairs, signatures)
