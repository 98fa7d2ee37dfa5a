"""CTranslate2 with a Transformer of random weights: beam search of a fixed number of steps."""

import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec
from loop import serve

POSITIONS = 512
SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]


def fill(spec, size):
    """Random weights for every layer, post-norm as in the original Transformer, one table for all embeddings."""
    generator = np.random.default_rng(0)
    dim = size["dim"]

    def linear(part, rows, columns):
        part.weight = (generator.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)
        part.bias = np.zeros(rows, np.float32)

    def norm(part):
        part.gamma, part.beta = np.ones(dim, np.float32), np.zeros(dim, np.float32)

    table = (generator.standard_normal((size["vocabulary"], dim)) * dim**-0.5).astype(np.float32)
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight, embeddings.multiply_by_sqrt_depth = table, True
        side.position_encodings.encodings = np.zeros((POSITIONS, dim), np.float32)
        for layer in side.layer:
            linear(layer.self_attention.linear[0], 3 * dim, dim)
            linear(layer.self_attention.linear[1], dim, dim)
            norm(layer.self_attention.layer_norm)
            if hasattr(layer, "attention"):
                linear(layer.attention.linear[0], dim, dim)
                linear(layer.attention.linear[1], 2 * dim, dim)
                linear(layer.attention.linear[2], dim, dim)
                norm(layer.attention.layer_norm)
            linear(layer.ffn.linear_0, size["ffn_dim"], dim)
            linear(layer.ffn.linear_1, dim, size["ffn_dim"])
            norm(layer.ffn.layer_norm)
    spec.decoder.projection.weight = table
    spec.decoder.projection.bias = np.zeros(size["vocabulary"], np.float32)


def prepare(setting):
    """Write such a model, load it, and be ready to translate."""
    size = setting["size"]
    layers = (size["encoder_layers"], size["decoder_layers"])
    spec = TransformerSpec.from_config(layers, size["num_heads"], pre_norm=False)
    fill(spec, size)
    words = SPECIAL + [f"w{number}" for number in range(size["vocabulary"] - len(SPECIAL))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder,
            device="cpu",
            compute_type=setting["precision"],
            intra_threads=setting["threads"],
            inter_threads=1,
        )
    source = [[words[piece] for piece in row] for row in setting["source"]]

    def run():
        found = translator.translate_batch(
            source,
            beam_size=setting["beam"],
            length_penalty=0.6,
            min_decoding_length=setting["length"],
            max_decoding_length=setting["length"],
        )
        return {"lengths": [len(one.hypotheses[0]) for one in found]}

    return run


if __name__ == "__main__":
    serve(prepare)
