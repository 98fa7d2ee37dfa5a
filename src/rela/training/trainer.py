"""The training loop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rela._files import write_text
from rela.model.directory import Languages
from rela.model.transformer import Transformer
from rela.text.batches import Batch, BatchOptions, BatchStream, Position, padding_share
from rela.text.store import Store
from rela.training import allocator
from rela.training.averaging import average_run
from rela.training.checkpoints import list_checkpoints, load_checkpoint, prune, save_checkpoint
from rela.training.config import TrainConfig, dump_config, load_config
from rela.training.divergence import DivergenceWatch
from rela.training.journal import Journal
from rela.training.loss import Loss, token_loss
from rela.training.schedule import learning_rate
from rela.training.validation import Validator
from rela.training.world import World

CONFIG_FILE: Final = "config.yaml"
_FIXED: Final = ("store", "split", "seed", "model", "batch", "optimizer", "rate")


class DivergedError(ValueError):
    """The training diverged."""


class InterruptedRunError(Exception):
    """The training was asked to stop, and left a checkpoint to go on from."""


class Reporter(Protocol):
    """Someone who is told how training goes."""

    def started(self, facts: dict[str, Any]) -> None:
        """Before the first update."""
        ...

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        """After every update."""
        ...

    def noted(self, text: str) -> None:
        """Something to read: a validation, a checkpoint."""
        ...


class Criterion(nn.Module):
    """Model and loss in one module, so that several processes share its gradients."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Loss:
        return token_loss(self.model(source, target_in), self.model.projection, target_out, self.smoothing)


class Trainer:
    """One run: everything that it is made of, and the loop.

    All that happens follows from the configuration and the number of the update: batches come from a stream with a
    position, and the generator of dropout is seeded anew for each update. So a run that was cut off and resumed from
    a checkpoint ends with the weights of one that was not.
    """

    def __init__(self, config: TrainConfig, run: Path, world: World, reporter: Reporter, *, resume: bool) -> None:
        self.config, self.run_folder, self.world, self.reporter = config, run, world, reporter
        store = Store.open(config.store)
        self.tokenizers, self.languages = store.tokenizers(), Languages(*store.languages)
        self.split = store.split(config.split)
        self.model = self._build_model()
        self.watch = DivergenceWatch(config.divergence)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=0.0,
            betas=(config.optimizer.beta1, config.optimizer.beta2),
            eps=config.optimizer.eps,
            weight_decay=config.optimizer.weight_decay,
            fused=True,
        )
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.best: dict[str, Any] | None = None
        self.stale = 0
        position = self._restore() if resume else Position()
        batch = config.batch
        options = BatchOptions(
            tokens=batch.tokens, max_pieces=batch.max_pieces, seed=config.seed, subword_dropout=batch.subword_dropout
        )
        self.stream = BatchStream(self.split, options, (self.tokenizers.source, self.tokenizers.target), position)
        self.validator = Validator(
            store.split(config.validation.split), self.tokenizers, config.validation, batch.tokens, batch.max_pieces
        )
        criterion = Criterion(self.model, config.optimizer.label_smoothing)
        self.criterion: nn.Module = criterion if world.size == 1 else DistributedDataParallel(criterion)
        self.epoch_tokens = len(self.split.target.tokens) + len(self.split)
        self._stop = False
        self._last_saved = self.step

    def _build_model(self) -> Transformer:
        torch.manual_seed(self.config.seed)
        source, target = self.tokenizers
        config = self.config.model.resolve(source.size, target.size, self.tokenizers.joint)
        return Transformer(config).to(self.world.device)

    # ------------------------------------------------------------------ the loop

    def train(self) -> dict[str, Any]:
        """Train to the end of the budget. Returns what came out; raises DivergedError or InterruptedRunError."""
        allocator.keep_memory()
        journal = self._journal()
        self.reporter.started(self._facts())
        began = time.monotonic() - self.seconds
        self.model.train()
        try:
            with self._listening():
                while not self._is_over():
                    self._update(journal)
                    self.seconds = time.monotonic() - began
                    self._validate_and_save(journal)
                    if self.world.any(self._stop):
                        self._save(scheduled=False)
                        raise InterruptedRunError
            return self._finish(journal)
        except DivergedError as error:
            if journal is not None:
                journal.write("failed", self.step, reason=str(error))
                journal.set_status("failed", self.step, reason=str(error))
            raise
        except InterruptedRunError:
            if journal is not None:
                journal.set_status("interrupted", self.step)
            raise
        finally:
            if journal is not None:
                journal.close()

    def _update(self, journal: Journal | None) -> None:
        """One update: as many batches as it takes, shared among the processes."""
        config = self.config
        started = time.monotonic()
        batches = self._collect()
        total = sum(batch.num_tokens for batch in batches)
        mine = batches[self.world.rank :: self.world.size]
        torch.manual_seed(_mix(config.seed, self.step, self.world.rank))
        self.optimizer.zero_grad(set_to_none=True)
        smoothed = plain = 0.0
        for place, batch in enumerate(mine or batches[:1]):
            weight = self.world.size / total if mine else 0.0  # one who has no batch takes part with nothing
            with self._sync(last=place + 1 == max(1, len(mine))):
                source, target_in, target_out = self.world.to_device(*(torch.from_numpy(ids) for ids in batch[:3]))
                loss = self.criterion(source, target_in, target_out)
                (loss.smoothed * weight).backward()
            if mine:
                smoothed, plain = smoothed + float(loss.smoothed.detach()), plain + float(loss.plain)
        smoothed, plain = (value / total for value in self.world.sum(smoothed, plain))
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), config.optimizer.clip or float("inf")))
        rate = learning_rate(config.rate, self.model.config.dim, self.step + 1, self.spent())
        reason = self.watch.look(smoothed, norm)
        if reason is not None:
            raise DivergedError(reason)
        if self.watch.skipped == 0:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.step += 1
        self.tokens += total
        speed = total / (time.monotonic() - started)
        self.reporter.updated(self.step, self.spent(), smoothed, speed)
        if journal is not None and (self.step % config.log.every == 0 or self.step == 1 or self.watch.skipped):
            values = {"loss": _finite(smoothed), "nll": _finite(plain), "rate": rate, "gradient_norm": _finite(norm)}
            counts = {"tokens": self.tokens, "epoch": self.stream.position.epoch, "skipped": self.watch.skipped}
            journal.write("train", self.step, **values, **counts, tokens_per_second=round(speed, 1))

    def _collect(self) -> list[Batch]:
        """The batches of one update, the same list in every process."""
        wanted = self.config.batch.update_tokens
        batches: list[Batch] = []
        total = 0
        while True:
            batch = next(self.stream)
            batches.append(batch)
            total += batch.num_tokens
            if total + batch.num_tokens / 2 >= wanted:  # another one would lead further away
                return batches

    def _sync(self, *, last: bool) -> AbstractContextManager[object]:
        """Gradients are exchanged in the last backward pass of an update."""
        if isinstance(self.criterion, DistributedDataParallel) and not last:
            return self.criterion.no_sync()
        return nullcontext()

    def spent(self) -> float:
        """The share of the budget that is used up."""
        budget = self.config.budget
        shares = [
            self.step / budget.steps if budget.steps else 0.0,
            self.tokens / budget.tokens if budget.tokens else 0.0,
            self.tokens / (budget.epochs * self.epoch_tokens) if budget.epochs else 0.0,
        ]
        return min(1.0, max(shares))

    def _is_over(self) -> bool:
        budget, patience = self.config.budget, self.config.validation.patience
        return (
            (budget.steps is not None and self.step >= budget.steps)
            or (budget.tokens is not None and self.tokens >= budget.tokens)
            or (budget.epochs is not None and self.stream.position.epoch >= budget.epochs)
            or (patience is not None and self.stale >= patience)
        )

    # ------------------------------------------------------------------ validation and checkpoints

    def _validate_and_save(self, journal: Journal | None) -> None:
        over = self._is_over()
        if over or self.step % self.config.validation.every == 0:
            self._validate(journal)
        if over or self.step % self.config.checkpoints.every == 0:
            self._save(scheduled=True)

    def _validate(self, journal: Journal | None) -> None:
        started = time.monotonic()
        found = self.validator.run(self.model, self.world)
        seconds = time.monotonic() - started
        metric = self.config.validation.metric
        value = found.loss if metric == "loss" else -(found.bleu or 0.0)
        better = self.best is None or value < self.best["value"]
        if better:
            self.best = {"step": self.step, "value": value, "loss": found.loss, "bleu": found.bleu}
        self.stale = 0 if better else self.stale + 1
        if journal is not None:
            journal.write("validation", self.step, loss=_finite(found.loss), bleu=found.bleu, seconds=round(seconds, 2))
        bleu = "" if found.bleu is None else f", BLEU {found.bleu:.2f} (greedy)"
        self.reporter.noted(f"update {self.step:,}: validation loss {found.loss:.4f}{bleu}{'' if better else ' '}")

    def _save(self, *, scheduled: bool) -> None:
        if not scheduled and self._last_saved == self.step:
            return
        self._last_saved = self.step
        if self.world.is_first:
            if not all(bool(torch.isfinite(p).all()) for p in self.model.parameters()):
                raise DivergedError("the weights are not finite numbers; the last checkpoint is from before")
            save_checkpoint(
                self.run_folder, self.model, self.optimizer, self.tokenizers, self.languages, self._state(scheduled)
            )
            best = None if self.best is None else self.best["step"]
            prune(self.run_folder, self.config.checkpoints.keep_last, best)
        self.world.wait()

    def _state(self, scheduled: bool) -> dict[str, Any]:
        return {
            "step": self.step,
            "scheduled": scheduled,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
            "position": asdict(self.stream.position),
            "best": self.best,
            "stale": self.stale,
            "divergence": self.watch.state(),
        }

    def _restore(self) -> Position:
        checkpoints = list_checkpoints(self.run_folder)
        if not checkpoints:
            return Position()  # cut off before the first one
        state = load_checkpoint(checkpoints[-1].path, self.model, self.optimizer)
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.best, self.stale = state["best"], state["stale"]
        self.watch.restore(state["divergence"])
        return Position(**state["position"])

    def _finish(self, journal: Journal | None) -> dict[str, Any]:
        result = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "parameters": self.model.num_parameters(),
            "attention": self.model.config.attention.label,
            "best": self.best,
            "model": str(self.run_folder / "model"),
        }
        if journal is not None:
            average_run(self.run_folder, self.config.checkpoints.average, self.run_folder / "model")
            journal.set_status("done", self.step, **{key: result[key] for key in ("tokens", "seconds", "best")})
        self.world.wait()
        return result

    # ------------------------------------------------------------------ around it

    def _journal(self) -> Journal | None:
        if not self.world.is_first:
            return None
        journal = Journal(self.run_folder, step=self.step, tensorboard=self.config.log.tensorboard)
        journal.set_status("running", self.step)
        if self.step > 0:
            journal.write("resumed", self.step)
        return journal

    def _facts(self) -> dict[str, Any]:
        return {
            "parameters": self.model.num_parameters(),
            "attention": self.model.config.attention.label,
            "pairs": len(self.split),
            "step": self.step,
            "processes": self.world.size,
            "padding": padding_share(self.split, self.stream.options),
        }

    @contextmanager
    def _listening(self) -> Generator[None]:
        """While training, Ctrl-C and SIGTERM ask to stop after the update; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(*_: object) -> None:
            if self._stop:
                raise KeyboardInterrupt
            self._stop = True
            self.reporter.noted("stopping after this update; once more to stop at once")

        old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


def start(config: TrainConfig, run: Path, world: World, reporter: Reporter) -> Trainer:
    """A new run in a folder that has none."""
    if (run / CONFIG_FILE).exists():
        raise FileExistsError(f"{run}: there is a run already; go on with `rela train --resume {run}`, or name another")
    trainer = Trainer(config, run, world, reporter, resume=False)
    if world.is_first:
        run.mkdir(parents=True, exist_ok=True)
        write_text(run / CONFIG_FILE, dump_config(config))
    world.wait()
    return trainer


def resume(
    run: Path, world: World, reporter: Reporter, *, wanted: TrainConfig | None = None, overrides: Sequence[str] = ()
) -> Trainer:
    """Go on with the run in a folder, from its last checkpoint.

    What decides the weights must be as it was; budget, validation, checkpoints and log may be ``wanted`` otherwise.
    """
    if not (run / CONFIG_FILE).is_file():
        raise FileNotFoundError(f"{run}: expected a run that was started before, with {CONFIG_FILE} in it; got none")
    saved = load_config(run / CONFIG_FILE)
    config = load_config(run / CONFIG_FILE, overrides) if wanted is None else wanted
    for name in _FIXED:
        if getattr(config, name) != getattr(saved, name):
            raise ValueError(
                f"{run}: expected the settings it was started with, got another `{name}`: {getattr(config, name)} "
                f"instead of {getattr(saved, name)}; start a new run for that"
            )
    trainer = Trainer(config, run, world, reporter, resume=True)
    if world.is_first and config != saved:
        write_text(run / CONFIG_FILE, dump_config(config))
    return trainer


def _mix(*numbers: int) -> int:
    """One seed out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
