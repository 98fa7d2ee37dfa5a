"""The SGM files of the WMT test sets. They are no proper SGML or XML (a bare ``&`` is usual), so no parser is used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from rela.text.compression import open_text

_SEGMENT: Final = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
_OPENING: Final = re.compile(r"<seg\b", re.IGNORECASE)


def read_sgm(path: str | Path) -> list[str]:
    """The segments of a file, in order, an empty one as an empty text.

    White space is made single blanks, entities stay as they are: the lines are those that sacrebleu scores with.
    """
    with open_text(path) as stream:
        raw = stream.read()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8, got other bytes ({error}); convert the file first") from error
    segments = [" ".join(found.split()) for found in _SEGMENT.findall(text)]
    num_opened = len(_OPENING.findall(text))
    if not segments or num_opened != len(segments):
        raise ValueError(
            f"{path}: expected <seg ...>text</seg>, got {num_opened} opening tags and {len(segments)} whole segments; "
            "the file is no SGM test set, or was cut"
        )
    return segments
