"""The Transformer written from its definition, in plain float64 operations: what ours is compared with."""

import math

import torch
from torch import Tensor

from rela.model.config import ModelConfig
from rela.model.transformer import Transformer

PAD = 0


class NaiveTransformer:
    """Reads the weights of one of ours, and nothing else of it."""

    def __init__(self, model: Transformer) -> None:
        self.config: ModelConfig = model.config
        self.weights: dict[str, Tensor] = model.state_dict(keep_vars=True)

    def hidden(self, source: Tensor, target_in: Tensor) -> Tensor:
        source_table = "source_embedding" if self.config.tied != "all" else "target_embedding"
        valid = source.ne(PAD)
        memory = self.embed(source, source_table)
        for number in range(self.config.encoder_layers):
            name = f"encoder.{number}"
            allowed = valid[:, None, :].expand(-1, source.shape[1], -1)
            attended = self.attention(f"{name}.self_attention", "encoder", memory, memory, allowed)
            memory = self.layer_norm(f"{name}.self_attention_norm", memory + attended)
            memory = self.layer_norm(
                f"{name}.feed_forward_norm", memory + self.feed_forward(f"{name}.feed_forward", memory)
            )
        x = self.embed(target_in, "target_embedding")
        length = target_in.shape[1]
        triangle = torch.ones(length, length).tril().bool().expand(len(target_in), -1, -1)
        for number in range(self.config.decoder_layers):
            name = f"decoder.{number}"
            attended = self.attention(f"{name}.self_attention", "decoder", x, x, triangle)
            x = self.layer_norm(f"{name}.self_attention_norm", x + attended)
            allowed = valid[:, None, :].expand(-1, length, -1)
            attended = self.attention(f"{name}.cross_attention", "cross", x, memory, allowed)
            x = self.layer_norm(f"{name}.cross_attention_norm", x + attended)
            x = self.layer_norm(f"{name}.feed_forward_norm", x + self.feed_forward(f"{name}.feed_forward", x))
        return x

    def logits(self, source: Tensor, target_in: Tensor) -> Tensor:
        name = "output_weight" if self.config.tied == "none" else "target_embedding.weight"
        return self.hidden(source, target_in) @ self.weights[name].T

    def embed(self, ids: Tensor, table: str) -> Tensor:
        dim = self.config.dim
        places = torch.zeros(ids.shape[1], dim, dtype=torch.float64)
        for place in range(ids.shape[1]):
            for i in range(dim // 2):
                angle = place * math.exp(i * -math.log(10_000.0) / max(dim // 2 - 1, 1))
                places[place, i], places[place, dim // 2 + i] = math.sin(angle), math.cos(angle)
        return self.weights[f"{table}.weight"][ids] * math.sqrt(dim) + places.float()

    def attention(self, name: str, kind: str, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        dim, num_heads = self.config.dim, self.config.num_heads
        size = dim // num_heads
        matrices = self.weights[f"{name}.in_proj_weight"].split(dim)
        biases = self.weights[f"{name}.in_proj_bias"].split(dim)
        query, key, value = (
            t @ matrix.T + bias for t, matrix, bias in zip((x, memory, memory), matrices, biases, strict=True)
        )
        heads: list[Tensor] = []
        for head in range(num_heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)
            if getattr(self.config.attention, kind) == "softmax":
                weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
            else:
                assert getattr(self.config.attention, kind) == "rela-g"
                weights = scores.clamp(min=0) * allowed
            heads.append(weights @ value[..., part])
        z = torch.cat(heads, dim=-1)
        if getattr(self.config.attention, kind) == "rela-g":
            rms = (z.square().mean(-1, keepdim=True) + 1e-6).sqrt()
            gate = torch.sigmoid(self.weights[f"{name}.norm.gate"] * z)
            z = gate * (z / rms * self.weights[f"{name}.norm.weight"])
        return z @ self.weights[f"{name}.out_proj.weight"].T + self.weights[f"{name}.out_proj.bias"]

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        expanded = x @ self.weights[f"{name}.expand.weight"].T + self.weights[f"{name}.expand.bias"]
        return expanded.clamp(min=0) @ self.weights[f"{name}.contract.weight"].T + self.weights[f"{name}.contract.bias"]

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
