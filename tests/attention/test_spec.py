"""Attentions by name."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from tests.attention.helpers import COMBINATIONS, ROW_MAPS, raises_naming

from rela.attention.spec import MAPS, NORMS, POINTWISE_MAPS, PRESETS, AttentionSpec, resolve

# Name, map and norm of SPEC.md's table, rows 1-10, and of the further systems.
TABLE = {
    "softmax": ("softmax", "none"),
    "sparsemax": ("sparsemax", "none"),
    "entmax15": ("entmax15", "none"),
    "relu": ("relu", "none"),
    "relu-rmsnorm": ("relu", "rmsnorm"),
    "rela-i": ("relu", "rmsnorm-xavier"),
    "rela-g": ("relu", "gated-rmsnorm"),
    "rela-g-layernorm": ("relu", "gated-layernorm"),
    "rela-g-gelu": ("gelu", "gated-rmsnorm"),
    "rela-g-leaky": ("leaky", "gated-rmsnorm"),
    "entmax": ("entmax", "none"),
    "topk": ("topk", "none"),
    "sigmoid": ("sigmoid", "none"),
    "relu2": ("relu2", "none"),
}


def test_the_presets_are_those_of_the_table() -> None:
    assert {name: (spec.map, spec.norm) for name, spec in PRESETS.items()} == TABLE


def test_what_the_paper_leaves_open_has_the_decided_values() -> None:
    for spec in PRESETS.values():
        assert spec.negative_slope == 0.2
        assert spec.eps == 1e-6
        assert spec.xavier_fan == "model"
        assert spec.scale is None
        assert (spec.threshold, spec.learn_threshold, spec.length_power) == (0.0, False, 0.0)


@pytest.mark.parametrize("name", [*PRESETS, *COMBINATIONS])
def test_names_lead_back_to_their_attention(name: str) -> None:
    spec = resolve(name)
    assert resolve(spec.name) == spec
    assert str(spec) == spec.name


def test_a_pair_that_is_a_preset_has_the_presets_name() -> None:
    assert resolve("relu+gated-rmsnorm").name == "rela-g"
    assert resolve("softmax+none").name == "softmax"
    assert resolve("relu2+gated-rmsnorm").name == "relu2+gated-rmsnorm"


def test_changed_options_stand_in_the_name() -> None:
    spec = resolve("rela-g", threshold=0.5, learn_threshold=True)
    assert spec == AttentionSpec(map="relu", norm="gated-rmsnorm", threshold=0.5, learn_threshold=True)
    assert spec.name == "rela-g(threshold=0.5, learn_threshold=True)"
    assert resolve("relu2+rmsnorm", eps=1e-5).name == "relu2+rmsnorm(eps=1e-05)"


def test_a_spec_resolves_to_itself_and_can_be_changed() -> None:
    spec = AttentionSpec(map="topk", topk=3)
    assert resolve(spec) is spec
    assert resolve(spec, topk=4) == AttentionSpec(map="topk", topk=4)
    assert spec.topk == 3


def test_specs_are_frozen_and_hashable() -> None:
    spec = resolve("rela-g")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.map = "gelu"  # pyright: ignore[reportAttributeAccessIssue]
    assert len({resolve(name) for name in PRESETS}) == len(PRESETS)
    assert hash(resolve("relu+gated-rmsnorm")) == hash(spec)


def test_pointwise_maps_and_row_maps() -> None:
    assert set(POINTWISE_MAPS) == {"relu", "relu2", "gelu", "leaky", "sigmoid"}
    assert set(ROW_MAPS) == {"softmax", "sparsemax", "entmax15", "entmax", "topk"}
    assert set(MAPS) == set(POINTWISE_MAPS) | set(ROW_MAPS)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    raises_naming(lambda: resolve("nonsense"), "nonsense", *PRESETS, *MAPS, *NORMS)
    raises_naming(lambda: resolve("rela_g"), "did you mean 'rela-g'", *PRESETS)
    raises_naming(lambda: resolve("nonsense+rmsnorm"), "nonsense", *MAPS)
    raises_naming(lambda: resolve("relu+nonsense"), "nonsense", *NORMS)
    raises_naming(lambda: resolve("rela-g", treshold=1.0), "treshold", "threshold", "length_power")


def test_a_message_without_a_guess_still_reads_as_sentences() -> None:
    with pytest.raises(ValueError, match=r"'nonsense'[;.:,] "):
        resolve("nonsense")


def test_something_that_is_no_name_is_refused() -> None:
    raises_naming(lambda: resolve(3), "3", "rela-g")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("map_name", ROW_MAPS)
def test_row_maps_refuse_what_only_pointwise_maps_have(map_name: str) -> None:
    for options in ({"threshold": 0.5}, {"learn_threshold": True}):
        raises_naming(lambda o=options: resolve(f"{map_name}+none", **o), "threshold", "relu", map_name, "leave")
    raises_naming(lambda: resolve(f"{map_name}+none", length_power=1.0), "length_power", "relu", map_name, "leave")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eps": 1e-8}, ("eps", "1e-6", "1e-08", "null")),
        ({"eps": 0.0}, ("eps", "1e-6")),
        ({"eps": float("nan")}, ("eps", "finite", "nan")),
        ({"scale": float("inf")}, ("scale", "finite", "inf")),
        ({"threshold": float("nan")}, ("threshold", "finite")),
        ({"length_power": float("inf")}, ("length_power", "finite")),
        ({"negative_slope": float("inf")}, ("negative_slope", "finite")),
        ({"topk": 0}, ("topk", "at least 1", "0")),
        ({"xavier_fan": "heads"}, ("xavier_fan", "model", "head", "heads")),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], words: tuple[str, ...]) -> None:
    raises_naming(lambda: resolve("relu", **options), *words)


def test_the_smallest_allowed_eps_is_allowed() -> None:
    assert resolve("rela-g", eps=1e-6).eps == 1e-6


def test_names_are_known_without_torch() -> None:
    code = "import sys, rela.attention.spec as s; s.resolve('rela-g'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topk": 2.5}, r"topk: expected a whole number of keys, at least 1, got 2\.5"),
        ({"topk": "8"}, r"topk: expected a whole number"),
        ({"scale": "1"}, r"scale: expected a finite number, got '1'"),
        ({"eps": None}, r"eps: expected a finite number, got None"),
    ],
)
def test_options_of_a_wrong_type(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionSpec(map="topk", **options)


def test_all_close_names_are_offered() -> None:
    with pytest.raises(ValueError, match=r"did you mean ('rela-g' or 'rela-i'|'rela-i' or 'rela-g')"):
        resolve("rela")
