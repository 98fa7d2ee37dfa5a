"""Loss and BLEU on held-out pairs."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from rela.decoding.translator import Translator
from rela.evaluation.bleu import bleu_metric, corpus_bleu
from rela.model.transformer import Transformer, evaluating
from rela.text.batches import BatchOptions, load_batch, make_batches
from rela.text.store import Split, Tokenizers
from rela.training.config import ValidationSection
from rela.training.loss import token_loss
from rela.training.world import World


class Validation(NamedTuple):
    """What a validation found: nats a target token, and BLEU of greedy translations if asked."""

    loss: float
    bleu: float | None


class BestSoFar:
    """The best validation by the configuration's metric, and how many came since without a better one."""

    def __init__(self, config: ValidationSection) -> None:
        self._config = config
        self.entry: dict[str, Any] | None = None
        self.stale = 0
        self.step = 0
        """The update of the last validation."""

    def take(self, step: int, found: Validation) -> bool:
        """Whether this one is the best."""
        value = self._value(found.loss, found.bleu)
        before = None if self.entry is None else self._value(self.entry["loss"], self.entry["bleu"])
        better = math.isfinite(found.loss) and value is not None and (before is None or value < before)
        if better:
            self.entry = {"step": step, "loss": found.loss, "bleu": found.bleu}
        self.stale = 0 if better else self.stale + 1
        self.step = step
        return better

    def _value(self, loss: float, bleu: float | None) -> float | None:
        """The less, the better."""
        if self._config.metric == "loss":
            return loss
        return None if bleu is None else -bleu

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.entry, "stale": self.stale, "validated": self.step, "validated_on": self._pairs()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept. What was found on other pairs cannot be compared."""
        self.step = state["validated"]
        if state.get("validated_on", self._pairs()) == self._pairs():
            self.entry, self.stale = state["best"], state["stale"]

    def _pairs(self) -> list[Any]:
        return [self._config.split, self._config.max_sentences]


class Validator:
    """Validates a model again and again on the same pairs; several processes share the work."""

    def __init__(
        self,
        split: Split,
        tokenizers: Tokenizers,
        config: ValidationSection,
        batch_tokens: int,
        max_pieces: int,
        language: str | None = None,
    ) -> None:
        count = len(split) if config.max_sentences is None else min(len(split), config.max_sentences)
        if count == 0:
            raise ValueError(f"validation.split: expected pairs in {config.split!r}, got none")
        if config.bleu:
            _check_bleu(language)
        self._split, self._tokenizers, self._config = split, tokenizers, config
        self._max_pieces, self._language = max_pieces, language
        options = BatchOptions(tokens=batch_tokens, max_pieces=max_pieces)
        self._batches = make_batches(split, np.arange(count), options)
        self._count = count

    def run(self, model: Transformer, world: World) -> Validation:
        """Validate; every process gets the same result."""
        with evaluating(model):
            loss = self._loss(model, world)
            wanted = self._config.bleu and math.isfinite(loss)
            return Validation(loss, self._bleu(model, world) if wanted else None)

    @torch.inference_mode()
    def _loss(self, model: Transformer, world: World) -> float:
        total = 0.0
        tokens = 0
        for indices in self._batches[world.rank :: world.size]:
            batch = load_batch(self._split, indices, self._max_pieces)
            source, target_in, target_out = world.to_device(*(torch.from_numpy(ids) for ids in batch[:3]))
            total += float(token_loss(model(source, target_in), model.projection, target_out, 0.0).plain)
            tokens += batch.num_tokens
        total, num = world.sum(total, tokens)
        return total / num

    def texts(self, count: int) -> list[tuple[str, str]]:
        """The first pairs, as text."""
        sources, targets = self._texts(range(min(count, self._count)))
        return list(zip(sources, targets, strict=True))

    def _texts(self, places: range) -> list[list[str]]:
        """The two sides at these places, as text."""
        sides = zip(self._tokenizers, self._split, strict=True)
        return [[tokenizer.decode(sentences[i].tolist()) for i in places] for tokenizer, sentences in sides]

    def _bleu(self, model: Transformer, world: World) -> float:
        sides = self._texts(range(world.rank, self._count, world.size))
        translator = Translator(model, self._tokenizers)
        translations = [found.text for found in translator.translate(sides[0], beam=1)]
        gathered = world.gather((translations, sides[1]))
        hypotheses = [text for part, _ in gathered for text in part]
        references = [text for _, part in gathered for text in part]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notes on the text are for those who publish a score
            return corpus_bleu(hypotheses, [references], language=self._language, num_bootstrap=0).score


def _check_bleu(language: str | None) -> None:
    """An error now if BLEU in this language cannot be computed here, not after the first updates."""
    try:
        bleu_metric([["a"]], language=language)
    except ValueError as error:
        raise ValueError(f"{error}; or leave it out with --set validation.bleu=false") from None
