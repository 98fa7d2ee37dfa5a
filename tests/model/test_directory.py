"""Model directories: what is saved comes back, and every kind of damage is one clear error."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.model.folders import make_folder, subwords, text_model
from torch import Tensor

from rela._files import write_text
from rela.model.directory import Languages, find_model_folder, load_model, save_model

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "model"))


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def assert_refused(folder: Path, *parts: str) -> None:
    with pytest.raises((ValueError, OSError)) as caught:
        load_model(folder)
    for part in (str(folder), *parts):
        assert part in str(caught.value), str(caught.value)
    assert len(str(caught.value)) < 1000


class TestWhole:
    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    @pytest.mark.parametrize("joint", [True, False])
    def test_what_is_saved_comes_back(self, tmp_path: Path, attention: str, joint: bool):
        model, sides = text_model(attention, joint=joint)
        save_model(tmp_path / "m", model, sides, Languages("en", "de"), {"step": 7})
        loaded = load_model(tmp_path / "m")
        assert loaded.model.config == model.config
        assert loaded.languages == Languages("en", "de")
        assert loaded.tokenizers.joint == joint
        assert not loaded.model.training
        for name, tensor in model.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], tensor), name
        assert all(p.requires_grad and not p.is_inference() for p in loaded.model.parameters())
        source, target = torch.tensor([[5, 9, 2]]), torch.tensor([[1, 8]])
        assert torch.equal(loaded.model(source, target), model(source, target))
        assert loaded.tokenizers.source.encode("the dog") == sides.source.encode("the dog")

    def test_files(self, pristine: Path):
        assert sorted(file.name for file in pristine.iterdir()) == ["config.json", WEIGHTS, "tokenizer.json"]
        description = json.loads((pristine / "config.json").read_text())
        assert description["format"] == "rela-model-1"
        assert description["made_by"] == {"test": True}
        assert "source_embedding.weight" not in load_file(pristine / WEIGHTS)  # tied: once

    def test_loading_draws_no_random_numbers(self, pristine: Path):
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        load_model(pristine)
        assert torch.equal(torch.rand(3), expected)

    def test_saving_twice_gives_the_same_bytes(self, pristine: Path, tmp_path: Path):
        again = make_folder(tmp_path / "again")
        for file in pristine.iterdir():
            assert (again / file.name).read_bytes() == file.read_bytes(), file.name

    def test_tied_weights_stay_tied(self, pristine: Path):
        model = load_model(pristine).model
        assert model.source_embedding.weight is model.target_embedding.weight is model.projection


class TestAtomic:
    def test_a_failure_leaves_the_old_one(self, folder: Path):
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        model, sides = text_model(seed=1)
        for number in range(2):
            calls = iter([OSError(28, "No space left on device"), None][number:])

            def fail(path: Path, text: str, calls: Any = calls) -> None:
                error = next(calls, OSError(28, "No space left on device"))
                if error:
                    raise error
                write_text(path, text)

            with (
                mock.patch("rela.model.directory.write_text", fail),
                pytest.raises(OSError, match="No space left on device"),
            ):
                save_model(folder, model, sides, Languages("en", "de"), {})
            assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
            assert [path.name for path in folder.parent.iterdir()] == ["model"]

    def test_a_new_one_replaces_the_old_one_whole(self, folder: Path):
        (folder / "alignment.json").write_text("{}")  # of the old one
        model, sides = text_model("softmax", seed=1)
        save_model(folder, model, sides, Languages("en", "de"), {})
        assert load_model(folder).model.config.attention.cross == "softmax"
        assert sorted(file.name for file in folder.iterdir()) == ["config.json", WEIGHTS, "tokenizer.json"]
        assert [path.name for path in folder.parent.iterdir()] == ["model"]

    @pytest.mark.parametrize(
        ("name", "content", "found"),
        [
            ("config.json", '{"model_type": "bert"}', r"something else, by its config\.json"),
            ("config.json", "{", r"something else, by its config\.json"),
            ("notes.txt", "dear diary", r"one with other files in it, such as notes\.txt"),
            ("training.json", "{}", r"one with other files in it, such as training\.json"),
        ],
    )
    def test_nothing_but_a_model_of_ours_is_replaced(self, folder: Path, name: str, content: str, found: str):
        (folder / name).write_text(content)
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        model, sides = text_model(seed=1)
        with pytest.raises(FileExistsError, match=f"a new folder or a model to replace, got {found}; name another"):
            save_model(folder, model, sides, Languages("en", "de"), {})
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


WEIGHT_DAMAGE: list[tuple[Callable[[dict[str, Tensor]], object], list[str]]] = [
    (lambda w: w.pop("encoder.0.self_attention.norm.gate"), ["missing: encoder.0.self_attention.norm.gate"]),
    (lambda w: w.update(extra=torch.ones(2)), ["unknown: extra"]),
    (
        lambda w: w.update({"decoder.1.feed_forward.expand.bias": torch.ones(25)}),
        ["decoder.1.feed_forward.expand.bias (expected (24,) torch.float32, got (25,) torch.float32)"],
    ),
    (
        lambda w: w.update({"decoder.1.feed_forward.expand.bias": torch.ones(24).double()}),
        ["of another shape or type", "got (24,) torch.float64"],
    ),
    (lambda w: w["encoder.1.feed_forward.contract.weight"].fill_(float("nan")), ["NaN or infinity"]),
    (lambda w: w["encoder.1.feed_forward.contract.weight"][0, 0].fill_(float("inf")), ["NaN or infinity"]),
    (lambda w: w.clear(), ["missing", "more"]),
]

CONFIG_DAMAGE: list[tuple[Callable[[dict[str, Any]], object], list[str]]] = [
    (lambda c: c.update(format="other-7"), ["expected format 'rela-model-1', got 'other-7'"]),
    (lambda c: c.pop("format"), ["got None; is this another program's model?"]),
    (lambda c: c.pop("model"), ["expected the entries model"]),
    (lambda c: c.update(model=[1]), ["model: "]),
    (lambda c: c["model"].update(nonsense=1), ["unknown field `nonsense`"]),
    (lambda c: c["model"].update(dim="16"), ["Expected `int`, got `str`"]),
    (lambda c: c["model"].update(dim=15), ["dim: expected"]),
    (lambda c: c["model"].pop("source_vocabulary"), ["source_vocabulary"]),
    (lambda c: c["model"]["attention"].update(cross="rela-x"), ["attention.cross: unknown attention 'rela-x'"]),
    (lambda c: c["model"].update(dim=32), ["do not fit config.json"]),
    (lambda c: c["model"].update(ffn_dim=2**40), ["do not fit config.json"]),
    (lambda c: c["model"].update(decoder_layers=3), ["missing: decoder.2"]),
    (lambda c: c["model"]["attention"].update(cross="softmax"), ["unknown: decoder.0.cross_attention.norm"]),
    (lambda c: c.update(source_language=3), ["source_language: expected the name of a language, got 3"]),
    (lambda c: c["model"].update(source_vocabulary=300, target_vocabulary=300), ["tokenizer of 300 pieces"]),
]


class TestDamage:
    @pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json", "config.json"])
    def test_missing(self, folder: Path, name: str):
        (folder / name).unlink()
        assert_refused(folder, name)

    def test_a_missing_tokenizer(self, folder: Path):
        """Which of two ways to store it was meant, nobody knows."""
        (folder / "tokenizer.json").rename(folder / "tokenizer.source.json")
        assert_refused(folder, "got no tokenizer.target.json; copy the model directory anew")
        (folder / "tokenizer.source.json").unlink()
        assert_refused(folder, "; got none of them; copy the model directory anew, with all of its files")

    def test_a_damaged_tokenizer_is_not_prepared_anew(self, folder: Path):
        (folder / "tokenizer.json").write_text("{")
        assert_refused(folder, "does not parse", "; copy the model directory anew")

    @pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json", "config.json"])
    @pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
    def test_cut(self, folder: Path, name: str, share: float):
        os.truncate(folder / name, int(share * (folder / name).stat().st_size))
        assert_refused(folder, name)

    @pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json", "config.json"])
    @pytest.mark.parametrize("content", [b"\0" * 500, b"\xff\xfe\x80 no text", b"[" * 100_000, b"[]", b'"text"'])
    def test_rubbish(self, folder: Path, name: str, content: bytes):
        (folder / name).write_bytes(content)
        assert_refused(folder, name)

    @pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json"])
    def test_a_folder_in_the_place_of_a_file(self, folder: Path, name: str):
        (folder / name).unlink()
        (folder / name).mkdir()
        assert_refused(folder, f"{name}: expected a", "got a folder; copy the")

    @pytest.mark.parametrize(
        ("change", "parts"),
        WEIGHT_DAMAGE,
        ids=["missing", "extra", "shape", "type", "nan", "inf", "empty"],
    )
    def test_weights(self, folder: Path, change: Callable[[dict[str, Tensor]], object], parts: list[str]):
        change_weights(folder, change)
        assert_refused(folder, WEIGHTS, *parts)

    @pytest.mark.parametrize(
        ("change", "parts"),
        CONFIG_DAMAGE,
    )
    def test_config(self, folder: Path, change: Callable[[dict[str, Any]], object], parts: list[str]):
        change_config(folder, change)
        assert_refused(folder, *parts)

    def test_a_tokenizer_of_another_size(self, folder: Path):
        (folder / "tokenizer.json").write_text(subwords(20).to_json())
        assert_refused(folder, "expected a source tokenizer of", "the files are of different models")

    def test_a_tokenizer_of_someone_else(self, folder: Path):
        state = json.loads((folder / "tokenizer.json").read_text())
        state["model"]["vocab"] = {name.replace("⟨", "<"): i for name, i in state["model"]["vocab"].items()}
        (folder / "tokenizer.json").write_text(json.dumps(state))
        assert_refused(folder, "tokenizer.json", "a tokenizer that `rela prepare` made")


class TestSwapped:
    """Files of two models that fit each other in every size, and would give nonsense together."""

    def test_tokenizers(self, folder: Path):
        other = subwords(40, backwards=True)
        assert other.size == subwords(40).size
        assert other.to_json() != subwords(40).to_json()
        (folder / "tokenizer.json").write_text(other.to_json())
        assert_refused(folder, "the files are of different models")

    def test_configurations(self, tmp_path: Path):
        first, second = make_folder(tmp_path / "a", "softmax"), make_folder(tmp_path / "b", "sparsemax")
        shutil.copy(first / WEIGHTS, second / WEIGHTS)
        assert_refused(second, "the files are of different models")

    def test_languages(self, folder: Path):
        change_config(folder, lambda c: c.update(source_language="de", target_language="en"))
        assert_refused(folder, "the files are of different models")

    def test_weights_of_the_same_kind_are_welcome(self, pristine: Path, folder: Path, tmp_path: Path):
        """Another checkpoint of the same run."""
        other = make_folder(tmp_path / "other", seed=1)
        shutil.copy(other / WEIGHTS, folder / WEIGHTS)
        load_model(folder)

    def test_how_it_was_made_may_be_edited(self, folder: Path):
        change_config(folder, lambda c: c.update(made_by={"remark": "the good one"}))
        load_model(folder)


class TestFind:
    def test_itself(self, folder: Path):
        assert find_model_folder(folder) == folder

    def test_the_finished_model_of_a_run(self, folder: Path, tmp_path: Path):
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
        shutil.move(folder, tmp_path / "run" / "model")
        assert find_model_folder(tmp_path / "run") == tmp_path / "run" / "model"
        assert load_model(tmp_path / "run").languages.source == "en"

    def test_a_run_that_goes_on(self, tmp_path: Path):
        (tmp_path / "checkpoints").mkdir()
        with pytest.raises(FileNotFoundError, match=r"not finished a model yet.*rela average"):
            find_model_folder(tmp_path)

    def test_a_model_further_inside(self, folder: Path, tmp_path: Path):
        (tmp_path / "demo" / "training").mkdir(parents=True)
        shutil.move(folder, tmp_path / "demo" / "training" / "model")
        with pytest.raises(FileNotFoundError, match=r"it has no config\.json; there is a model in .*demo/training$"):
            find_model_folder(tmp_path / "demo")

    def test_nothing(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match=r"it has no config\.json"):
            find_model_folder(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no such folder"):
            find_model_folder(tmp_path / "none")
        (tmp_path / "file").write_text("")
        with pytest.raises(FileNotFoundError, match="it is a file"):
            find_model_folder(tmp_path / "file")
