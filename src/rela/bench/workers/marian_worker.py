"""Hugging Face transformers: `generate` of a Marian model with random weights, a fixed number of steps."""

import torch
from loop import serve
from transformers import MarianConfig, MarianMTModel

PAD = 0


def prepare(setting):
    """Make such a model and be ready to translate."""
    size = setting["size"]
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=size["vocabulary"],
        decoder_vocab_size=size["vocabulary"],
        d_model=size["dim"],
        encoder_layers=size["encoder_layers"],
        decoder_layers=size["decoder_layers"],
        encoder_attention_heads=size["num_heads"],
        decoder_attention_heads=size["num_heads"],
        encoder_ffn_dim=size["ffn_dim"],
        decoder_ffn_dim=size["ffn_dim"],
        max_position_embeddings=512,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=2,
        bos_token_id=1,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        num_beams=1,
    )
    model = MarianMTModel(config).eval()
    if setting["precision"] == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    rows = setting["source"]
    longest = max(map(len, rows))
    source = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])

    @torch.inference_mode()
    def run():
        found = model.generate(
            source,
            attention_mask=mask,
            num_beams=setting["beam"],
            length_penalty=0.6,
            min_new_tokens=setting["length"],
            max_new_tokens=setting["length"],
            do_sample=False,
        )
        return {"lengths": [found.shape[1] - 1] * found.shape[0]}

    return run


if __name__ == "__main__":
    serve(prepare)
