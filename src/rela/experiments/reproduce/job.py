"""One training of a study, and what is found out with its model. Each result is kept when it is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rela._version import __version__
from rela.analysis.study import StudyOptions, run_study
from rela.bench.noise import NoiseTask, measure_noise, signature
from rela.decoding.translator import Translator
from rela.evaluation import Recipe, evaluate
from rela.evaluation.bleu import bleu_metric
from rela.evaluation.sacre import counts_of
from rela.experiments.reproduce.cases import keep_cases
from rela.experiments.reproduce.drawn import draw_alignment_errors
from rela.experiments.reproduce.keeping import entry_to_keep
from rela.experiments.reproduce.places import Places, keep, load_kept
from rela.experiments.reproduce.plan import Job
from rela.experiments.reproduce.texts import Split, read_split, test_splits, weights_corpus
from rela.model.directory import MODEL_FOLDER
from rela.text.store import Store
from rela.training import runs
from rela.training.divergence import DivergedError
from rela.training.journal import read_log, read_status
from rela.training.reporter import Reporter
from rela.training.world import World

BEAM: Final = 4
LENGTH_PENALTY: Final = 0.6
_CURVE: Final = 120  # points of a curve that is kept
_HALLUCINATED: Final = 2000
_EXAMPLES: Final = 0

DONE: Final = "done"
FAILED: Final = "failed"

Say = Callable[[str], None]


def is_done(places: Places, job: Job) -> bool:
    """Whether all that is wanted of a job is kept already."""
    trained = load_kept(places, job, "train")
    if trained is None:
        return False
    return trained["status"] == FAILED or all(load_kept(places, job, step) is not None for step in _steps(places, job))


def _steps(places: Places, job: Job) -> list[str]:
    """Without those that cannot be done here, for lack of gold links."""
    return [step for step in job.steps if step != "weights" or weights_corpus(places, job.task) is not None]


def run_job(places: Places, job: Job, reporter: Reporter, say: Say, *, train: Callable[[], None] | None = None) -> None:
    """Train, or go on, and find out all that is not kept yet. ``train`` trains in another way than in this process."""
    if is_done(places, job):
        return
    if load_kept(places, job, "train") is None or not (places.run(job) / MODEL_FOLDER).exists():
        facts = _train(places, job, reporter, train)
        keep(places, job, "train", facts)
        if facts["status"] == FAILED:
            say(f"{job.name}: {facts['reason']}")
            return
    makers: dict[str, Callable[[Places, Job], dict[str, Any]]] = {
        "test": test_model,
        "weights": _weights,
        "ranking": _ranking,
        "cases": keep_cases,
    }
    for step in _steps(places, job):
        if load_kept(places, job, step) is None:
            say(f"{job.name}: {step}")
            keep(places, job, step, makers[step](places, job))


def _train(places: Places, job: Job, reporter: Reporter, train: Callable[[], None] | None) -> dict[str, Any]:
    """The facts of a training. One that diverged is a result, too: the paper's row 4 is such a one."""
    run, config = places.run(job), places.config(job)
    try:
        if train is not None:
            train()
        elif read_status(run) != DONE:
            begun, world = (run / runs.CONFIG_FILE).exists(), World()
            resumed = runs.resume(run, world, reporter, wanted=config) if begun else None
            (resumed or runs.start(config, run, world, reporter)).train()
    except DivergedError as error:
        return {"status": FAILED, "reason": str(error), **_facts(run)}
    return {"status": DONE, "reason": None, **_facts(run)}


def _facts(run: Path) -> dict[str, Any]:
    """What the log of a run tells: curves of loss and gradient, validations, speed."""
    log = read_log(run)
    updates = [entry for entry in log if entry["event"] == "train"]
    validations = [entry for entry in log if entry["event"] == "validation"]
    model = run / MODEL_FOLDER
    parameters = Translator.load(model).model.num_parameters() if model.exists() else None
    best = min(validations, key=lambda entry: entry["loss"], default=None)
    return {
        "parameters": parameters,
        "steps": updates[-1]["step"] if updates else 0,
        "tokens": updates[-1]["tokens"] if updates else 0,
        "dev_loss": None if best is None else best["loss"],
        "curve": {key: [entry[key] for entry in _thinned(updates)] for key in ("step", "nll", "gradient_norm")},
        "validations": {key: [entry[key] for entry in validations] for key in ("step", "loss")},
        "rela_version": __version__,
    }


def _thinned(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most so many, spread over all, the first and the last among them."""
    if len(entries) <= _CURVE:
        return list(entries)
    step = (len(entries) - 1) / (_CURVE - 1)
    return [entries[round(place * step)] for place in range(_CURVE)]


def test_model(places: Places, job: Job) -> dict[str, Any]:
    """All test sets translated and scored; of the first, the counts of each sentence, for tests of significance."""
    translator = Translator.load(places.run(job))
    names = test_splits(Store.open(places.store(job.task)))
    found: dict[str, Any] = {}
    for place, name in enumerate(names):
        split = read_split(places, job.task, name)
        texts = [one.text for one in translator.translate(split.source, beam=BEAM, length_penalty=LENGTH_PENALTY)]
        _write_lines(places.run(job) / f"{name}.hypotheses.txt", texts)
        found[name] = _scores(texts, split, translator)
        if place == 0:
            metric = bleu_metric([split.target], language=_target(translator))
            rows = counts_of(metric, texts).rows
            found[name]["counts"] = [[int(value) for value in row] for row in rows]
    decoding = f"beam:{BEAM}|length-penalty:{LENGTH_PENALTY}|average:{places.config(job).checkpoints.average}"
    return {"test": found, "decoding": decoding}


def _target(translator: Translator) -> str | None:
    return None if translator.languages is None else translator.languages.target


def _scores(texts: list[str], split: Split, translator: Translator) -> dict[str, Any]:
    scores = evaluate(texts, [split.target], Recipe(language=_target(translator)))
    return {"sentences": len(texts), **{name: score.to_json() for name, score in scores.by_metric.items()}}


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _weights(places: Places, job: Job) -> dict[str, Any]:
    """What `rela analyze` measures: sparsity, null rates, diversity, links, shuffled targets, tags."""
    corpus = weights_corpus(places, job.task)
    assert corpus is not None
    folder = Path(tempfile.mkdtemp(prefix="weights-", dir=places.run(job)))
    try:
        options = StudyOptions(num_hallucinated=_HALLUCINATED, num_examples=_EXAMPLES)
        results = run_study([places.run(job)], corpus, folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = {"entry": entry_to_keep(results["models"][0], job), "data": _without_paths(results["data"])}
    return kept if corpus.gold is None else {**kept, "alignment": draw_alignment_errors(places.run(job), corpus)}


def _without_paths(data: dict[str, Any]) -> dict[str, Any]:
    found = dict(data)
    for key in ("source", "target", "tags"):
        found[key] = found[key] and Path(found[key]).name
    if found["gold"] is not None:
        gold = dict(found["gold"])
        for key in ("sure", "possible"):
            gold[key] = gold[key] and Path(gold[key]).name
        found["gold"] = gold
    return found


def _ranking(places: Places, job: Job) -> dict[str, Any]:
    """How well scores of pairs, null rates among them, tell spoiled pairs of the test set from good ones."""
    name = test_splits(Store.open(places.store(job.task)))[0]
    test, dev = read_split(places, job.task, name), read_split(places, job.task, "dev")
    task = NoiseTask(
        name=f"{job.task.corpus}/{name}",
        pairs=list(zip(test.source, test.target, strict=True)),
        calibration=list(zip(dev.source, dev.target, strict=True))[:1000],
    )
    measured = measure_noise(places.run(job), task)
    return {
        "auc": {kind: {score: round(one.auc, 4) for score, one in found.items()} for kind, found in measured.items()},
        "counts": {kind: next(iter(found.values())).num_noisy for kind, found in measured.items()},
        "signature": signature(task, job.system.attentions.label),
    }
