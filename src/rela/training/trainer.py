"""The training loop."""

from __future__ import annotations

import gc
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rela._lock import FolderLock
from rela._warn import warn
from rela.alignment.choice import save_choice
from rela.alignment.choosing import choose
from rela.attention.penalty import SparsityPenalty
from rela.model.directory import CHECKPOINTS_FOLDER, MODEL_FOLDER, Languages, load_model
from rela.model.transformer import Transformer
from rela.text.batches import BatchOptions, BatchStream, Position
from rela.text.store import Store
from rela.training import allocator
from rela.training.averaging import average_run
from rela.training.checkpoints import (
    clear_leftovers,
    load_checkpoint,
    load_newest,
    newest_store,
    prune,
    read_state,
    save_checkpoint,
)
from rela.training.config import TrainConfig
from rela.training.divergence import DivergedError, DivergenceWatch, guessing_loss
from rela.training.journal import Journal, Status, board_class
from rela.training.loss import Criterion, TrainingLoss
from rela.training.reporter import Reporter
from rela.training.schedule import learning_rate
from rela.training.signals import InterruptedRunError, StopRequest
from rela.training.spoiling import NullLoss, Spoiled, spoil
from rela.training.validation import BestSoFar, Validator
from rela.training.world import World

_ALIGNED_PAIRS: Final = 200  # of the validation split, to choose by which weights words are linked


class Trainer:
    """One run: everything that it is made of, and the loop.

    All that happens follows from the configuration and the number of the update: batches come from a stream with a
    position, and the generator of dropout is seeded anew for each update. So a run that was cut off and resumed from
    a checkpoint ends with the weights of one that was not.
    """

    def __init__(self, config: TrainConfig, run: Path, world: World, reporter: Reporter, *, resume: bool) -> None:
        self.config, self.run_folder, self.world, self.reporter = config, run, world, reporter
        self.lock: FolderLock | None = None  # of the first process, while the run is its own
        if config.split == config.validation.split:
            warn(f"training and validation are on the same pairs, the split {config.split!r}: nothing is held out")
        if config.log.tensorboard:
            board_class()  # an error now, not after the first update
        store = Store.open(config.store)
        self.tokenizers, self.languages = store.tokenizers(), Languages(*store.languages)
        self.split = store.split(config.split)
        self.store_digest = store.identity()
        self.model = self._build_model()
        smoothing = config.optimizer.label_smoothing
        guessing = guessing_loss(self.split.target, self.tokenizers.target.size, smoothing)
        self.watch = DivergenceWatch(config.divergence, guessing)
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
        self.pairs = 0
        self.seconds = 0.0
        self.best = BestSoFar(config.validation)
        self._saved = (0, True)  # the step of the last checkpoint, and whether it was a scheduled one
        self._stop = StopRequest(reporter.noted)
        position = self._restore() if resume else Position()
        batch = config.batch
        options = BatchOptions(
            tokens=batch.tokens, max_pieces=batch.max_pieces, seed=config.seed, subword_dropout=batch.subword_dropout
        )
        self.stream = BatchStream(self.split, options, (self.tokenizers.source, self.tokenizers.target), position)
        self.validator = Validator(
            store.split(config.validation.split),
            self.tokenizers,
            config.validation,
            batch.tokens,
            batch.max_pieces,
            self.languages.target,
        )
        criterion = Criterion(self.model, smoothing, *self._more_losses())
        self.criterion: nn.Module = criterion if world.size == 1 else _shared(criterion)

    def _build_model(self) -> Transformer:
        torch.manual_seed(self.config.seed)
        source, target = self.tokenizers
        config = self.config.model.resolve(source.size, target.size, self.tokenizers.joint)
        return Transformer(config).to(self.world.device)

    def _more_losses(self) -> tuple[NullLoss | None, SparsityPenalty | None]:
        """Those that watch the cross-attention, where they are asked for."""
        spoiling, sparsity = self.config.spoiling, self.config.sparsity
        cross = self.model.attentions()["cross"]
        null = NullLoss(cross) if spoiling.share > 0 and spoiling.null_loss > 0 else None
        return null, None if sparsity.target is None else SparsityPenalty(nn.ModuleList(cross), sparsity.target)

    # ------------------------------------------------------------------ the loop

    def train(self) -> dict[str, Any]:
        """Train to the end of the budget. Returns what came out; raises DivergedError or InterruptedRunError."""
        allocator.keep_memory()
        journal: Journal | None = None
        self.model.train()
        try:
            journal = self._journal()
            self.reporter.started(self._facts())
            began = time.monotonic() - self.seconds
            with self._stop.listening():
                if self._is_over():  # all but the end was done before, or the budget is smaller now
                    self._validate_and_save(journal)
                while not self._is_over():
                    self._update(journal)
                    self.seconds = time.monotonic() - began
                    self._validate_and_save(journal)
                    if self.world.any(self._stop.wanted):
                        self._save(scheduled=False)
                        raise InterruptedRunError(self._stop.signal_number)
            return self._finish(journal)
        except (InterruptedRunError, KeyboardInterrupt):
            self._note_end(journal, "interrupted")
            raise
        except Exception as error:
            self._note_end(journal, "failed", reason=str(error) or type(error).__name__)
            raise
        finally:
            self._unwrap()
            if journal is not None:
                journal.close()
            if self.lock is not None:
                self.lock.release()

    def _unwrap(self) -> None:
        """Free what holds the group of processes before it is left: freed later, it may wait for ever for the group."""
        if isinstance(self.criterion, DistributedDataParallel):
            self.criterion = self.criterion.module
            gc.collect()

    def _note_end(self, journal: Journal | None, status: Status, **details: str) -> None:
        """Write down that training ended early. A disk that is full must not hide the error that is reported."""
        if journal is not None:
            with suppress(OSError):
                journal.set_status(status, self.step, **details)
                journal.write(status, self.step, **details)

    def _update(self, journal: Journal | None) -> None:
        """One update: as many batches as it takes, shared among the processes."""
        config = self.config
        started = time.monotonic()
        batches = self._collect()
        total = sum(batch.batch.num_tokens for batch in batches)
        mine = batches[self.world.rank :: self.world.size]
        torch.manual_seed(_mix(config.seed, self.step, self.world.rank))
        self.optimizer.zero_grad(set_to_none=True)
        smoothed = plain = 0.0
        for place, batch in enumerate(mine or batches[:1]):
            weight = self.world.size / total if mine else 0.0  # one who has no batch takes part with nothing
            with self._sync(last=place + 1 == max(1, len(mine))):
                arrays = (*batch.batch[:3], batch.rows)
                loss = self.criterion(*self.world.to_device(*(torch.from_numpy(array) for array in arrays)))
                (self._whole(loss, batch.batch.num_tokens) * weight).backward()
            if mine:
                smoothed, plain = smoothed + float(loss.smoothed.detach()), plain + float(loss.plain)
        smoothed, plain = (value / total for value in self.world.sum(smoothed, plain))
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), config.optimizer.clip or float("inf")))
        rate = learning_rate(config.rate, self.model.config.dim, self.step + 1, self.spent())
        reason = self.watch.look(smoothed, norm)
        if reason is not None:
            self.step += 1
            raise DivergedError(f"the training diverged at update {self.step:,}: {reason}")
        if self.watch.skipped == 0:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.step += 1
        self.tokens += total
        self.pairs += sum(len(batch.batch.indices) for batch in batches)
        speed = total / (time.monotonic() - started)
        self.reporter.updated(self.step, self.spent(), smoothed, speed)
        if journal is not None and (self.step % config.log.every == 0 or self.step == 1 or self.watch.skipped):
            values = {"loss": _finite(smoothed), "nll": _finite(plain), "rate": rate, "gradient_norm": _finite(norm)}
            counts = {"tokens": self.tokens, "epoch": self.stream.position.epoch, "skipped": self.watch.skipped}
            journal.write("train", self.step, **values, **counts, tokens_per_second=round(speed, 1))

    def _whole(self, loss: TrainingLoss, num_tokens: int) -> Tensor:
        """All losses of a batch in one, as sums over its target tokens."""
        whole = loss.smoothed
        if loss.null is not None:
            whole = whole + self.config.spoiling.null_loss * loss.null
        if loss.sparsity is not None:
            whole = whole + self.config.sparsity.weight * num_tokens * loss.sparsity
        return whole

    def _collect(self) -> list[Spoiled]:
        """The batches of one update, the same list in every process."""
        wanted, spoiling = self.config.batch.update_tokens, self.config.spoiling
        spoils = spoiling.share > 0 and self.spent() >= spoiling.begin
        batches: list[Spoiled] = []
        total = 0
        while True:
            found = Spoiled.none(next(self.stream))
            if spoils:
                found = spoil(found.batch, spoiling, self.config.seed, self.step, len(batches))
            batches.append(found)
            total += found.batch.num_tokens
            if total + found.batch.num_tokens / 2 >= wanted and total > 0:  # another one would lead further away
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
            self.pairs / (budget.epochs * self.stream.num_pairs) if budget.epochs else 0.0,
        ]
        return min(1.0, max(shares))

    def _is_over(self) -> bool:
        budget, patience = self.config.budget, self.config.validation.patience
        return (
            (budget.steps is not None and self.step >= budget.steps)
            or (budget.tokens is not None and self.tokens >= budget.tokens)
            or (budget.epochs is not None and self.stream.position.epoch >= budget.epochs)
            or (patience is not None and self.best.stale >= patience)
        )

    # ------------------------------------------------------------------ validation and checkpoints

    def _validate_and_save(self, journal: Journal | None) -> None:
        if (self._is_over() or self.step % self.config.validation.every == 0) and self.best.step < self.step:
            self._validate(journal)
        if self._is_over() or self.step % self.config.checkpoints.every == 0:  # a validation may have ended it
            self._save(scheduled=True)
        elif self.best.entry is not None and self.best.entry["step"] == self.step:
            self._save(scheduled=False)

    def _validate(self, journal: Journal | None) -> None:
        self._check_weights()
        started = time.monotonic()
        found = self.validator.run(self.model, self.world)
        seconds = time.monotonic() - started
        better = self.best.take(self.step, found)
        if journal is not None:
            journal.write("validation", self.step, loss=_finite(found.loss), bleu=found.bleu, seconds=round(seconds, 2))
        bleu = "" if found.bleu is None else f", BLEU {found.bleu:.2f} (greedy)"
        best = ", the best so far" if better else ""
        self.reporter.noted(f"update {self.step:,}: validation loss {found.loss:.4f}{bleu}{best}")

    def _save(self, *, scheduled: bool) -> None:
        if self._saved >= (self.step, scheduled):  # there is one of this update, and as good
            return
        self.world.share(lambda: self._write_checkpoint(scheduled))
        self._saved = (self.step, scheduled)

    def _write_checkpoint(self, scheduled: bool) -> None:
        self._check_weights()
        state = self._state(scheduled)
        parts = self.model, self.optimizer, self.tokenizers, self.languages
        save_checkpoint(self.run_folder, *parts, state, self.config.seed)
        best = None if self.best.entry is None else self.best.entry["step"]
        prune(self.run_folder, self.config.checkpoints.keep_last, best)

    def _check_weights(self) -> None:
        if not all(bool(torch.isfinite(p).all()) for p in self.model.parameters()):
            raise DivergedError(
                f"the training diverged: after update {self.step:,} the weights are not finite numbers; the last "
                "checkpoint is from before"
            )

    def _state(self, scheduled: bool) -> dict[str, Any]:
        return {
            "step": self.step,
            "scheduled": scheduled,
            "tokens": self.tokens,
            "pairs": self.pairs,
            "seconds": round(self.seconds, 3),
            "position": asdict(self.stream.position),
            **self.best.state(),
            "store": self.store_digest,
            "divergence": self.watch.state(),
            "place": self.world.place(),
        }

    def _restore(self) -> Position:
        name = self.world.share(self._load_newest)
        if name is None:
            return Position()  # cut off before the first one
        path = self.run_folder / CHECKPOINTS_FOLDER / name
        if self.world.any(not path.exists()):
            raise FileNotFoundError(
                f"{path}: expected the run's folder on every machine, got one without; put it on a disk that they share"
            )
        state = read_state(path) if self.world.is_first else load_checkpoint(path, self.model, self.optimizer)
        self.step, self.tokens, self.pairs = state["step"], state["tokens"], state["pairs"]
        self.seconds, self._saved = state["seconds"], (state["step"], state["scheduled"])
        self.best.restore(state)
        self.watch.restore(state["divergence"])
        if self.world.is_first:
            self.world.compare_place(state.get("place", {}))
        return Position(**state["position"])

    def _load_newest(self) -> str | None:
        clear_leftovers(self.run_folder)
        if newest_store(self.run_folder) not in (None, self.store_digest):
            raise ValueError(
                f"{self.config.store}: expected the store that the run was started with, got one that was prepared "
                "otherwise; start a new run for that"
            )
        path = load_newest(self.run_folder, self.model, self.optimizer)
        return None if path is None else path.name

    def _finish(self, journal: Journal | None) -> dict[str, Any]:
        result = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "pairs": self.stream.num_pairs,
            "left_out": self.stream.num_left_out,
            "parameters": self.model.num_parameters(),
            "attention": self.model.config.attention.label,
            "best": self.best.entry,
            "model": str(self.run_folder / MODEL_FOLDER),
        }
        average, folder = self.config.checkpoints.average, self.run_folder / MODEL_FOLDER
        self.world.share(lambda: self._write_model(average, folder))
        if journal is not None:
            journal.set_status("done", self.step, **{key: result[key] for key in ("tokens", "seconds", "best")})
        self.world.wait()
        return result

    def _write_model(self, average: int, folder: Path) -> None:
        average_run(self.run_folder, average, folder)
        model, tokenizers, _ = load_model(folder)
        choice = choose(model, tokenizers, self.validator.texts(_ALIGNED_PAIRS))
        if choice is not None:
            save_choice(folder, choice)

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
            "pairs": self.stream.num_pairs,
            "left_out": self.stream.num_left_out,
            "max_pieces": self.stream.options.max_pieces,
            "step": self.step,
            "spent": self.spent(),
            "processes": self.world.size,
            "padding": self.stream.padding_share(),
        }


def _shared(criterion: nn.Module) -> nn.Module:
    """With the gradients of all processes. Buffers are tables that each process makes, as long as it needs them."""
    return DistributedDataParallel(criterion, broadcast_buffers=False)


def _mix(*numbers: int) -> int:
    """One seed out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
