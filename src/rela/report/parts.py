"""What pages are put together from: files beside this one, places to fill, and data as JSON inside HTML."""

from __future__ import annotations

import json
import math
import re
from importlib import resources
from typing import Any


def asset(name: str) -> str:
    """One of the files that pages are made of."""
    return resources.files("rela.report").joinpath("assets", name).read_text(encoding="utf-8")


def fill(template: str, parts: dict[str, str]) -> str:
    """In one pass: what is filled in may look like a place to fill."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def to_json(data: Any) -> str:
    """JSON that may stand inside an HTML element, and in a file of UTF-8 whatever the text has in it."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: Any) -> Any:
    """JSON has no NaN; Python's reader takes it all the same, so a file may have some."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
