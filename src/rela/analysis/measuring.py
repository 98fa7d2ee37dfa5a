"""Everything that is measured about one model on one corpus: the meters, and the loop that feeds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from rela.alignment.pairs import EncodedPair, PairBatch, by_length, windows
from rela.alignment.tally import AlignmentErrors, GoldBatch
from rela.analysis.corpus import Corpus, Item, Reading
from rela.analysis.hallucination import Hallucination, shuffled
from rela.analysis.losses import piece_losses
from rela.analysis.probe import Meter, Probe, Seen, taus_of
from rela.analysis.statistics import Statistics
from rela.analysis.tags import NullByTag
from rela.attention.spec import KINDS, Kind
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating
from rela.text.subwords import PairEncoding

_TIMED_FIRST: Final = 8
_TIMED_EVERY: Final = 50
_TIMED_AT_MOST: Final = 1000
"""Batches that are also run without the probe, before and after, to know what it costs: the first few, then one now and
then."""

Arrays = dict[str, NDArray[Any]]


@dataclass
class Cost:
    """Seconds of the same batches with the probe and without it, side by side."""

    probed: list[float] = field(default_factory=list[float])
    plain: list[float] = field(default_factory=list[float])

    @property
    def ratio(self) -> float | None:
        """The median over batches; None if there were too few to tell."""
        return float(np.median(np.divide(self.probed, self.plain))) if self.plain else None


class Measuring:
    """The meters of one model. Memory does not grow with the corpus; :meth:`state` is all there is to keep.

    ``num_hallucinated`` pairs, the first ones, are also run with their targets shuffled.
    """

    def __init__(
        self,
        model: Seq2Seq,
        corpus: Corpus,
        *,
        num_hallucinated: int,
        seed: int,
    ) -> None:
        layers = {kind: len(found) for kind, found in model.attentions().items()}
        heads = model.config.num_heads
        self.model, self.corpus = model, corpus
        self.seed = seed
        self._num_hallucinated = num_hallucinated
        self.statistics = {kind: Statistics(layers[kind], heads, taus_of(model, kind)) for kind in KINDS}
        self.errors = None if corpus.gold is None else AlignmentErrors(layers["cross"], heads)
        self.tags = None if corpus.tags is None else NullByTag()
        self.hallucination = Hallucination(layers["cross"]) if num_hallucinated else None
        self.cost = Cost()
        self.loss = np.zeros(2)  # the sum, and of how many target pieces
        self.pieces = np.zeros(2, np.int64)  # of source and target, EOS among them
        self.num_pairs = self.num_windows = self._num_batches = 0
        self._nulls: dict[Kind, list[torch.Tensor]] = {"decoder": [], "cross": []}
        self._batch: tuple[PairBatch, GoldBatch | None] | None = None
        self._chosen: NDArray[np.bool_] | None = None  # pairs of the batch that are compared with shuffled ones
        self.reading: Reading | None = None

    def run(
        self,
        tokenizers: PairEncoding,
        *,
        see_window: Callable[[list[Item]], None] | None = None,
        after_window: Callable[[list[Item]], None] = lambda _: None,
    ) -> None:
        """Read the corpus, and measure from the first window that is not done.

        ``see_window`` is told all windows, ``after_window`` those that were measured now. Afterwards ``reading`` knows
        what was left out.
        """
        self.reading = self.corpus.read(tokenizers)
        probe = Probe(self.model, {kind: self._meters(kind) for kind in KINDS})
        shuffled_meters: dict[Kind, Sequence[Meter]] = {"cross": [self._add_shuffled]}
        probe_shuffled = Probe(self.model, shuffled_meters)
        for number, window in enumerate(windows(self.reading)):
            if see_window is not None:
                see_window(window)
            if number < self.num_windows:
                continue
            num_chosen = max(0, self._num_hallucinated - self.num_pairs)
            for places in by_length([item.pair for item in window]):
                self._chosen = np.array(places) < num_chosen
                self._run_batch(probe, [window[place] for place in places])
            fake = shuffled([item.pair for item in window[:num_chosen]], self.seed, number)
            with probe_shuffled.attached():
                for places in by_length(fake):
                    probe_shuffled.run(self._padded([fake[place] for place in places]))
            self.num_pairs += len(window)
            self.num_windows = number + 1
            after_window(window)

    def _run_batch(self, probe: Probe, items: Sequence[Item]) -> None:
        batch = self._padded([item.pair for item in items])
        is_timed = self._num_batches <= _TIMED_FIRST or self._num_batches % _TIMED_EVERY == 0
        is_timed = is_timed and self._num_batches > 0 and len(self.cost.plain) < _TIMED_AT_MOST  # the first warms up
        plain_before = self._time_plain(batch) if is_timed else 0.0
        began = time.perf_counter()
        gold = None
        if self.errors is not None:
            gold = GoldBatch.from_links([item.gold for item in items if item.gold is not None], batch)
        self._batch = batch, gold
        with probe.attached():
            losses = piece_losses(self.model, probe.run(batch), batch.target_out)
            self._add_tags(batch, items)
        self.loss += np.array([float(losses.sum(dtype=torch.float64)), float(batch.target_lengths.sum())])
        self.pieces += np.array([int(batch.source_lengths.sum()), int(batch.target_lengths.sum())])
        took = time.perf_counter() - began
        if is_timed:
            self.cost.probed.append(took)
            self.cost.plain.append((plain_before + self._time_plain(batch)) / 2)
        self._num_batches += 1

    def _time_plain(self, batch: PairBatch) -> float:
        """Forced decoding and nothing else: the loss of every target piece."""
        with evaluating(self.model), torch.inference_mode():
            began = time.perf_counter()
            piece_losses(self.model, self.model(batch.source, batch.target_in), batch.target_out)
            return time.perf_counter() - began

    def _padded(self, pairs: Sequence[EncodedPair]) -> PairBatch:
        return PairBatch(pairs, self.model.projection.device)

    def _meters(self, kind: Kind) -> Iterator[Meter]:
        yield lambda seen: self.statistics[kind].add(seen.layer, seen.sums)
        if kind != "encoder" and self.tags is not None:
            yield lambda seen: self._nulls[kind].append(seen.sums.null)
        if kind == "cross" and self.errors is not None:
            yield self._add_errors
        if kind == "cross" and self.hallucination is not None:
            yield self._add_real

    def _add_errors(self, seen: Seen) -> None:
        assert self._batch is not None
        batch, gold = self._batch
        assert self.errors is not None
        assert gold is not None
        self.errors.add(seen.layer, seen.weights, batch, gold)

    def _add_real(self, seen: Seen) -> None:
        assert self.hallucination is not None
        self.hallucination.add(seen, self._chosen, is_shuffled=False)

    def _add_shuffled(self, seen: Seen) -> None:
        assert self.hallucination is not None
        self.hallucination.add(seen, is_shuffled=True)

    def _add_tags(self, batch: PairBatch, items: Sequence[Item]) -> None:
        if self.tags is not None:
            self.tags.add(batch, [item.tags or [] for item in items], self._nulls)
        for found in self._nulls.values():
            found.clear()

    # ------------------------------------------------------------------ to go on another time

    def state(self) -> Arrays:
        """All that was measured so far, to be kept in a file."""
        found: Arrays = {
            "progress": np.array([self.num_pairs, self.num_windows, self._num_batches]),
            "loss": self.loss,
            "pieces": self.pieces,
            "cost": np.array([self.cost.probed, self.cost.plain]),
        }
        parts: dict[str, Mapping[str, NDArray[Any]]] = {
            f"statistics.{kind}": statistics.state() for kind, statistics in self.statistics.items()
        }
        if self.errors is not None:
            parts["errors"] = {"counts": self.errors.state()}
        if self.tags is not None:
            parts["tags"] = self.tags.state()
        if self.hallucination is not None:
            parts["hallucination"] = self.hallucination.state()
        return found | {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`state` gave, with the same model, corpus and options."""
        self.num_pairs, self.num_windows, self._num_batches = (int(number) for number in state["progress"])
        self.loss, self.pieces = state["loss"], state["pieces"]
        self.cost = Cost(*(column.tolist() for column in state["cost"]))

        def part(name: str) -> Arrays:
            return {key.partition("/")[2]: array for key, array in state.items() if key.startswith(f"{name}/")}

        for kind, statistics in self.statistics.items():
            statistics.restore(part(f"statistics.{kind}"))
        if self.errors is not None:
            self.errors.restore(part("errors")["counts"])
        if self.tags is not None:
            self.tags.restore(part("tags"))
        if self.hallucination is not None:
            self.hallucination.restore(part("hallucination"))
