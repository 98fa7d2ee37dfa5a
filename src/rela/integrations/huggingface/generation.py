"""Our search in transformers: `generate` of our models finds what `rela.Translator` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.modeling_outputs import BaseModelOutput

from rela.decoding.search import MAX_EXTRA, MAX_RATIO
from rela.integrations.huggingface.internals import internal
from rela.text.vocabulary import BOS, EOS, PAD

_IMPOSSIBLE: Final = -5e8
"""transformers takes 1e9 off the score of what must not go on."""


def default_generation() -> GenerationConfig:
    """The paper's search, as `rela.Translator` has it."""
    return GenerationConfig(
        num_beams=4,
        length_penalty=0.6,
        early_stopping=True,
        suppress_tokens=[PAD, BOS],
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )


class GreatestLengths(StoppingCriteria):
    """Stops each sentence of a batch at its own number of new tokens, ``[B]``."""

    def __init__(self, longest: Tensor) -> None:
        self.longest = longest
        self._begins_with: int | None = None

    def __call__(self, input_ids: Tensor, *_: Any, **__: Any) -> Any:
        """For rows of ids, as many for each sentence."""
        if self._begins_with is None:
            self._begins_with = input_ids.shape[1] - 1  # the first call comes after the first token
        rows = len(input_ids) // len(self.longest)
        return self.longest.to(input_ids.device).repeat_interleave(rows) <= input_ids.shape[1] - self._begins_with


class NothingToTranslate(LogitsProcessor):
    """Sentences without a word, ``[B]``, end where they begin."""

    def __init__(self, is_empty: Tensor) -> None:
        self.is_empty = is_empty

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Any:
        """For rows of scores, as many for each sentence."""
        del input_ids
        empty = self.is_empty.to(scores.device).repeat_interleave(len(scores) // len(self.is_empty))
        others = torch.arange(scores.shape[1], device=scores.device) != EOS
        return scores.masked_fill(empty[:, None] & others, -torch.inf)


class RelaGenerationMixin(GenerationMixin):
    """transformers' search with GNMT's length penalty and our greatest lengths."""

    def generate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        """As in transformers; where nobody names a greatest length, each sentence has that of `rela.Translator`."""
        internal(GenerationMixin, "_update_finished_beams", "in the place of which our models rank translations")
        ids = options.get("input_ids") if inputs is None else inputs
        words = words_of(ids, options.get("attention_mask"), options.get("encoder_outputs"))
        config: Any = generation_config or self.generation_config  # pyright: ignore[reportAttributeAccessIssue]
        named = {
            name: options.get(name) or getattr(config, name, None)
            for name in ("max_length", "max_new_tokens", "min_new_tokens")
        }
        if words is not None:
            options["attention_mask"] = words.long()
            if ids is not None and bool((empty := ~(words & ids.ne(EOS)).any(1)).any()):
                logits_processor = LogitsProcessorList([*(logits_processor or ()), NothingToTranslate(empty)])
            if named["max_length"] is None and named["max_new_tokens"] is None:
                longest = MAX_RATIO * (words.sum(1) - 1) + MAX_EXTRA
                longest = longest.clamp(min=named["min_new_tokens"] or 0)
                options["max_new_tokens"] = int(longest.max())
                stopping_criteria = StoppingCriteriaList([*(stopping_criteria or ()), GreatestLengths(longest)])
        positional = (inputs, generation_config, logits_processor, stopping_criteria, *arguments)
        return super().generate(*positional, **options)  # pyright: ignore[reportAttributeAccessIssue]

    def _update_finished_beams(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        sequences: Tensor,
        topk_running_sequences: Tensor,
        beam_scores: Tensor,
        topk_log_probs: Tensor,
        beam_indices: Tensor,
        topk_running_beam_indices: Tensor,
        is_early_stop_heuristic_unsatisfied: Tensor,
        is_sent_finished: Tensor,
        next_token_hits_stopping_criteria: Tensor,
        top_num_beam_mask: Tensor,
        num_beams: int,
        cur_len: int,
        decoder_prompt_len: int,
        length_penalty: float,
        early_stopping: bool | str,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each sentence the ``num_beams`` best hypotheses so far, among the new ones, ``[B, candidates]``.

        Those that have ended are ranked by score. At the greatest length those that were cut off follow, and take no
        place of one that has ended: a loop up to there often scores higher than a translation does.
        """
        length = cur_len + 1 - decoder_prompt_len
        scores = topk_log_probs / ((5 + length) / 6) ** length_penalty
        possible = topk_log_probs > _IMPOSSIBLE
        cut = next_token_hits_stopping_criteria.all(1, keepdim=True) & topk_running_sequences[:, :, cur_len].ne(EOS)
        ended = next_token_hits_stopping_criteria & ~cut & top_num_beam_mask & is_early_stop_heuristic_unsatisfied
        if early_stopping is True:  # a list that is full stays as it is
            ended &= ended.cumsum(1) <= (~is_sent_finished).sum(1, keepdim=True)
        ended, cut = ended & possible, cut & possible
        # By score, and then by sort: what is there or has ended, what was cut off, places that are free, and the rest.
        all_scores = torch.cat([beam_scores, scores], dim=1)
        sorts = torch.cat([torch.where(is_sent_finished, 0, 2), torch.where(ended, 0, torch.where(cut, 1, 3))], dim=1)
        by_score = torch.where(ended.any(1, keepdim=True), all_scores, 0.0).argsort(dim=1, descending=True, stable=True)
        order = by_score.gather(1, sorts.gather(1, by_score).argsort(dim=1, stable=True))[:, :num_beams]

        def chosen(before: Tensor, new: Tensor) -> Tensor:
            both = torch.cat([before, new], dim=1)
            return torch.take_along_dim(both, order if both.dim() == 2 else order[:, :, None], dim=1)

        return (
            chosen(sequences, topk_running_sequences),
            chosen(beam_scores, scores),
            chosen(beam_indices, topk_running_beam_indices),
            chosen(is_sent_finished, ended | cut),
        )


def words_of(
    ids: Tensor | None, mask: Tensor | None, states: BaseModelOutput | Sequence[Tensor] | None = None
) -> Tensor | None:
    """True where a source is no padding, ``[B, S]``, by all that is known of it; None where nothing is."""
    known = [part.ne(nothing) for part, nothing in ((ids, PAD), (mask, 0)) if part is not None]
    if known:
        return torch.stack(known).all(0)
    return None if states is None else torch.ones(states[0].shape[:2], dtype=torch.bool, device=states[0].device)
