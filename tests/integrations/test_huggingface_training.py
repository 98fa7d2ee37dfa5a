"""Our translation models under transformers' Trainer: they learn, go on where they were, and the best one is kept."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.integrations.translation_models import Made, load
from tests.model.folders import make_folder
from torch import Tensor
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

import rela

PAIRS = [("the dog", "der Hund"), ("a cat sees", "Katze läuft"), ("small house", "ein Haus"), ("old dog", "läuft")]

pytestmark = pytest.mark.usefixtures("quiet_transformers")


class Pairs(torch.utils.data.Dataset[dict[str, Any]]):
    """What the Trainer reads."""

    def __init__(self, tokenizer: Any, pairs: list[tuple[str, str]]) -> None:
        self.rows = [dict(tokenizer(source, text_target=target)) for source, target in pairs]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.rows[place]


class Scores:
    """What evaluations find, one after the other."""

    def __init__(self, *scores: float) -> None:
        self._scores = iter(scores)

    def __call__(self, _: Any) -> dict[str, float]:
        return {"score": next(self._scores)}


def make_trainer(
    made: Made, pairs: list[tuple[str, str]], out: Path, scores: Scores | None = None, **options: Any
) -> Trainer:
    arguments: dict[str, Any] = {
        "output_dir": str(out),
        "per_device_train_batch_size": 2,
        "learning_rate": 3e-3,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "no",
        "dataloader_pin_memory": False,
        **options,
    }
    return Trainer(
        model=made.model,
        args=TrainingArguments(**arguments),
        train_dataset=Pairs(made.tokenizer, pairs),
        eval_dataset=Pairs(made.tokenizer, pairs),
        data_collator=DataCollatorForSeq2Seq(made.tokenizer, made.model),
        processing_class=made.tokenizer,
        compute_metrics=scores,
    )


def test_it_learns_something(made: Made, tmp_path: Path):
    """That the numbers are in another language now; then it is a model of ours again."""
    pairs = [("one!", "un!"), ("two!", "deux!"), ("one two!", "un deux!"), ("two one!", "deux un!")]
    options: dict[str, Any] = {"num_train_epochs": 200, "per_device_train_batch_size": 4}
    trainer = make_trainer(load(made.folder), pairs, tmp_path / "runs", **options)
    trainer.train()
    trainer.save_model(str(tmp_path / "tuned"))
    ours = rela.Translator.load(tmp_path / "tuned").translate([source for source, _ in pairs])
    assert [one.text for one in ours] == [target for _, target in pairs]


@pytest.fixture
def warnings_of_transformers(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What it logs, which does not reach the root logger."""
    from transformers.utils import logging as theirs

    theirs.set_verbosity_warning()
    theirs.enable_propagation()
    with caplog.at_level(logging.WARNING):
        yield caplog
    theirs.disable_propagation()


def weights_of(model: Any) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.model.named_parameters()}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert not [name for name, tensor in expected.items() if not torch.equal(found[name], tensor)]


@pytest.mark.parametrize("joint", [True, False], ids=["one vocabulary", "two vocabularies"])
class TestCheckpoints:
    @staticmethod
    def folder(tmp_path: Path, *, joint: bool, seed: int = 0) -> Made:
        return load(make_folder(tmp_path / f"model-{seed}", joint=joint, seed=seed))

    def test_resumed_equals_uninterrupted(
        self, joint: bool, tmp_path: Path, warnings_of_transformers: pytest.LogCaptureFixture
    ):
        options: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
        whole = make_trainer(self.folder(tmp_path, joint=joint), PAIRS, tmp_path / "runs", **options)
        whole.train()
        other = self.folder(tmp_path, joint=joint, seed=1)  # all that it knows is from the checkpoint
        resumed = make_trainer(other, PAIRS, tmp_path / "again", **options)
        resumed.train(resume_from_checkpoint=str(tmp_path / "runs" / "checkpoint-2"))
        assert_same(weights_of(resumed.model), weights_of(whole.model))
        assert "keys in the checkpoint" not in warnings_of_transformers.text

    def test_the_best_model_is_kept(
        self, joint: bool, tmp_path: Path, warnings_of_transformers: pytest.LogCaptureFixture
    ):
        trainer = make_trainer(
            self.folder(tmp_path, joint=joint),
            PAIRS,
            tmp_path / "runs",
            scores=Scores(0.1, 0.9, 0.3),
            max_steps=3,
            save_strategy="steps",
            save_steps=1,
            eval_strategy="steps",
            eval_steps=1,
            load_best_model_at_end=True,
            metric_for_best_model="score",
            greater_is_better=True,
        )
        trainer.train()
        second, last = (load_file(tmp_path / "runs" / f"checkpoint-{step}" / "model.safetensors") for step in (2, 3))
        found = weights_of(trainer.model)
        assert_same(found, second)
        assert not torch.equal(found["target_embedding.weight"], last["target_embedding.weight"])
        assert "keys in the checkpoint" not in warnings_of_transformers.text

    def test_state_dicts_have_either_names(self, joint: bool, tmp_path: Path):
        one, other = (self.folder(tmp_path, joint=joint, seed=seed) for seed in (0, 1))
        short = load_file(one.folder / "model.safetensors")
        for state in (short, one.model.state_dict()):
            before = dict(state)
            fresh = load(other.folder).model
            fresh.load_state_dict(state)  # strict: every name is there, and no other
            assert_same(weights_of(fresh), weights_of(one.model))
            assert state.keys() == before.keys()
        del short["decoder.0.cross_attention.norm.gate"]
        with pytest.raises(RuntimeError, match=r"Missing key\(s\).*model\.decoder\.0\.cross_attention\.norm\.gate"):
            other.model.load_state_dict(short)
