"""Byte order marks: what stands at the start of a file that a program from Windows wrote."""

from __future__ import annotations

import codecs
from typing import Final

from rela.text.compression import STDIN

_OTHERS: Final = (  # the longer ones first: a mark of UTF-32 begins with one of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def without_mark(start: bytes, path: object) -> bytes:
    """The first bytes of a file without the mark of UTF-8.

    Raises:
        ValueError: they have the mark of another encoding, in which no line of the file could be read.
    """
    for mark, encoding in _OTHERS:
        if start.startswith(mark):
            name = "standard input" if path == STDIN else path
            raise ValueError(f"{name}: expected UTF-8, got {encoding}; convert it with iconv -f {encoding} -t UTF-8")
    return start.removeprefix(codecs.BOM_UTF8)
