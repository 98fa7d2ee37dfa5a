"""One training of a study, and what is found out with its model. Each result is kept when it is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rela._files import digest
from rela.analysis.study import StudyOptions, run_study
from rela.bench.noise import NoiseTask, measure_noise, signature
from rela.decoding.translator import Translator
from rela.evaluation import Recipe, evaluate
from rela.evaluation.bleu import bleu_metric
from rela.evaluation.sacre import counts_of, packed_bleu_counts
from rela.experiments.reproduce.cases import keep_cases
from rela.experiments.reproduce.drawn import draw_alignment_errors
from rela.experiments.reproduce.facts import facts_of
from rela.experiments.reproduce.keeping import entry_to_keep
from rela.experiments.reproduce.places import Places, keep, load_kept
from rela.experiments.reproduce.plan import Job, Step
from rela.experiments.reproduce.texts import Split, read_split, test_splits, weights_corpus
from rela.model.directory import MODEL_FOLDER, WEIGHTS_FILE
from rela.text.store import Store
from rela.training import runs
from rela.training.divergence import DivergedError
from rela.training.journal import read_status
from rela.training.reporter import Reporter
from rela.training.world import World

BEAM: Final = 4
LENGTH_PENALTY: Final = 0.6
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
    steps = measurable(places, job)
    return trained["status"] == FAILED or all(_is_kept(places, job, step, trained["model"]) for step in steps)


def _is_kept(places: Places, job: Job, step: Step, model: str | None) -> bool:
    """Whether there is a result of this very model: one that was trained anew elsewhere is another one."""
    kept = load_kept(places, job, step)
    return kept is not None and kept["model"] == model


def measurable(places: Places, job: Job) -> list[Step]:
    """What is wanted of a job, without what cannot be done here, for lack of gold links."""
    return [step for step in job.steps if step != "weights" or weights_corpus(places, job.task) is not None]


def run_job(places: Places, job: Job, reporter: Reporter, say: Say, *, train: Callable[[], None] | None = None) -> None:
    """Train, or go on, and find out all that is not kept yet. ``train`` trains in another way than in this process."""
    if is_done(places, job):
        return
    weights = places.run(job) / MODEL_FOLDER / WEIGHTS_FILE
    trained = load_kept(places, job, "train")
    if trained is None or not weights.exists() or digest(weights) != trained["model"]:
        facts = _train(places, job, reporter, train)
        keep(places, job, "train", {"model": digest(weights) if weights.exists() else None, **facts})
        if facts["status"] == FAILED:
            say(f"{job.name}: {facts['reason']}")
            return
    makers: dict[Step, Callable[[Places, Job], dict[str, Any]]] = {
        "test": test_model,
        "weights": _weights,
        "ranking": _ranking,
        "cases": keep_cases,
    }
    model = digest(weights)
    for step in measurable(places, job):
        if not _is_kept(places, job, step, model):
            say(f"{job.name}: {step}")
            keep(places, job, step, {"model": model, **makers[step](places, job)})


def _train(places: Places, job: Job, reporter: Reporter, train: Callable[[], None] | None) -> dict[str, Any]:
    """The facts of a training. One that diverged is a result, too: the paper's row 4 is such a one."""
    run, config = places.run(job), places.config(job)
    try:
        if train is not None:
            train()
        elif read_status(run) != DONE or not (run / MODEL_FOLDER).exists():
            begun, world = (run / runs.CONFIG_FILE).exists(), World()
            resumed = runs.resume(run, world, reporter, wanted=config) if begun else None
            (resumed or runs.start(config, run, world, reporter)).train()
    except DivergedError as error:
        return {"status": FAILED, "reason": str(error), **facts_of(run)}
    return {"status": DONE, "reason": None, **facts_of(run)}


def test_model(places: Places, job: Job) -> dict[str, Any]:
    """All test sets translated and scored, with the counts of each sentence, for tests of significance."""
    translator = Translator.load(places.run(job))
    names = test_splits(Store.open(places.store(job.task)))
    found: dict[str, Any] = {}
    for name in names:
        split = read_split(places, job.task, name)
        texts = [one.text for one in translator.translate(split.source, beam=BEAM, length_penalty=LENGTH_PENALTY)]
        _write_lines(places.run(job) / f"{name}.hypotheses.txt", texts)
        found[name] = _scores(texts, split, translator)
        metric = bleu_metric([split.target], language=_target(translator))
        found[name]["counts"] = packed_bleu_counts(counts_of(metric, texts))
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
        "precision": {
            kind: {score: round(one.precision, 4) for score, one in found.items()} for kind, found in measured.items()
        },
        "counts": {kind: next(iter(found.values())).num_noisy for kind, found in measured.items()},
        "signature": signature(task, job.system.attentions.label),
    }
