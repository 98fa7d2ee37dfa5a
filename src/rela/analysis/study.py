"""A study: one model or several on one corpus, measured, compared, and written down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rela._device import checked_device
from rela._files import digest, write_text
from rela._version import __version__
from rela.alignment.pairs import PairBatch, by_length
from rela.analysis.ablation import Ablation
from rela.analysis.corpus import Corpus, Item
from rela.analysis.entry import Signatures, ablation_measures, best_heads, measures_of
from rela.analysis.examples import Example, Sample, Shown, examples_of
from rela.analysis.finding import Finding, most_interesting
from rela.analysis.findings import other_findings, specialists
from rela.analysis.inspection import Inspection
from rela.analysis.measuring import Measuring
from rela.analysis.opposite import symmetrised_measures
from rela.analysis.partial import Partial
from rela.analysis.results import EXAMPLES_FILE, FORMAT, RESULTS_FILE, grouped
from rela.analysis.tags import START, categories
from rela.model.directory import WEIGHTS_FILE, LoadedModel, find_model_folder, load_model, read_description

_LOOKABLE: Final = range(5, 31)
"""Target words of a sentence that shows a finding well."""

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


@dataclass(frozen=True)
class NamedModel:
    """A model of a study: its folder, its name in tables, and the group of those that differ in their seed alone."""

    folder: Path
    name: str
    group: str
    seed: int | None
    attention: str


def name_models(paths: Sequence[Path]) -> list[NamedModel]:
    """Names that tell models apart: the attention's, with the seed or the folder where that is not enough."""
    found: list[NamedModel] = []
    for path in paths:
        folder = find_model_folder(path)
        description = read_description(folder)
        config = description["model"]
        seed = (description.get("made_by") or {}).get("seed")
        shape = f"{config.encoder_layers}+{config.decoder_layers}x{config.num_heads}"
        label = config.attention.label
        found.append(NamedModel(folder, label, f"{label} {shape}", seed, label))
    shapes = {label: {model.group for model in found if model.attention == label} for label in {m.name for m in found}}
    found = [replace(m, group=m.attention if len(shapes[m.attention]) == 1 else m.group) for m in found]
    found = [replace(m, name=m.group) for m in found]
    counts = Counter(model.group for model in found)
    seeds = Counter((model.group, model.seed) for model in found)
    named: list[NamedModel] = []
    for model, path in zip(found, paths, strict=True):
        if counts[model.group] == 1:
            named.append(model)
        elif model.seed is not None and seeds[model.group, model.seed] == 1:
            named.append(replace(model, name=f"{model.group} seed {model.seed}"))
        else:
            named.append(replace(model, name=f"{model.group} ({path})"))
    repeated = [name for name, count in Counter(model.name for model in named).items() if count > 1]
    if repeated:
        raise ValueError(f"expected different models, got {repeated[0]} more than once")
    return named


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

    ``opposite`` is a model of the other direction, whose links are symmetrised with those of each model.
    """
    options = options or StudyOptions()
    models = name_models(paths)
    out.mkdir(parents=True, exist_ok=True)
    partial = Partial(out, _recipe(models, corpus, options, opposite))
    entries: list[dict[str, Any]] = []
    found: list[list[Finding]] = []
    shown: Shown | None = None
    for number, named in enumerate(models):
        loaded = load_model(named.folder)
        loaded = loaded._replace(model=loaded.model.to(checked_device(options.device)))
        sample = Sample(options.num_examples, options.seed) if shown is None else None
        done = _measure(number, named, loaded, corpus, options, partial, sample, opposite, progress)
        if shown is None:
            assert sample is not None
            shown = Shown(examples_of(sample.items(), corpus.wording), corpus.wording)
        inspections = shown.add(named.name, loaded.model, loaded.tokenizers, done.entry["best"])
        entries.append(done.entry)
        found.append(_with_sentences(done.findings, shown.examples, inspections))
    _add_findings(entries, found)
    assert shown is not None
    results = {
        "format": FORMAT,
        "rela_version": __version__,
        "data": entries[0].pop("data"),
        "models": [{key: value for key, value in entry.items() if key != "data"} for entry in entries],
        "groups": grouped(entries),
    }
    shown.write(out / EXAMPLES_FILE)
    write_text(out / RESULTS_FILE, json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    partial.finish()
    return results


@dataclass(frozen=True)
class _Done:
    entry: dict[str, Any]
    findings: list[Finding]


def _measure(
    number: int,
    named: NamedModel,
    loaded: LoadedModel,
    corpus: Corpus,
    options: StudyOptions,
    partial: Partial,
    sample: Sample | None,
    opposite: Path | None,
    progress: Progress,
) -> _Done:
    """One model: from where it was left, or from its finished entry."""
    model, tokenizers, languages = loaded
    measuring = Measuring(model, corpus, num_hallucinated=options.num_hallucinated, seed=options.seed)
    if (state := partial.state(number)) is not None:
        measuring.restore(state)

    def after_window(window: list[Item]) -> None:
        progress(f"analysing {named.name}", len(window))
        partial.keep_state(number, measuring.state())

    measuring.run(tokenizers, see_window=None if sample is None else sample.add, after_window=after_window)
    if measuring.num_pairs == 0:
        raise ValueError(
            f"{corpus.source}: expected at least one pair to analyse, got none: {corpus.report.lines()[0]}"
        )
    partial.keep_state(number, measuring.state(), at_once=True)
    data = corpus.describe((languages.source, languages.target))  # before anything reads the corpus again
    signatures = Signatures(measuring, named.attention, named.name)
    measures = measures_of(measuring, signatures)
    by_tag = None if measuring.tags is None else measuring.tags.result()
    findings = [] if by_tag is None else specialists(by_tag)
    entry = partial.entry(number)
    if entry is None:
        if options.num_ablated:
            measures |= _ablate(loaded, corpus, options.num_ablated, signatures, named, progress)
        if opposite is not None:
            measures |= symmetrised_measures(loaded, load_model(opposite), corpus, signatures)
        config = model.config
        ratio = measuring.cost.ratio
        entry = {
            "name": named.name,
            "group": named.group,
            "path": str(named.folder),
            "direction": f"{languages.source}-{languages.target}",
            "seed": named.seed,
            "attention": named.attention,
            "attentions": {kind: config.attention.spec(kind).name for kind in ("encoder", "decoder", "cross")},
            "layers": {kind: len(found) for kind, found in model.attentions().items()},
            "heads": config.num_heads,
            "parameters": model.num_parameters(),
            "cost": {
                "ratio": None if ratio is None else round(ratio, 3),
                "signature": signatures.of("cost", f"batches:{len(measuring.cost.plain)}", "against:forced-forward"),
            },
            "best": None if measuring.errors is None else best_heads(measuring.errors),
            "measures": measures,
            "data": {
                **data,
                "source_pieces": int(measuring.pieces[0]),
                "target_pieces": int(measuring.pieces[1]),
            },
        }
        partial.keep_entry(number, entry)
    return _Done(entry, findings)


def _ablate(
    loaded: LoadedModel,
    corpus: Corpus,
    num_pairs: int,
    signatures: Signatures,
    named: NamedModel,
    progress: Progress,
) -> dict[str, Any]:
    """Silence each head in turn, on the first pairs."""
    pairs = [item.pair for item in _first(corpus.items(loaded.tokenizers), num_pairs)]
    ablation = Ablation(loaded.model)
    for places in by_length(pairs):
        ablation.add(PairBatch([pairs[place] for place in places], loaded.model.projection.device))
        progress(f"silencing heads of {named.name}", len(places))
    return ablation_measures(ablation.result().measures(), len(pairs), signatures)


def _first(items: Iterator[Item], count: int) -> list[Item]:
    return [item for _, item in zip(range(count), items, strict=False)]


def _add_findings(entries: list[dict[str, Any]], found: list[list[Finding]]) -> None:
    """Into each entry its findings, the strongest first."""
    measures = {entry["name"]: entry["measures"] for entry in entries}
    for entry, of_tags in zip(entries, found, strict=True):
        others = {name: other for name, other in measures.items() if name != entry["name"]}
        general = list(other_findings(entry["measures"], others))
        ordered = sorted([*of_tags, *general], key=lambda finding: -finding.strength)
        best = most_interesting(ordered)
        rest = [finding for finding in ordered if finding not in best]
        entry["findings"] = [finding.to_json() for finding in [*best, *rest]]


def _with_sentences(
    findings: Sequence[Finding], examples: Sequence[Example], inspections: Sequence[Inspection]
) -> list[Finding]:
    """Each with the example that shows it best."""
    return [replace(finding, sentence=_sentence(finding, examples, inspections)) for finding in findings]


def _sentence(finding: Finding, examples: Sequence[Example], inspections: Sequence[Inspection]) -> int | None:
    """Where the head is active at most of the category's words, and null elsewhere, or the other way round."""
    if finding.kind is None or finding.layer is None or finding.head is None or finding.category is None:
        return None
    best, chosen = -np.inf, None
    for place, (example, inspection) in enumerate(zip(examples, inspections, strict=True)):
        if example.role != "pair" or example.target_tags is None or len(inspection.target_words) not in _LOOKABLE:
            continue
        null = inspection.null(finding.kind)[finding.layer, finding.head]
        inside = np.zeros(len(null), bool)
        inside[0] = finding.category == START
        named = categories(inspection.target_words, example.target_tags)
        for pieces, words in zip(inspection.target_word_pieces, named, strict=True):
            if pieces and finding.category in words:
                inside[pieces[-1] + 1] = True
        if inside.any() and not inside.all():
            gap = abs(null[inside].mean() - null[~inside].mean()) + 0.02 * min(int(inside.sum()), 5)
            if gap > best:
                best, chosen = gap, place
    return chosen


def _recipe(
    models: Sequence[NamedModel], corpus: Corpus, options: StudyOptions, opposite: Path | None
) -> dict[str, Any]:
    """All that decides what comes out: to go on, it must be the same."""
    files = [corpus.source, corpus.target]
    if corpus.gold is not None:
        files += [path for path in (corpus.gold.sure, corpus.gold.possible) if path is not None]
    if isinstance(corpus.tags, Path):
        files.append(corpus.tags)
    folders = [model.folder for model in models] + ([] if opposite is None else [find_model_folder(opposite)])
    return {
        "version": __version__,
        "options": asdict(options),
        "files": {str(path): digest(path) for path in files},
        "models": {str(folder): digest(folder / WEIGHTS_FILE) for folder in folders},
        "gold": None if corpus.gold is None else [corpus.gold.base, corpus.gold.flipped],
        "tagger": corpus.tags is not None and not isinstance(corpus.tags, Path),
        "wording": [corpus.wording.tokenised, dict(corpus.wording.replacements)],
        "max_pieces": corpus.max_pieces,
    }
