"""Models of transformers under our lens, converted or not: for `rela.inspect`, `rela analyze` and `rela align`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from tokenizers.decoders import ByteLevel
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rela._files import digest
from rela.attention.spec import KINDS, AttentionSpec, Kind
from rela.integrations.huggingface.heads import (
    ATTRIBUTE,
    IMPLEMENTATION,
    ConvertedHeads,
    attention_by_name,
    is_converted,
)
from rela.integrations.huggingface.modules import attentions_of, check_served, configs_of
from rela.integrations.huggingface.record import SOFTMAX, heads_of
from rela.integrations.huggingface.tokenizer import RelaTokenizer
from rela.integrations.huggingface.translation import RelaForConditionalGeneration
from rela.model.config import AttentionChoice, Attentions, ModelConfig
from rela.model.directory import CONFIG_FILE, Languages
from rela.model.opening import Description, OpenedModel, foreign_type, register_opener
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating
from rela.text.byte_level import BYTE_OF
from rela.text.subwords import Encoded, PairEncoding
from rela.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES
from rela.text.words import Span

_SHIFT: Final = len(SPECIAL_PIECES)
"""Our special ids come first; those of transformers follow."""
_SAMPLE: Final = "a"
_UNKNOWN: Final = "und"
"""What BCP 47 calls a language that nobody named."""
_LANGUAGE_KEYS: Final = (
    ("source_language", "target_language"),
    ("source_lang", "target_lang"),
    ("src_lang", "tgt_lang"),
)
_TOLERANCE: Final = 1e-3
_ALONE: Final = "such a model shows its weights with output_attentions=True"
_BYTES: Final = ByteLevel()


class Ends(NamedTuple):
    """The ids of transformers that stand where we have BOS and EOS."""

    start: int
    source: int
    target: int


class SeenSide:
    """A tokenizer of transformers, for one side. What it puts before a text (a language, say) is a piece of no word."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, is_target: bool) -> None:
        self._tokenizer, self._is_target = tokenizer, is_target
        self._is_byte_level = "ByteLevel" in str(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", ""))

    def raw(self, text: str) -> tuple[list[int], list[Span]]:
        """Their ids, special ones too, and the characters that each covers."""
        wanted: dict[str, Any] = {"text_target" if self._is_target else "text": text}
        if not self._tokenizer.is_fast:
            ids = list(self._tokenizer(**wanted)["input_ids"])
            return ids, found_spans(self._tokenizer, ids, text)
        found = self._tokenizer(**wanted, return_offsets_mapping=True)
        return list(found["input_ids"]), [Span(*span) for span in found["offset_mapping"]]

    def encode_with_spans(self, text: str) -> Encoded:
        """Our ids, without the special one at the end."""
        ids, spans = self.raw(text)
        return Encoded([index + _SHIFT for index in ids[:-1]], spans[:-1])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each piece as people read it: with a blank before it where a word begins."""
        return [SPECIAL_PIECES[index] if index < _SHIFT else self._piece(index - _SHIFT) for index in ids]

    def _piece(self, index: int) -> str:
        token = str(self._tokenizer.convert_ids_to_tokens(index))
        if "▁" in token:
            return token.replace("▁", " ")
        is_bytes = self._is_byte_level and all(character in BYTE_OF for character in token)
        return _BYTES.decode([token]) if is_bytes else token


class SeenSides(NamedTuple):
    """The same tokenizer for both sides."""

    source: SeenSide
    target: SeenSide


class SeenModel(Seq2Seq):
    """An encoder-decoder model of transformers. Attentions that were not converted are softmax.

    It is seen through heads that it has while it encodes and decodes; afterwards it is as it was.
    """

    def __init__(self, inner: PreTrainedModel, sides: SeenSides) -> None:
        super().__init__()
        check_served(inner)
        self.config = _config(inner)
        self.max_pieces = _max_pieces(inner.config)
        self.inner = inner
        self.training = inner.training
        self._heads: dict[Kind, list[ConvertedHeads]] = {kind: [] for kind in KINDS}
        self._lent: list[tuple[nn.Module, ConvertedHeads]] = []
        self._configs = [config for _, config in configs_of(inner)]
        for place in attentions_of(inner):
            heads = heads_of(place.module)
            if heads is None:
                heads = ConvertedHeads(SOFTMAX, place.num_heads, place.head_dim)
                self._lent.append((place.module, heads))
            self._heads[place.kind].append(heads)
        self._ends = _ends(inner, sides)
        self._check()

    @property
    def projection(self) -> Tensor:
        return self._output().weight

    def encode(self, source: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        padding = source.eq(PAD) if padding is None else padding
        padding = padding if bool(padding.any()) else None
        encoder: Any = self.inner.get_encoder()
        mask = None if padding is None else (~padding).long()
        ids = self._theirs(source, self._ends.source)
        with self._seen():
            return encoder(input_ids=ids, attention_mask=mask).last_hidden_state, padding

    def decode(self, target_in: Tensor, memory: Tensor, memory_padding: Tensor | None) -> Tensor:
        decoder: Any = self.inner.get_decoder()
        with self._seen():
            return decoder(
                input_ids=self._theirs(target_in, self._ends.target),
                encoder_hidden_states=memory,
                encoder_attention_mask=None if memory_padding is None else (~memory_padding).long(),
                use_cache=False,
            ).last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        """Of our ids: the end has its place among our special ones, and the others there are impossible."""
        scores = self._scores(hidden)
        ours = scores.new_full((*scores.shape[:-1], scores.shape[-1] + _SHIFT), -torch.inf)
        ours[..., _SHIFT:] = scores
        ours[..., EOS] = scores[..., self._ends.target]
        ours[..., self._ends.target + _SHIFT] = -torch.inf
        return ours

    def attentions(self) -> dict[Kind, list[ConvertedHeads]]:
        return self._heads

    # ------------------------------------------------------------------ inside

    @contextlib.contextmanager
    def _seen(self) -> Generator[None]:
        """Inside, all attentions have heads, and use them."""
        names = [config._attn_implementation for config in self._configs]  # pyright: ignore[reportPrivateUsage]
        try:
            for module, heads in self._lent:
                setattr(module, ATTRIBUTE, heads)
            for config in self._configs:
                config._attn_implementation_internal = IMPLEMENTATION  # pyright: ignore[reportPrivateUsage]
            yield
        finally:
            for module, _ in self._lent:
                delattr(module, ATTRIBUTE)
            for config, name in zip(self._configs, names, strict=True):
                config._attn_implementation_internal = name  # pyright: ignore[reportPrivateUsage]

    def _output(self) -> Any:
        return self.inner.get_output_embeddings()

    def _scores(self, hidden: Tensor) -> Tensor:
        """As the heads of these models have it: T5 scales, Marian and BART add a bias."""
        config = self.inner.config
        if getattr(config, "scale_decoder_outputs", False):
            hidden = hidden * config.d_model**-0.5
        scores = self._output()(hidden)
        bias = getattr(self.inner, "final_logits_bias", None)
        return scores if bias is None else scores + bias

    def _theirs(self, ids: Tensor, end: int) -> Tensor:
        if self.max_pieces is not None and ids.shape[1] > self.max_pieces + 1:
            raise ValueError(
                f"expected at most {self.max_pieces:,} pieces of a side, which is what {type(self.inner).__name__} has "
                f"positions for, got {ids.shape[1] - 1:,}; shorten the text"
            )
        special = {PAD: self.inner.config.pad_token_id, BOS: self._ends.start, EOS: end}
        table = ids.new_tensor([special[index] for index in range(_SHIFT)])
        return torch.where(ids < _SHIFT, table[ids.clamp(max=_SHIFT - 1)], ids - _SHIFT)

    @torch.no_grad()
    def _check(self) -> None:
        """That hidden states become scores as in the model itself."""
        device = self.projection.device
        source = torch.tensor([[_SHIFT, EOS]], device=device)
        target = torch.tensor([[BOS, _SHIFT]], device=device)
        with evaluating(self):
            ours = self.logits(self(source, target))[..., _SHIFT:]
            theirs = self.inner(
                input_ids=self._theirs(source, self._ends.source),
                decoder_input_ids=self._theirs(target, self._ends.target),
                use_cache=False,
            ).logits.clone()
        theirs[..., self._ends.target] = -torch.inf
        if not torch.allclose(ours, theirs, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ValueError(
                f"expected a model whose scores are its output embedding of the decoder's states, got "
                f"{type(self.inner).__name__}, which does something else; it cannot be looked into"
            )


def adapt(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[Seq2Seq, PairEncoding]:
    """A model and its tokenizer, as our analyses take them."""
    is_ours = isinstance(model, RelaForConditionalGeneration)
    if is_ours != isinstance(tokenizer, RelaTokenizer):
        raise ValueError(
            f"tokenizer: expected the one that belongs to {type(model).__name__}, got {type(tokenizer).__name__}; use "
            "AutoTokenizer.from_pretrained with the model's folder"
        )
    if isinstance(model, RelaForConditionalGeneration) and isinstance(tokenizer, RelaTokenizer):
        return model.model, tokenizer.ours
    if not model.config.is_encoder_decoder:
        raise ValueError(
            f"model: expected an encoder and a decoder, got {type(model).__name__}, which has a decoder alone; {_ALONE}"
        )
    embeddings: Any = model.get_input_embeddings()
    ids, rows = max(tokenizer.get_vocab().values(), default=-1) + 1, embeddings.weight.shape[0]
    if ids > rows:
        raise ValueError(
            f"tokenizer: expected one of at most {rows:,} ids, as the model has embeddings for, got {ids:,}; are they "
            "of different models? else use model.resize_token_embeddings(len(tokenizer))"
        )
    sides = SeenSides(SeenSide(tokenizer, is_target=False), SeenSide(tokenizer, is_target=True))
    return SeenModel(model, sides), sides


class HuggingFaceOpener:
    """Opens folders that `save_pretrained` of a model and of its tokenizer wrote."""

    def knows(self, folder: Path) -> bool:
        return foreign_type(folder) is not None

    def describe(self, folder: Path) -> Description:
        with torch.device("meta"):
            skeleton = AutoModelForSeq2SeqLM.from_config(_known_config(folder))
        files = [folder / name for name in (CONFIG_FILE, "tokenizer.json", "tokenizer_config.json")]
        sort = " ".join(digest(file) for file in files if file.is_file())
        return Description(_config(skeleton), _languages(folder), None, sort, _max_pieces(skeleton.config))

    def open(self, folder: Path) -> OpenedModel:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, config=_known_config(folder)).eval()
        return OpenedModel(*adapt(model, _tokenizer(folder)), _languages(folder))

    def adapt(self, model: object, tokenizer: object) -> tuple[Seq2Seq, PairEncoding] | None:
        if not isinstance(model, PreTrainedModel) or not isinstance(tokenizer, PreTrainedTokenizerBase):
            return None
        return adapt(model, tokenizer)


def register_looking() -> None:
    """Once; so that our analyses find it."""
    register_opener(HuggingFaceOpener())


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _known_config(folder: Path) -> PreTrainedConfig:
    """That of a model which can be opened."""
    config = AutoConfig.from_pretrained(folder)
    if type(config) not in AutoModelForSeq2SeqLM._model_mapping:  # pyright: ignore[reportPrivateUsage]
        raise ValueError(
            f"{folder}: expected a model of an encoder and a decoder, got one of the type {config.model_type!r}; "
            + _ALONE
        )
    return config


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, TypeError, ImportError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"{folder}: expected the model's tokenizer beside it, got none that can be loaded ({why:.200}); write it "
            f"there with tokenizer.save_pretrained({str(folder)!r})"
        ) from None


def _languages(folder: Path) -> Languages:
    """As the config or the tokenizer's says."""
    for name in (CONFIG_FILE, "tokenizer_config.json"):
        entries = _read(folder / name)
        for source, target in _LANGUAGE_KEYS:
            if isinstance(entries.get(source), str) and isinstance(entries.get(target), str):
                return Languages(entries[source], entries[target])
    return Languages(_UNKNOWN, _UNKNOWN)


def _config(model: PreTrainedModel) -> ModelConfig:
    """A model's sizes, as ours are described."""
    config: Any = model.config
    named = None if is_converted(config) else attention_by_name(config._attn_implementation)
    if named is not None:
        raise ValueError(
            f"model: expected a converted one, or softmax, got one with attn_implementation="
            f"{config._attn_implementation!r} alone; use rela.integrations.huggingface.convert(model, {named.name!r}), "
            "which computes the same"
        )
    specs: dict[Kind, set[AttentionSpec]] = {kind: set() for kind in KINDS}
    layers = dict.fromkeys(KINDS, 0)
    heads: set[int] = set()
    for place in attentions_of(model):
        present = heads_of(place.module)
        specs[place.kind].add(SOFTMAX if present is None else present.attention)
        layers[place.kind] += 1
        heads.add(place.num_heads)
    for kind, found in specs.items():
        if len(found) != 1:
            names = ", ".join(sorted(spec.name for spec in found)) or "none"
            raise ValueError(
                f"{kind}: expected the same attention in all layers, got {names}"
                + ("; convert the whole kind" if found else f" in {type(model).__name__} that can be looked into")
            )
    if len(heads) != 1:
        raise ValueError(f"expected as many heads in all attentions, got {sorted(heads)}")
    return ModelConfig(
        source_vocabulary=config.vocab_size + _SHIFT,
        target_vocabulary=config.vocab_size + _SHIFT,
        dim=config.d_model,
        num_heads=heads.pop(),
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        ffn_dim=getattr(config, "decoder_ffn_dim", None) or config.d_ff,
        attention=Attentions(**{kind: _choice(*found) for kind, found in specs.items()}),
    )


def _max_pieces(config: PreTrainedConfig) -> int | None:
    """How many pieces of a side have a position, beside the special one; None if there is one for each."""
    positions = getattr(config, "max_position_embeddings", None)
    return None if positions is None else int(positions) - 1


def _choice(spec: AttentionSpec) -> AttentionChoice:
    base = AttentionSpec(map=spec.map, norm=spec.norm)
    options = {
        field.name: getattr(spec, field.name)
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) != getattr(base, field.name)
    }
    return {"name": base.name, **options} if options else base.name


def _ends(model: PreTrainedModel, sides: SeenSides) -> Ends:
    """What a tokenizer ends a text with, and a model begins one with."""
    special = set(sides.source._tokenizer.all_special_ids)  # pyright: ignore[reportPrivateUsage]
    found: list[int] = []
    for name, side in zip(sides._fields, sides, strict=True):
        ids, _ = side.raw(_SAMPLE)
        if not ids or ids[-1] not in special:
            raise ValueError(
                f"tokenizer: expected one that ends a {name} with a special token, got ids {ids} for {_SAMPLE!r}"
            )
        found.append(ids[-1])
    return Ends(_start(model, sides), *found)


@torch.no_grad()
def _start(model: PreTrainedModel, sides: SeenSides) -> int:
    """What a decoder gets before the first label: models have their own ways, so one is watched."""
    seen: list[int] = []

    def look(_: Any, __: Any, options: dict[str, Any]) -> None:
        seen.append(int(options["input_ids"][0, 0]))

    decoder: Any = model.get_decoder()
    handle = decoder.register_forward_pre_hook(look, with_kwargs=True)
    source, labels = (torch.tensor([side.raw(_SAMPLE)[0]], device=model.device) for side in sides)
    try:
        model(input_ids=source, labels=labels)
    finally:
        handle.remove()
    return seen[0]


def found_spans(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], text: str) -> list[Span]:
    """Where pieces stand in a text, for tokenizers that do not tell: in order; empty where one is not found."""
    special, place = set(tokenizer.all_special_ids), 0
    spans: list[Span] = []
    for index in ids:
        piece = "" if index in special else str(tokenizer.convert_ids_to_tokens(index)).replace("▁", "")
        start = text.find(piece, place) if piece else -1
        if start < 0 or text[place:start].strip():  # a piece that is not written as in the text
            spans.append(Span(place, place))
            continue
        place = start + len(piece)
        spans.append(Span(start, place))
    return spans
