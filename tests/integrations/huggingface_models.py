"""Small random models of transformers, one of each family, with inputs for them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

PAD, VOCABULARY = 0, 50


def _encoder_decoder(name: str, **more: Any) -> PreTrainedModel:
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        **more,
    )
    kind = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    return getattr(transformers, f"{name}{kind}")(config)


def _t5() -> PreTrainedModel:
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    config.decoder_start_token_id = PAD
    return transformers.T5ForConditionalGeneration(config)


def _llama() -> PreTrainedModel:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=PAD,
    )
    return transformers.LlamaForCausalLM(config)


def _gpt2() -> PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config)


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "marian": lambda: _encoder_decoder("Marian"),
    "bart": lambda: _encoder_decoder("Bart", forced_eos_token_id=2),
    "mbart": lambda: _encoder_decoder("MBart"),
    "m2m100": lambda: _encoder_decoder("M2M100"),
    "t5": _t5,
    "llama": _llama,
    "gpt2": _gpt2,
}


def build(name: str) -> PreTrainedModel:
    """The same one every time, with weights large enough that tokens matter."""
    torch.manual_seed(1)
    model = MODELS[name]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_positions" not in name:  # some are sinusoids, which are not saved
                parameter.mul_(3)
    return model.eval()


class Texts(NamedTuple):
    """Token ids: sources (None of a decoder-only model) and targets, and which of the sources are no padding."""

    source: Tensor | None
    target: Tensor

    def arguments(self, padding: Tensor | None = None) -> dict[str, Tensor]:
        """For a model's forward pass; ``padding`` is True at tokens of the source, or of the only text."""
        if self.source is None:
            found = {"input_ids": self.target}
        else:
            found = {"input_ids": self.source, "decoder_input_ids": self.target}
        return found if padding is None else {**found, "attention_mask": padding.long()}


def texts(model: PreTrainedModel, length: int = 7, target: int = 5, rows: int = 2) -> Texts:
    """Ids that are no special ones."""
    generator = torch.Generator().manual_seed(2)

    def draw(size: int) -> Tensor:
        return torch.randint(3, VOCABULARY, (rows, size), generator=generator)

    return Texts(draw(length) if model.config.is_encoder_decoder else None, draw(target))
