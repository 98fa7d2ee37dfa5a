"""JoeyNMT beside us: the same pieces, vocabulary and model size, in an environment of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from rela.model.config import ModelConfig
from rela.text.store import Sentences, Store
from rela.text.vocabulary import SPECIAL_PIECES

_SPECIAL: Final = ("<unk>", "<pad>", "<s>", "</s>")
_SPEED: Final = re.compile(r"Tokens per Sec:\s*([\d.]+)")

_CONFIG: Final = """\
name: "rela-bench"
joeynmt_version: "2.3.0"
model_dir: "{folder}/model"
use_cuda: False
random_seed: {seed}
data:
    train: "{folder}/train"
    dev: "{folder}/dev"
    dataset_type: "plain"
    src: {side_source}
    trg: {side_target}
    special_symbols: {{unk_token: "<unk>", unk_id: 0, pad_token: "<pad>", pad_id: 1, bos_token: "<s>", bos_id: 2,
        eos_token: "</s>", eos_id: 3}}
testing: {{n_best: 1, beam_size: 1, beam_alpha: 1.0, batch_size: 1000, batch_type: "token", eval_metrics: ["bleu"],
    max_output_length: 60, sacrebleu_cfg: {{tokenize: "13a"}}}}
training:
    optimizer: "adamw"
    adam_betas: [0.9, 0.98]
    scheduling: "warmupinversesquareroot"
    learning_rate_warmup: 800
    learning_rate: 0.001
    learning_rate_min: 0.0000001
    loss: "crossentropy"
    label_smoothing: 0.1
    normalization: "tokens"
    batch_size: {tokens}
    batch_type: "token"
    batch_multiplier: 1
    early_stopping_metric: "ppl"
    epochs: 100
    updates: {updates}
    validation_freq: 1000000
    logging_freq: {log_every}
    overwrite: True
    shuffle: True
    print_valid_sents: []
    keep_best_ckpts: 1
    num_workers: 0
model:
    initializer: "xavier_uniform"
    embed_initializer: "xavier_uniform"
    embed_init_gain: 1.0
    bias_initializer: "zeros"
    init_gain: 1.0
    tied_embeddings: True
    tied_softmax: True
    encoder: {encoder}
    decoder: {decoder}
"""


def write_setting(
    folder: Path, store: Store, model: ModelConfig, *, tokens: int, updates: int, log_every: int, seed: int
) -> Path:
    """Write text, vocabulary and configuration; returns the configuration's path.

    Pieces are written as their numbers, so both programs see the same sentences of the same lengths.
    """
    source_language, target_language = store.languages
    for split in ("train", "dev"):
        sides = store.split(split)
        _write_pieces(folder / f"{split}.{source_language}", sides.source)
        _write_pieces(folder / f"{split}.{target_language}", sides.target)
    pieces = range(len(SPECIAL_PIECES), model.target_vocabulary)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in (*_SPECIAL, *pieces)), encoding="utf-8")

    def side(language: str) -> str:
        return (
            f'{{lang: "{language}", max_length: 256, lowercase: False, normalize: False, level: "word", '
            f'voc_file: "{folder}/vocab.txt", tokenizer_type: "none", voc_limit: {model.target_vocabulary + 1}, '
            "voc_min_freq: 1}"
        )

    def stack(layers: int) -> str:
        return (
            f'{{type: "transformer", num_layers: {layers}, num_heads: {model.num_heads}, embeddings: '
            f"{{embedding_dim: {model.dim}, scale: True, dropout: {model.dropout}}}, hidden_size: {model.dim}, "
            f'ff_size: {model.ffn_dim}, dropout: {model.dropout}, layer_norm: "post"}}'
        )

    text = _CONFIG.format(
        folder=folder,
        seed=seed,
        side_source=side(source_language),
        side_target=side(target_language),
        tokens=tokens,
        updates=updates,
        log_every=log_every,
        encoder=stack(model.encoder_layers),
        decoder=stack(model.decoder_layers),
    )
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _write_pieces(path: Path, sentences: Sentences) -> None:
    with path.open("w", encoding="utf-8") as file:
        for index in range(len(sentences)):
            file.write(" ".join(map(str, sentences[index].tolist())) + "\n")


def run_training(python: Path, config: Path, environment: dict[str, str]) -> list[float]:
    """Train; returns the target tokens a second of every interval between two lines of the log."""
    done = subprocess.run(
        [python, "-m", "joeynmt", "train", str(config), "--skip-test"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=config.parent,
        check=False,
    )
    speeds = [float(found) for found in _SPEED.findall(done.stdout + done.stderr)]
    if done.returncode != 0 or len(speeds) < 2:
        tail = " ".join((done.stderr or done.stdout).strip().split("\n")[-3:])
        raise ValueError(f"JoeyNMT: expected a training that logs its speed, got exit code {done.returncode}: {tail}")
    return speeds
