"""Bytes as pieces write them, and the characters that bytes belong to."""

from __future__ import annotations

from typing import Final, NamedTuple

NUM_BYTES: Final = 256
_PRINTED: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, NUM_BYTES))
_OTHERS: Final = tuple(byte for byte in range(NUM_BYTES) if byte not in _PRINTED)

BYTE_OF: Final = {chr(byte): byte for byte in _PRINTED} | {chr(NUM_BYTES + i): byte for i, byte in enumerate(_OTHERS)}
"""GPT-2's alphabet of bytes: those that print stand for themselves, the others are U+0100 and what follows."""


class DecodedBytes(NamedTuple):
    """A text, and for each byte the place of the character that it is part of."""

    text: str
    characters: list[int]


def decode_bytes(data: bytes) -> DecodedBytes:
    """UTF-8, in which bytes that are none become U+FFFD: as ``data.decode(errors="replace")`` has it."""
    parts: list[str] = []
    characters: list[int] = []
    length = start = 0
    while start < len(data):
        try:
            text, bad = data[start:].decode(), 0
        except UnicodeDecodeError as error:
            text, bad = data[start : start + error.start].decode(), error.end - error.start
        for character in text:
            characters += [length] * len(character.encode())
            length += 1
        parts.append(text)
        if bad:
            characters += [length] * bad
            length += 1
            parts.append("\ufffd")
        start = len(characters)
    return DecodedBytes("".join(parts), characters)
