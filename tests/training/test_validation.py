"""Validation: the loss by the definition, BLEU of greedy translations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.helpers import make_store, new_trainer, partly_translated, tiny_config

from rela.decoding.translator import Translator
from rela.evaluation.bleu import corpus_bleu
from rela.text.batches import load_batch
from rela.text.store import Sentences, Split
from rela.training.loss import naive_token_loss
from rela.training.trainer import Trainer
from rela.training.validation import Validator
from rela.training.world import World


@pytest.fixture
def trainer(store: Path, tmp_path: Path) -> Trainer:
    return new_trainer(tiny_config(store, validation__bleu=True, batch__tokens=20), tmp_path / "run")[0]


def test_the_loss_is_the_mean_over_tokens(trainer: Trainer) -> None:
    split, model = trainer.validator._split, trainer.model.eval()  # pyright: ignore[reportPrivateUsage]
    source, target_in, target_out = (torch.from_numpy(ids) for ids in load_batch(split, np.arange(len(split)), 256)[:3])
    with torch.no_grad():
        total = naive_token_loss(model(source, target_in), model.projection, target_out, 0.0).plain
    found = trainer.validator.run(model, World())
    assert found.loss == pytest.approx(float(total) / int(target_out.ne(0).sum()), rel=1e-6)


def test_bleu_is_that_of_greedy_translations(trainer: Trainer) -> None:
    sides = trainer.tokenizers
    split = partly_translated(trainer.model, sides, trainer.validator._split)  # pyright: ignore[reportPrivateUsage]
    source, target = (
        [tokenizer.decode(side[place].tolist()) for place in range(len(side))]
        for tokenizer, side in zip(sides, split, strict=True)
    )
    hypotheses = [one.text for one in Translator(trainer.model, sides).translate(source, beam=1)]
    expected = corpus_bleu(hypotheses, [target], num_bootstrap=0).score
    found = Validator(split, sides, trainer.config.validation, 20, 256).run(trainer.model, World()).bleu
    assert found == pytest.approx(expected)
    assert 1 < expected < 99


def test_dropout_is_off_and_then_as_before(trainer: Trainer) -> None:
    model = trainer.model.train()
    assert trainer.validator.run(model, World()) == trainer.validator.run(model, World())
    assert model.training
    model.eval()
    trainer.validator.run(model, World())
    assert not model.training


def test_only_the_first_sentences(store: Path, tmp_path: Path) -> None:
    losses: list[float] = []
    for number, count in enumerate((1, 2, 4, 100, None)):
        config = tiny_config(store, validation__max_sentences=count)
        trainer, _ = new_trainer(config, tmp_path / str(number))
        losses.append(trainer.validator.run(trainer.model, World()).loss)
    assert len(set(losses)) == 3
    assert losses[2] == losses[3] == losses[4]


def test_sentences_longer_than_any_seen_before(tmp_path: Path) -> None:
    """The table of positions grows while validating; training must go on with it."""
    store = make_store(tmp_path, pairs=4, dev=2, longest=150, seed=3)
    config = tiny_config(
        store,
        budget__steps=2,
        validation__every=1,
        batch={"tokens": 600, "update_tokens": 600, "max_pieces": 600},
    )
    trainer, reporter = new_trainer(config, tmp_path / "run")
    assert max(len(side) for side in trainer.validator._split.target) > 256  # pyright: ignore[reportPrivateUsage]
    trainer.train()
    assert len(reporter.losses) == 2


def test_a_share_for_every_process(trainer: Trainer) -> None:
    """Three processes one after the other; what they add up is what one process finds."""
    found: list[tuple[float, ...]] = []
    shares: list[tuple[list[str], list[str]]] = []

    class Part(World):
        def sum(self, *values: float) -> list[float]:
            found.append(values)
            return [1.0, 1.0]

        def gather(self, value: tuple[list[str], list[str]]) -> list[tuple[list[str], list[str]]]:
            shares.append(value)
            return [value if value[0] else (["x"], ["x"])]

    for rank in range(6):  # more than there are sentences
        trainer.validator.run(trainer.model, Part(rank, 6))
    whole = trainer.validator.run(trainer.model, World())
    assert sum(v[0] for v in found) / sum(v[1] for v in found) == pytest.approx(whole.loss, rel=1e-6)
    assert [len(translations) for translations, _ in shares] == [1, 1, 1, 1, 0, 0]


def test_an_empty_split(trainer: Trainer) -> None:
    empty = Split(*(Sentences(np.empty(0, np.int64), np.zeros(1, np.int64)) for _ in range(2)))
    with pytest.raises(ValueError, match=r"validation.split: expected pairs in 'dev', got none"):
        Validator(empty, trainer.tokenizers, trainer.config.validation, 10, 10)
