"""Our translation model as one of transformers: the same model directory serves both."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any, Final, cast

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig, GenerationMixin, PreTrainedConfig
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.modeling_utils import PreTrainedModel

from rela._version import __version__
from rela.attention.heads import Heads, Observation
from rela.attention.key_values import KeyValues
from rela.attention.multihead import MultiheadAttention
from rela.decoding.search import MAX_EXTRA, MAX_RATIO
from rela.model.config import ModelConfig
from rela.model.directory import FORMAT, MODEL_TYPE, without_shared
from rela.model.transformer import DecoderLayer, Transformer
from rela.text.vocabulary import BOS, EOS, PAD

_IGNORED: Final = -100  # labels without a loss, as everywhere in transformers


class RelaConfig(PreTrainedConfig):
    """What ``config.json`` of a model directory says. ``model`` has the sizes and the attentions."""

    model_type = MODEL_TYPE
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (transformers reads it of the class)

    def __init__(
        self,
        model: dict[str, Any] | None = None,
        source_language: str = "source",
        target_language: str = "target",
        made_by: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = self._sizes(model)
        self.model = None if sizes is None else msgspec.to_builtins(sizes)
        self.source_language = source_language
        self.target_language = target_language
        self.made_by = made_by or {}
        self.format = FORMAT
        self.rela_version = kwargs.pop("rela_version", __version__)
        kwargs.pop("format", None)
        if sizes is not None:
            self.vocab_size = sizes.target_vocabulary
            self.hidden_size = sizes.dim
            self.num_attention_heads = sizes.num_heads
            self.num_hidden_layers = sizes.decoder_layers
            for name in ("vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers"):
                kwargs.pop(name, None)
        ours: dict[str, Any] = {
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "decoder_start_token_id": BOS,
            "is_encoder_decoder": True,
            "tie_word_embeddings": sizes is not None and sizes.tied == "all",
        }
        super().__init__(**{**kwargs, **ours})

    @staticmethod
    def _sizes(model: dict[str, Any] | None) -> ModelConfig | None:
        if model is None:  # transformers compares a config with one that has nothing but defaults
            return None
        try:
            return msgspec.convert(model, ModelConfig)
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError(f"model: {error}") from None

    @property
    def sizes(self) -> ModelConfig:
        """The Transformer's."""
        found = self._sizes(self.model)
        if found is None:
            raise ValueError("expected a config with `model`, the sizes of a Transformer, got none")
        return found


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
            _watched(model.attentions()["encoder"], bool(output_attentions)) as weights,
            _states(model.encoder, bool(output_hidden_states)) as states,
        ):
            memory, _ = model.encode(input_ids, padding_of(input_ids, attention_mask))
        found = BaseModelOutput(
            last_hidden_state=cast("Any", memory),
            hidden_states=cast("Any", _tuple(states)),
            attentions=cast("Any", _tuple(weights)),
        )
        return found if return_dict is not False else cast("Any", found.to_tuple())


class RelaForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """Our Transformer with the interface of transformers' translation models.

    ``generate`` searches as `rela.Translator` does: `length_penalty` is the exponent of GNMT's ``((5 + length) / 6)``,
    and without a limit of your own a translation has at most twice as many tokens as the source, and 20 more.
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
        """As in transformers; with the tokenizer beside it, `rela.Translator` loads the folder, too."""
        given = options.pop("state_dict", None) or self.state_dict()
        names = {name.removeprefix(f"{self.base_model_prefix}."): tensor for name, tensor in given.items()}
        super().save_pretrained(save_directory, *arguments, state_dict=without_shared(names), **options)

    def get_encoder(self, *_: Any, **__: Any) -> RelaEncoder:
        return RelaEncoder(self.model)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.source_embedding

    def get_output_embeddings(self) -> None:
        """None: the projection is a matrix of the Transformer, not a module."""

    def resize_token_embeddings(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("expected the vocabulary that the model was trained with; train one with another")

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

        Padding of the source is where ``attention_mask`` is 0, or without one where the ids are. ``labels`` of -100
        have no loss.
        """
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("expected decoder_input_ids or labels, got neither")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        _check_padded_right(decoder_attention_mask)
        watched, kept = bool(output_attentions), bool(output_hidden_states)
        attentions = self.model.attentions()
        with (
            _watched(attentions["encoder"], watched) as encoder_weights,
            _watched(attentions["decoder"], watched) as decoder_weights,
            _watched(attentions["cross"], watched) as cross_weights,
            _states(self.model.encoder, kept) as encoder_states,
            _states(self.model.decoder, kept) as decoder_states,
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
        if given is not None:
            return given[0], None if mask is None else _padding(mask)
        if input_ids is None:
            raise ValueError("expected input_ids or encoder_outputs, got neither")
        return self.model.encode(input_ids, padding_of(input_ids, mask))

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

    # ------------------------------------------------------------------ generate

    def generate(self, inputs: Tensor | None = None, *arguments: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As in transformers, with our greatest length where nobody names one."""
        source = options.get("input_ids") if inputs is None else inputs
        config = options.get("generation_config") or (arguments[0] if arguments else None) or self.generation_config
        named = [options.get(name) for name in ("max_length", "max_new_tokens")]
        if source is not None and all(one is None for one in (*named, config.max_length, config.max_new_tokens)):
            options["max_new_tokens"] = MAX_RATIO * (source.shape[1] - 1) + MAX_EXTRA
        return super().generate(inputs, *arguments, **options)  # pyright: ignore[reportAttributeAccessIssue]

    def _update_finished_beams(self, **state: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same with GNMT's penalty in the place of ``length ** length_penalty``."""
        length = state["cur_len"] + 1 - state["decoder_prompt_len"]
        factor = (length / ((5 + length) / 6)) ** state["length_penalty"]
        return super()._update_finished_beams(**{**state, "topk_log_probs": state["topk_log_probs"] * factor})  # pyright: ignore[reportAttributeAccessIssue]


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


def padding_of(ids: Tensor, mask: Tensor | None) -> Tensor | None:
    """True at padding; None: the ids say it."""
    return None if mask is None else mask.eq(0) | ids.eq(PAD)


def _padding(mask: Tensor) -> Tensor | None:
    padding = mask == 0
    return padding if bool(padding.any()) else None


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


@contextlib.contextmanager
def _watched(modules: Sequence[MultiheadAttention], wanted: bool) -> Generator[list[Tensor]]:
    """The weights ``[B, H, Tq, Tk]`` of each module, in order; none if they are not wanted."""
    found: list[Tensor] = []

    def look(_: Heads, seen: Observation) -> None:
        found.append(seen.weights)

    handles = [module.register_observer(look, scores=False) for module in modules] if wanted else []
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _states(layers: nn.ModuleList, wanted: bool) -> Generator[list[Tensor]]:
    """What goes into the first layer, and what comes out of each; none if they are not wanted."""
    found: list[Tensor] = []
    if not wanted:
        yield found
        return

    def before(_: nn.Module, arguments: Any) -> None:
        found.append(arguments[0])

    def after(_: nn.Module, __: Any, output: Any) -> None:
        found.append(output)

    handles = [layers[0].register_forward_pre_hook(before), *(layer.register_forward_hook(after) for layer in layers)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def register_translation() -> None:
    """So that the Auto classes find it."""
    AutoConfig.register(MODEL_TYPE, RelaConfig, exist_ok=True)
    AutoModelForSeq2SeqLM.register(RelaConfig, RelaForConditionalGeneration, exist_ok=True)
