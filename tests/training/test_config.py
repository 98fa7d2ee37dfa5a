"""Configurations: types, overrides, and what is said about mistakes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rela.training import config as config_module
from rela.training.config import ModelSection, OverrideError, TrainConfig, dump_config, load_config
from rela.training.settings import sections_of

FOLDER = Path(__file__).resolve().parents[2] / "configs"
CONFIGS = sorted(FOLDER.glob("*.yaml"))
MINIMAL = "store: data\nbudget: {steps: 10}\n"


def load(tmp_path: Path, text: str, *overrides: str) -> TrainConfig:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    return load_config(tmp_path / "config.yaml", overrides)


def test_the_defaults_are_the_papers(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert (config.batch.update_tokens, config.optimizer.beta2, config.optimizer.label_smoothing) == (25_000, 0.98, 0.1)
    assert (config.rate.schedule, config.rate.warmup) == ("noam", 4000)
    model = config.model.resolve(100, 100, joint=True)
    assert (model.dim, model.num_heads, model.encoder_layers, model.ffn_dim, model.tied) == (512, 8, 6, 2048, "all")


@pytest.mark.parametrize(
    ("override", "path", "expected"),
    [
        ("rate.peak=1e-3", "rate.peak", 1e-3),
        ("rate.peak=1E-3", "rate.peak", 1e-3),
        ("rate.peak=2.5e-4", "rate.peak", 2.5e-4),
        ("rate.peak=.5e-1", "rate.peak", 0.05),
        ("rate.peak=null", "rate.peak", None),
        ("optimizer.eps=1e-9", "optimizer.eps", 1e-9),
        ("budget.steps=1e5", "budget.steps", 100_000),
        ("budget.steps=2_000", "budget.steps", 2000),
        ("validation.bleu=false", "validation.bleu", False),
        ("split=nan", "split", "nan"),
        ("split='1e5'", "split", "1e5"),
        ("store=a=b", "store", "a=b"),
        ("store= spaces in it ", "store", "spaces in it"),
        ("model.attention=softmax", "model.attention", "softmax"),
        ("model.attention={cross: softmax}", "model.attention", {"cross": "softmax"}),
        ("model.attention.cross=softmax", "model.attention", {"cross": "softmax"}),
        (
            "model.attention={name: rela-g, threshold: 1e-1}",
            "model.attention",
            {"name": "rela-g", "threshold": 0.1},
        ),
        ("model={dim: 64, num_heads: 2}", "model.dim", 64),
        ("log.tensorboard=yes", "log.tensorboard", True),
    ],
)
def test_overrides(tmp_path: Path, override: str, path: str, expected: object) -> None:
    found: Any = load(tmp_path, MINIMAL, override)
    for key in path.split("."):
        found = getattr(found, key)
    assert found == expected
    assert type(found) is type(expected)


def test_the_file_has_the_same_numbers(tmp_path: Path) -> None:
    config = load(tmp_path, "store: x\nbudget: {tokens: 1e9}\nrate: {peak: 1e-3}\n")
    assert (config.rate.peak, config.budget.tokens) == (1e-3, 10**9)


def test_later_overrides_win_and_sections_may_be_missing_or_empty(tmp_path: Path) -> None:
    config = load(tmp_path, "store: x\nbudget:\nmodel:\n", "budget.steps=1", "budget.steps=2", "model.dim=32")
    assert (config.budget.steps, config.model.dim) == (2, 32)


def test_an_attention_of_its_own_for_each_kind(tmp_path: Path) -> None:
    text = MINIMAL + "model: {attention: {encoder: softmax, cross: {name: rela-g, threshold: 1}}}\n"
    attention = load(tmp_path, text).model.resolve(9, 9, joint=True).attention
    assert attention.spec("encoder").map == "softmax"
    assert attention.spec("decoder").norm == "gated-rmsnorm"
    assert attention.spec("cross").threshold == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "optimizer.label_smothing=1",
            "unknown setting `optimizer.label_smothing`; did you mean `optimizer.label_smoo",
        ),
        ("label_smoothing=0", "unknown setting `label_smoothing`; did you mean `optimizer.label_smoothing`?"),
        (
            "model.label_smoothing=0",
            "unknown setting `model.label_smoothing`; did you mean `optimizer.label_smoothing`",
        ),
        ("stroe=1", "unknown setting `stroe`; did you mean `store`?"),
        ("model.xyzzy=1", "unknown setting `model.xyzzy`; known are size, dim, "),
        ("rate.warm_up=1", "did you mean `rate.warmup`?"),
        ("7=1", "unknown setting `7`; known are store, split"),
        ("batch.tokens", "--set: expected a.b=value, got 'batch.tokens'"),
        ("=3", "--set: expected a.b=value, got '=3'"),
        ("a..b=3", "--set: expected a.b=value, got 'a..b=3'"),
        ("model.dim=[1", "--set model.dim: expected a YAML value, got '[1'"),
        ("store.x=1", "--set store.x: expected settings in `store`, got 'data'; set `store` as a whole"),
        ("batch.tokens=many", "batch.tokens: expected a whole number, got 'many'"),
        ("batch.tokens=1.5", "batch.tokens: expected a whole number, got 1.5"),
        ("batch.tokens=0", "batch.tokens: expected at least 1, got 0"),
        ("batch.tokens=30000", "update_tokens: expected at least tokens 30000, got 25000; an update is made of whole"),
        ("batch.update_tokens=4095", "update_tokens: expected at least tokens 4096, got 4095"),
        ("batch=3", "batch: expected settings of its own, got 3"),
        ("batch.subword_dropout=1", "subword_dropout: expected a probability below 1, got 1"),
        ("optimizer.beta2=1", "beta2: expected 0 or more and less than 1, got 1.0"),
        ("optimizer.clip=-1", "clip: expected 0 or more, got -1"),
        ("optimizer.eps=.nan", "eps: expected 0 or more, got nan"),
        ("budget.steps=null", "budget: expected steps, tokens or epochs, got none; training would never end"),
        ("budget.epochs=0", "budget: expected at least 1, got 0"),
        ("validation.every=0", "every: expected at least 1 update, got 0"),
        ("validation.patience=0", "patience: expected at least 1 validation"),
        ("validation.max_sentences=0", "max_sentences: expected at least 1, got 0"),
        ("validation={metric: bleu, bleu: false}", "metric: expected 'loss', since bleu is false, got 'bleu'"),
        ("validation.metric=chrf", "validation.metric: expected loss or bleu, got 'chrf'"),
        ("checkpoints.every=0", "every: expected at least 1, got 0"),
        ("checkpoints.average=6", "average: expected at most keep_last 5, got 6"),
        ("divergence.window=0", "window: expected at least 1, got 0"),
        ("divergence.max_rise=-1", "max_rise: expected 0 or more, got -1"),
        ("divergence.patience=100", "patience: expected more updates than window 100, got 100"),
        ("log.every=0", "log.every: expected at least 1 update, got 0"),
        ("rate.warmup=0", "warmup: expected at least 1 update, got 0"),
        ("rate.schedule=cosine", "rate.schedule: expected noam or linear, got 'cosine'"),
        ("seed=-1", "seed: expected a number from 0 to 2**63 - 1, got -1"),
        ("seed=9223372036854775808", "seed: expected a number from 0"),
        ("model.size=huge", "model.size: expected one of base, small, tiny, got 'huge'"),
        ("model.attention=sofmax", "unknown attention 'sofmax'; did you mean 'softmax'"),
        ("model.attention={crss: softmax}", "expected a name, `name` with options, or encoder, decoder and cross"),
        ("model.attention={cross: 5}", "model.attention.cross: expected text or settings of its own, got 5"),
        (
            "model.attention={name: rela-g, treshold: 1}",
            "unknown attention option treshold; did you mean threshold? expected one of",
        ),
        ("model.attention=5", "model.attention: expected text or settings of its own, got 5"),
    ],
)
def test_mistakes(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(OverrideError) as caught:
        load(tmp_path, MINIMAL, override)
    assert message in str(caught.value)
    assert str(caught.value).startswith("--set")


def test_mistakes_of_the_file_are_not_blamed_on_overrides(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.yaml: batch\.tokens: expected a whole number, got null$") as caught:
        load(tmp_path, MINIMAL + "batch: {tokens: null}\n", "seed=2")
    assert not isinstance(caught.value, OverrideError)


def test_an_override_may_mend_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, "budget: {steps: many}", "store=x", "budget.steps=3").budget.steps == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping of settings, got NoneType"),
        ("- 1", "expected a mapping of settings, got list"),
        ("a: [", "expected YAML, got "),
        ("store: x\nstore: y\nbudget: {steps: 1}", "the key 'store' twice"),
        ("store: x\nbudget: {steps: 1, steps: 2}", "the key 'steps' twice"),
        ("store: !!python/object:os.system {}", "expected YAML, got "),
        ("budget: {steps: 1}", "expected the setting `store`, which is missing"),
        ("store: x", "expected the setting `budget`, which is missing"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is looked at below)
        load(tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_latin_1_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes("store: Straße".encode("latin-1"))
    with pytest.raises(ValueError, match="expected YAML"):
        load_config(tmp_path / "config.yaml")


def test_one_attention_name_cannot_be_changed_in_part(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected settings in `model.attention`, got 'softmax'; set"):
        load(tmp_path, MINIMAL + "model: {attention: softmax}\n", "model.attention.cross=rela-g")


def test_what_is_dumped_is_read_as_the_same(tmp_path: Path) -> None:
    overrides = ("optimizer.eps=1e-12", "model.attention={cross: {name: rela-g, threshold: 1e-5}}", "split=1e5x")
    config = load(tmp_path, MINIMAL, *overrides)
    assert load(tmp_path, dump_config(config)) == config


def test_separate_vocabularies_of_the_same_size_are_not_tied() -> None:
    assert ModelSection().resolve(50, 50, joint=False).tied == "target"
    assert ModelSection(tied="none").resolve(50, 50, joint=True).tied == "none"
    with pytest.raises(ValueError, match=r"model.tied: expected 'target' or 'none' for separate vocabularies, got"):
        ModelSection(tied="all").resolve(50, 50, joint=False)


class TestShipped:
    """The configurations that come with the package."""

    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
    def test_each_can_be_used(self, path: Path) -> None:
        config = load_config(path)
        config.model.resolve(9_000, 9_000, joint=True)
        assert f"rela train configs/{path.name}" in path.read_text(encoding="utf-8")
        assert f"rela prepare {config.store} " in path.read_text(encoding="utf-8")

    def test_one_has_every_setting(self) -> None:
        """The budget is whatever comes first, so the comment names those that are not set."""
        path = next(path for path in CONFIGS if path.name == "multi30k.yaml")
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        sections = sections_of(TrainConfig)
        assert set(data) == set(TrainConfig.__struct_fields__)
        for name, section in sections.items():
            known = set(section.__struct_fields__)
            assert set(data[name]) == (known if name != "budget" else {"tokens"}), name
        assert "steps (updates), tokens (target), epochs" in path.read_text(encoding="utf-8")
        assert set(sections["budget"].__struct_fields__) == {"steps", "tokens", "epochs"}

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        expected = (
            f"x.yaml: expected a configuration, there is no such file; those that came with rela are in {FOLDER}: "
        )
        with pytest.raises(FileNotFoundError, match=f"{re.escape(expected)}.*, multi30k.yaml"):
            load_config(tmp_path / "x.yaml")
        expected = f"there is no such file; one of that name came with rela: {FOLDER / 'multi30k.yaml'}"
        with pytest.raises(FileNotFoundError, match=f"{re.escape(expected)}$"):
            load_config(tmp_path / "configs" / "multi30k.yaml")

    def test_of_an_installed_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "site-packages" / "rela"
        (package / "configs").mkdir(parents=True)
        monkeypatch.setattr(config_module, "_PACKAGE", package)
        with pytest.raises(FileNotFoundError, match=r"there is no such file$"):
            load_config(tmp_path / "own.yaml")
        (package / "configs" / "own.yaml").write_text(MINIMAL)
        with pytest.raises(FileNotFoundError, match=re.escape(f"with rela: {package / 'configs' / 'own.yaml'}")):
            load_config(tmp_path / "own.yaml")

    def test_all_of_them_are_packed(self) -> None:
        hatch = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
        assert hatch["wheel"]["force-include"] == {"configs": "rela/configs"}
        assert "/configs" in hatch["sdist"]["include"]
