"""Pairs that are spoiled on purpose: which, how, what is learned of them; and the loss that switches heads off."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.small import random_ids, random_model, small_config
from tests.training.helpers import events, make_store, model_bytes, new_trainer, resumed_trainer, tiny_config, train

from rela.attention.multihead import MultiheadAttention
from rela.text.batches import Batch, pad_batch
from rela.text.vocabulary import BOS, EOS, PAD
from rela.training.config import SpoilingSection
from rela.training.signals import InterruptedRunError
from rela.training.spoiling import NOTHING, SOMETHING, NullLoss, Spoiled, spoil

SHARE = {"share": 0.5, "null_loss": 1.0}


def made_batch(lengths: list[int], seed: int = 0) -> Batch:
    """Every piece of every sentence is another one, so that it can be told where it comes from."""
    generator = np.random.default_rng(seed)
    ids = 3 + generator.permutation(sum(lengths) * 2)
    targets = np.split(ids[: sum(lengths)], np.cumsum(lengths)[:-1])
    sources = [target + 1000 for target in targets]
    return pad_batch(sources, targets, np.arange(len(lengths)), 100)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    kinds=st.sampled_from([("shuffle",), ("span",), ("shuffle", "span")]),
    learned=st.booleans(),
    seed=st.integers(0, 50),
)
def test_what_is_spoiled(lengths: list[int], kinds: tuple[Any, ...], learned: bool, seed: int):
    batch = made_batch(lengths, seed)
    found = spoil(batch, SpoilingSection(share=0.6, kinds=kinds, learned=learned, null_loss=1.0), seed, 3)
    np.testing.assert_array_equal(found.batch.source, batch.source)
    for row in range(len(lengths)):
        own = set(batch.target_out[row]) - {PAD, EOS}
        inputs, outputs = found.batch.target_in[row], found.batch.target_out[row]
        changed = not np.array_equal(inputs, batch.target_in[row])
        assert inputs[0] == BOS
        if not changed:
            np.testing.assert_array_equal(outputs, batch.target_out[row])
            np.testing.assert_array_equal(found.rows[row], np.where(outputs == PAD, 0, SOMETHING))
            continue
        assert SOMETHING not in found.rows[row]
        foreign = np.isin(inputs, [PAD, BOS, *own], invert=True)
        nothing = np.flatnonzero(found.rows[row] == NOTHING)
        assert foreign[nothing].all()
        if learned:
            real = int((outputs != PAD).sum())
            np.testing.assert_array_equal(inputs[1:real], outputs[: real - 1])
            assert outputs[real - 1] == EOS
        else:
            assert not np.isin(outputs, inputs[foreign]).any()  # no loss counts a foreign word
        if "shuffle" not in kinds:
            assert foreign.sum() == len(nothing) + 1 >= 3
            np.testing.assert_array_equal(inputs[~foreign], batch.target_in[row][~foreign])


def test_share_and_seed():
    batch = made_batch([10] * 400)
    options = SpoilingSection(share=0.3, null_loss=1.0)
    first, again, other = (spoil(batch, options, *seed) for seed in ((1, 2), (1, 2), (1, 3)))
    np.testing.assert_array_equal(first.batch.target_in, again.batch.target_in)
    assert (first.batch.target_in != other.batch.target_in).any()
    spoiled = (first.batch.target_in != batch.target_in).any(1).mean()
    assert 0.22 < spoiled < 0.38
    assert Spoiled.none(batch).rows.sum() == 0


class TestNullLoss:
    def loss_of(self, rows: torch.Tensor) -> tuple[float, list[torch.Tensor], NullLoss]:
        model = random_model(small_config()).train()
        modules = model.attentions()["cross"]
        loss = NullLoss(modules)
        loss.rows = rows
        scores: list[torch.Tensor] = []
        for module in modules:
            module.register_observer(lambda _, seen: scores.append(seen.scores))  # pyright: ignore[reportArgumentType]
        torch.manual_seed(0)
        source = random_ids(31, [5, 3], last=EOS)
        model(source, random_ids(31, [4, 4], first=BOS))
        allowed = source.ne(PAD)[:, None, None]
        tops = [found.detach().masked_fill(~allowed, -torch.inf).amax(-1) for found in scores]
        return float(loss().detach()), tops, loss

    def test_by_definition(self):
        rows = torch.tensor([[SOMETHING, SOMETHING, 0, SOMETHING], [0, NOTHING, NOTHING, 0]], dtype=torch.int8)
        found, tops, loss = self.loss_of(rows)
        expected = 0.0
        for top in tops:  # [B, H, T] of a layer
            for head in range(top.shape[1]):
                bad = [max(0.0, float(top[1, head, t]) + loss.margin) for t in (1, 2)]
                good = [max(0.0, loss.margin - float(top[0, head, t])) for t in (0, 1, 3)]
                expected += (sum(bad) + sum(good) * 2 / 3) / top.shape[1] / len(tops)
        assert found == pytest.approx(expected, rel=1e-5)

    def test_nothing_to_do(self):
        assert self.loss_of(torch.zeros(2, 4, dtype=torch.int8))[0] == 0.0

    def test_it_switches_heads_off(self):
        """A few steps down its gradient: rows that should attend to nothing do, the others still attend."""
        torch.manual_seed(0)
        attention = MultiheadAttention(16, 2, batch_first=True).train()
        memory, good, bad = torch.randn(1, 5, 16), torch.randn(1, 6, 16), torch.randn(1, 6, 16)
        loss = NullLoss([attention])
        loss.rows = torch.tensor([[SOMETHING] * 6 + [NOTHING] * 6], dtype=torch.int8)
        optimizer = torch.optim.Adam(attention.parameters(), 0.02)
        query = torch.cat([good, bad], 1)
        for _ in range(80):
            attention(query, memory, memory)
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        weights = attention.eval()(query, memory, memory, average_attn_weights=False)[1]
        null = (weights == 0).all(-1)[0]  # [H, T]
        assert null[:, 6:].float().mean() > 0.9
        assert null[:, :6].float().mean() < 0.1

    def test_softmax_cannot(self):
        modules = random_model(small_config("softmax")).attentions()["cross"]
        with pytest.raises(ValueError, match="expected a cross-attention that can attend to nothing, such as rela-g"):
            NullLoss(modules)


class TestTraining:
    def test_same_seed_and_resumed(self, tmp_path: Path):
        store = make_store(tmp_path, longest=9)
        config = tiny_config(store, spoiling={**SHARE, "begin": 0.3})
        train(config, tmp_path / "whole")
        train(config, tmp_path / "again")
        assert model_bytes(tmp_path / "whole") == model_bytes(tmp_path / "again")
        cut = tiny_config(store, spoiling={**SHARE, "begin": 0.3})
        trainer, _ = new_trainer(cut, tmp_path / "cut")
        update = trainer._update  # pyright: ignore[reportPrivateUsage]

        def stop(journal: Any) -> None:
            update(journal)
            if trainer.step == 4:
                trainer._stop.wanted = True  # pyright: ignore[reportPrivateUsage]

        trainer._update = stop  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        with pytest.raises(InterruptedRunError):
            trainer.train()
        resumed_trainer(tmp_path / "cut")[0].train()
        assert model_bytes(tmp_path / "cut") == model_bytes(tmp_path / "whole")

    def test_begin(self, tmp_path: Path):
        """Until then, every update sees as many tokens to learn as without."""
        store = make_store(tmp_path, longest=9)
        train(tiny_config(store), tmp_path / "plain")
        train(tiny_config(store, spoiling={**SHARE, "begin": 0.5}), tmp_path / "spoiled")
        plain, spoiled = (
            [entry["tokens"] for entry in events(tmp_path / run, "train")] for run in ("plain", "spoiled")
        )
        assert plain[:4] == spoiled[:4]
        assert spoiled[-1] - spoiled[3] < plain[-1] - plain[3]

    def test_sparsity(self, tmp_path: Path):
        """Cross-attention gets sparser if that is asked for."""
        store = make_store(tmp_path)
        rates: list[float] = []
        for target in (0.0, 1.0):
            config = tiny_config(store, sparsity={"target": target, "weight": 20.0}, budget={"steps": 40})
            trainer_run = tmp_path / f"run-{target}"
            train(config, trainer_run)
            rates.append(_sparsity(trainer_run, store))
        assert rates[0] + 0.1 < rates[1]

    @pytest.mark.parametrize(
        ("section", "error"),
        [
            ({"share": 1.0}, "spoiling.share: expected 0 or more and less than 1, got 1.0"),
            ({"share": 0.2}, "expected learned: true or a null_loss above 0"),
            ({"share": 0.2, "kinds": [], "null_loss": 1}, "kinds: expected shuffle, span or both"),
            ({"null_loss": -1}, "null_loss: expected 0 or more"),
            ({"kinds": ["salad"]}, "kinds"),
        ],
    )
    def test_wrong_settings(self, tmp_path: Path, section: dict[str, Any], error: str):
        with pytest.raises(ValueError, match=error.replace(".", r"\.")):
            tiny_config(tmp_path, spoiling=section)


def _sparsity(run: Path, store: Path) -> float:
    from rela.model.directory import load_model
    from rela.text.batches import load_batch
    from rela.text.store import Store

    model = load_model(run)[0].eval()
    batch = load_batch(Store.open(store).split("train"), np.arange(20), 100)
    zeros: list[float] = []
    valid = torch.from_numpy((batch.target_out != PAD)[:, None, :, None] & (batch.source != PAD)[:, None, None])
    for module in model.attentions()["cross"]:
        module.register_observer(
            lambda _, seen: zeros.append(float((seen.weights == 0)[valid.expand_as(seen.weights)].float().mean()))
        )
    with torch.inference_mode():
        model(torch.from_numpy(batch.source), torch.from_numpy(batch.target_in))
    return float(np.mean(zeros))
