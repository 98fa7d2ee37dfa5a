"""The YAML of configurations: as people mean it, and strict."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, as people mean it, and a key that is there twice is an error."""


_EXPONENT: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float | int:
    value = float(loader.construct_scalar(node))
    return int(value) if value.is_integer() else value  # 1e5 updates


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [key.value for key, _ in node.value]
    twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if twice is not None:
        raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_Loader.add_implicit_resolver("!number", _EXPONENT, list("-+.0123456789"))
_Loader.add_constructor("!number", _number)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(text: str) -> Any:
    """Plain data out of YAML; yaml.YAMLError if it is none."""
    return yaml.load(text, _Loader)
