"""Our translation model as one of transformers: the same model directory serves both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.modeling_utils import PreTrainedModel

from rela.attention.key_values import KeyValues
from rela.integrations.huggingface.config import RelaConfig
from rela.integrations.huggingface.generation import RelaGenerationMixin, default_generation, words_of
from rela.integrations.huggingface.watching import watched_states, watched_weights
from rela.model.directory import MODEL_TYPE, without_shared
from rela.model.transformer import DecoderLayer, Transformer
from rela.text.vocabulary import BOS, PAD

_IGNORED: Final = -100  # labels without a loss, as everywhere in transformers


class RelaEncoder(nn.Module):
    """The encoder alone, as `generate` calls it. It owns nothing: the parameters are the model's."""

    main_input_name = "input_ids"

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self._model = [model]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput | tuple[Tensor, ...]:
        model = self._model[0]
        with (
            watched_weights(model.attentions()["encoder"], bool(output_attentions)) as weights,
            watched_states(model.encoder, bool(output_hidden_states)) as states,
        ):
            memory, _ = model.encode(input_ids, padding_of(input_ids, attention_mask))
        found = BaseModelOutput(
            last_hidden_state=cast("Any", memory),
            hidden_states=cast("Any", _tuple(states)),
            attentions=cast("Any", _tuple(weights)),
        )
        return found if return_dict is not False else cast("Any", found.to_tuple())


class RelaForConditionalGeneration(PreTrainedModel, RelaGenerationMixin):
    """Our Transformer with the interface of transformers' translation models.

    ``generate`` searches as `rela.Translator` does: `length_penalty` is the exponent of GNMT's ``((5 + length) / 6)``,
    and without a limit of your own a translation has at most twice as many tokens as its source, and 20 more. What was
    cut off there comes after what has ended.
    """

    config_class = RelaConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    accepts_loss_kwargs = True

    def __init__(self, config: RelaConfig) -> None:
        super().__init__(config)
        self.model = Transformer(config.sizes)
        tied = config.sizes.tied == "all"
        self._tied_weights_keys = {"model.source_embedding.weight": "model.target_embedding.weight"} if tied else {}
        self.register_load_state_dict_pre_hook(_with_names_of_transformers)
        self.post_init()
        self.generation_config = default_generation()

    # ------------------------------------------------------------------ what transformers asks of every model

    def _init_weights(self, module: nn.Module) -> None:
        """Modules of ours start by themselves, when they are made."""

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As in transformers; but weights that are missing are an error, and do not start anew."""
        wants_info = options.pop("output_loading_info", False)
        loaded: Any = super().from_pretrained(*arguments, output_loading_info=True, **options)
        model, info = loaded
        if info["missing_keys"]:
            names = ", ".join(sorted(info["missing_keys"])[:5])
            raise ValueError(f"{arguments[0]}: expected all weights of the model, got none for {names}; copy it anew")
        if model.generation_config.decoder_start_token_id is None:  # the folder says nothing about it
            model.generation_config = default_generation()
        return (model, info) if wants_info else model

    def save_pretrained(self, save_directory: Any, *arguments: Any, **options: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As in transformers; with the tokenizer beside it, `rela.Translator` loads the folder, too.

        For it weights are saved as one file and in float32, whatever they are here.
        """
        given = options.pop("state_dict", None) or self.state_dict()
        names = {name.removeprefix(f"{self.base_model_prefix}."): tensor for name, tensor in given.items()}
        weights = {name: tensor.float() for name, tensor in without_shared(names).items()}
        options["max_shard_size"] = sum(tensor.nbytes for tensor in weights.values()) + 1
        super().save_pretrained(save_directory, *arguments, state_dict=weights, **options)

    def get_encoder(self, *_: Any, **__: Any) -> RelaEncoder:
        return RelaEncoder(self.model)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.source_embedding

    def get_output_embeddings(self) -> None:
        """None: the projection is a matrix of the Transformer, not a module."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *_: Any, **__: Any) -> Any:
        """The embeddings as they are: other sizes are refused."""
        size = self.model.source_embedding.num_embeddings
        if new_num_tokens not in (None, size):
            raise NotImplementedError(
                f"expected the {size:,} tokens that the model was trained with, got {new_num_tokens:,}; train one with "
                "another vocabulary"
            )
        return self.model.source_embedding

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """BOS first, then all but the last."""
        shifted = torch.cat([torch.full_like(labels[:, :1], BOS), labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == _IGNORED, PAD)

    # ------------------------------------------------------------------ forward

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | Sequence[Tensor] | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Ids to scores of the next piece, and their loss if there are labels.

        Padding of the source is where ``attention_mask`` or the ids are 0, on the right. ``labels`` of -100 have no
        loss.
        """
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("expected decoder_input_ids or labels, got neither")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        _check_padded_right(decoder_attention_mask)
        watched, kept = bool(output_attentions), bool(output_hidden_states)
        attentions = self.model.attentions()
        with (
            watched_weights(attentions["encoder"], watched) as encoder_weights,
            watched_weights(attentions["decoder"], watched) as decoder_weights,
            watched_weights(attentions["cross"], watched) as cross_weights,
            watched_states(self.model.encoder, kept) as encoder_states,
            watched_states(self.model.decoder, kept) as decoder_states,
        ):
            memory, padding = self._memory(input_ids, attention_mask, encoder_outputs)
            caches = use_cache is True or (use_cache is None and past_key_values is not None)
            if caches and labels is None:
                past_key_values = past_key_values or EncoderDecoderCache(DynamicCache(), DynamicCache())
                hidden = self._steps(decoder_input_ids, memory, padding, past_key_values, decoder_states)
            else:
                hidden = self.model.decode(decoder_input_ids, memory, padding)
        logits = self.model.logits(hidden)
        given = encoder_outputs if isinstance(encoder_outputs, BaseModelOutput) else BaseModelOutput()
        output = Seq2SeqLMOutput(
            loss=None if labels is None else cast("Any", _loss(logits, labels, num_items_in_batch)),
            logits=cast("Any", logits),
            past_key_values=cast("Any", past_key_values),
            decoder_hidden_states=cast("Any", _tuple(decoder_states) if kept else None),
            decoder_attentions=cast("Any", _tuple(decoder_weights)),
            cross_attentions=cast("Any", _tuple(cross_weights)),
            encoder_last_hidden_state=cast("Any", memory),
            encoder_hidden_states=cast("Any", _tuple(encoder_states) or given.hidden_states),
            encoder_attentions=cast("Any", _tuple(encoder_weights) or given.attentions),
        )
        return output if return_dict is not False else output.to_tuple()

    def _memory(
        self, input_ids: Tensor | None, mask: Tensor | None, given: BaseModelOutput | Sequence[Tensor] | None
    ) -> tuple[Tensor, Tensor | None]:
        padding = padding_of(input_ids, mask)
        if given is not None:
            return given[0], padding
        if input_ids is None:
            raise ValueError("expected input_ids or encoder_outputs, got neither")
        return self.model.encode(input_ids, padding)

    def _steps(self, ids: Tensor, memory: Tensor, padding: Tensor | None, cache: Cache, states: list[Tensor]) -> Tensor:
        """New positions, after those in the cache. ``states`` get what goes into the layers and comes out of them."""
        if not isinstance(cache, EncoderDecoderCache):
            raise TypeError(f"past_key_values: expected an EncoderDecoderCache, got {type(cache).__name__}")
        start, count = cache.self_attention_cache.get_seq_length(), ids.shape[1]
        x = self.model.embed_target(ids, start)
        states.append(x)
        for number, layer in enumerate(self.model.decoder):
            assert isinstance(layer, DecoderLayer)
            if not cache.is_updated.get(number):
                projected = layer.cross_attention.project_keys_values(memory)
                cache.cross_attention_cache.update(projected.keys, projected.values, number)
                cache.is_updated[number] = True
            past = None if start == 0 else _of_layer(cache.self_attention_cache, number)
            x, longer = layer.step(x, _of_layer(cache.cross_attention_cache, number), past, padding)
            cache.self_attention_cache.update(longer.keys[:, :, -count:], longer.values[:, :, -count:], number)
            states.append(x)
        return x


def padding_of(ids: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """True at padding of a source, ``[B, S]``; None where there is none."""
    words = words_of(ids, mask)
    if words is None or bool(words.all()):
        return None
    if bool((words[:, 1:] & ~words[:, :-1]).any()):
        raise ValueError(
            "source: expected padding on the right, got some before words, which would move them to other positions; "
            'set tokenizer.padding_side = "right"'
        )
    return ~words


def _with_names_of_transformers(model: nn.Module, weights: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Weights of a model directory, before they are loaded into a model: transformers has another name for each, and a
    second one for those that are shared.

    `Trainer` reads its checkpoints so, and goes on without the weights whose names it does not find.
    """
    assert isinstance(model, RelaForConditionalGeneration)
    inner = f"{prefix}{model.base_model_prefix}."
    for name in [name for name in weights if name.startswith(prefix) and not name.startswith(inner)]:
        weights[inner + name.removeprefix(prefix)] = weights.pop(name)
    for second, first in model._tied_weights_keys.items():  # pyright: ignore[reportPrivateUsage]
        if prefix + first in weights:
            weights.setdefault(prefix + second, weights[prefix + first])


def _of_layer(cache: Cache, number: int) -> KeyValues:
    layer: Any = cache.layers[number]
    return KeyValues(layer.keys, layer.values)


def _check_padded_right(mask: Tensor | None) -> None:
    """Positions are counted from the left, and what is to the right is not seen anyway."""
    if mask is not None and bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise ValueError("decoder_attention_mask: expected padding on the right, got some on the left; pad there")


def _loss(logits: Tensor, labels: Tensor, num_items: Tensor | int | None) -> Tensor:
    """The mean over all labels, or the sum over so many items, of which this batch may be a part."""
    reduction = "mean" if num_items is None else "sum"
    loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=_IGNORED, reduction=reduction)
    return loss if num_items is None else loss / num_items


def _tuple(weights: list[Tensor]) -> tuple[Tensor, ...] | None:
    return tuple(weights) or None


def register_translation() -> None:
    """So that the Auto classes find it."""
    AutoConfig.register(MODEL_TYPE, RelaConfig, exist_ok=True)
    AutoModelForSeq2SeqLM.register(RelaConfig, RelaForConditionalGeneration, exist_ok=True)
