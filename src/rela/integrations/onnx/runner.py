"""Translate with an exported model: onnxruntime, tokenizers and numpy are all it takes.

`rela export MODEL --onnx DIR` puts a copy of this file into DIR, which runs where rela and torch are not installed:

    python DIR/translate.py < news.en > news.de
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

FORMAT: Final = "rela-onnx-1"
CONFIG_FILE: Final = "config.json"
ENCODER_FILE: Final = "encoder.onnx"
DECODER_FILE: Final = "decoder.onnx"

_KEYS: Final = ("layers", "heads", "head_dim", "tokenizers", "files")  # of the config, as far as they are read here

PAD: Final = 0
BOS: Final = 1
EOS: Final = 2
_SPECIAL: Final = (PAD, BOS, EOS)

MAX_RATIO: Final = 2
MAX_EXTRA: Final = 20
"""A translation has at most ``MAX_RATIO`` times as many tokens as the source has pieces, and ``MAX_EXTRA`` more."""
MAX_SOURCE: Final = 1024
_BATCH_PLACES: Final = 2048  # source places in a batch, times beams
_WINDOW: Final = 1024  # lines of a text that are translated at a time

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Weights:
    """The cross-attention of a translation.

    Attributes:
        values: ``[layers, heads, target, source]``; a row for each piece of the translation that was predicted, its end
            among them, and a column for each piece of the source, its end among them.
        source: the source's pieces as text, its end last.
        target: the translation's.
    """

    values: Floats
    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class Translation:
    """A translated sentence.

    Attributes:
        text: the translation.
        score: its log-probability over GNMT's length penalty; 0 for an empty line.
        log_probability: the same without the penalty.
        finished: False if it was cut off at the greatest length.
        truncated: True if the source was too long and its end was left out.
        attention: the weights of cross-attention, if asked for; without rows and columns for an empty line.
        alternatives: further hypotheses, best first (``nbest`` counts this one too).
    """

    text: str
    score: float
    log_probability: float
    finished: bool = True
    truncated: bool = False
    attention: Weights | None = None
    alternatives: tuple[Translation, ...] = ()


class _Hypothesis(NamedTuple):
    pieces: list[int]
    log_probability: float
    score: float
    finished: bool
    weights: Floats | None  # [layers, heads, T, S], the source's padding among S


class OnnxTranslator:
    """An exported model that translates.

    >>> translator = OnnxTranslator.load("exported")
    >>> translator.translate(["A dog runs."], beam=4)[0].text
    """

    def __init__(self, folder: str | os.PathLike[str], threads: int | None = None) -> None:
        where = Path(folder)
        self.config = _read_config(where)
        _check_files(where, self.config["files"])
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        if threads is not None:
            if threads < 1:
                raise ValueError(f"threads: expected at least 1, got {threads}")
            options.intra_op_num_threads = threads
        self._encoder, self._decoder = (_session(where / name, options) for name in (ENCODER_FILE, DECODER_FILE))
        names = self.config["tokenizers"]
        self._source = _tokenizer(where / names["source"])
        self._target = self._source if names["source"] == names["target"] else _tokenizer(where / names["target"])

    @classmethod
    def load(cls, folder: str | os.PathLike[str], threads: int | None = None) -> OnnxTranslator:
        """Read a folder that `rela export --onnx` wrote; ``threads`` of the computations, None: all cores."""
        return cls(folder, threads)

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam: int = 4,
        length_penalty: float = 0.6,
        nbest: int = 1,
        max_length: int | None = None,
        max_source: int = MAX_SOURCE,
        attention: bool = False,
    ) -> list[Translation]:
        """Translate sentences; ``beam=1`` is greedy search. ``attention`` adds the weights of cross-attention."""
        texts = _checked(sentences)
        for name, value in (("beam", beam), ("nbest", nbest), ("max_source", max_source)):
            _check_count(name, value)
        if max_length is not None:
            _check_count("max_length", max_length)
        if nbest > beam:
            raise ValueError(f"nbest: expected 1 to beam = {beam}, got {nbest}")
        if not 0 <= length_penalty <= 10:
            raise ValueError(f"length_penalty: expected 0 to 10, got {length_penalty}")
        ids = [encoding.ids for encoding in self._source.encode_batch(texts, add_special_tokens=False)]
        empty = Translation("", 0.0, 0.0, attention=self._no_weights() if attention else None)
        found = [replace(empty, alternatives=(empty,) * (nbest - 1))] * len(ids)
        waiting = [place for place, text in enumerate(texts) if text.strip()]
        for group in _groups([min(len(ids[place]), max_source) for place in waiting], beam):
            places = [waiting[item] for item in group]
            rows = [[*ids[place][:max_source], EOS] for place in places]
            search = _Search(self, _padded(rows), beam, length_penalty, max_length, attention=attention)
            for place, row, hypotheses in zip(places, rows, search.run(), strict=True):
                truncated = len(ids[place]) > max_source
                best = [self._translation(one, row, truncated) for one in hypotheses[:nbest]]
                found[place] = replace(best[0], alternatives=tuple(best[1:]))
        return found

    def encode(self, source: Ids) -> tuple[Floats, Floats]:
        """Ids ``[B, S]`` to projected keys and values of every decoder layer, ``[L, B, H, S, d]``."""
        found: Any = self._encoder.run(None, {"source": source})
        return found[0], found[1]

    def step(self, names: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
        """One step of the decoder; only the outputs that are named are computed."""
        found: Any = self._decoder.run(list(names), feeds)
        return found

    def _no_weights(self) -> Weights:
        return Weights(np.zeros((self.config["layers"], self.config["heads"], 0, 0), np.float32), (), ())

    def _translation(self, found: _Hypothesis, source: list[int], truncated: bool) -> Translation:
        kept = [piece for piece in found.pieces if piece not in _SPECIAL]
        weights = None
        if found.weights is not None:
            target = [*found.pieces, EOS] if found.finished else found.pieces
            weights = Weights(
                found.weights[..., : len(source)],
                *(
                    tuple(str(tokenizer.id_to_token(piece)) for piece in pieces)
                    for tokenizer, pieces in ((self._source, source), (self._target, target))
                ),
            )
        text = self._target.decode(kept, skip_special_tokens=False)
        return Translation(text, found.score, found.log_probability, found.finished, truncated, weights)


class _Search:
    """Beam search of a batch: for each sentence that is not done, ``beam`` rows."""

    def __init__(
        self,
        model: OnnxTranslator,
        source: Ids,
        beam: int,
        length_penalty: float,
        max_length: int | None,
        *,
        attention: bool,
    ) -> None:
        self.model, self.source, self.beam, self.length_penalty = model, source, beam, length_penalty
        lengths = (source != PAD).sum(1) - 1
        self.longest = [MAX_RATIO * int(n) + MAX_EXTRA if max_length is None else max_length for n in lengths]
        self.alive = list(range(len(source)))
        self.found: list[list[_Hypothesis]] = [[] for _ in self.alive]
        self.keys, self.values = model.encode(source)
        layers, heads, size = (model.config[name] for name in ("layers", "heads", "head_dim"))
        rows = len(source) * beam
        self.past = [np.zeros((layers, rows, heads, 0, size), np.float32) for _ in range(2)]
        self.scores = np.full((len(source), beam), -np.inf, np.float32)
        self.scores[:, 0] = 0  # a sentence's beams are all alike at first: only one may go on
        self.tokens = np.full((rows, 1), BOS, np.int64)
        self.weights = np.zeros((rows, layers, heads, 0, source.shape[1]), np.float32) if attention else None

    @property
    def length(self) -> int:
        """Tokens so far, BOS not among them."""
        return self.tokens.shape[1] - 1

    def run(self) -> list[list[_Hypothesis]]:
        """The hypotheses of each sentence, best first; those that were cut off come last."""
        while self.alive:
            self.advance()
        return [sorted(found, key=lambda one: (not one.finished, -one.score)) for found in self.found]

    def advance(self) -> None:
        """One more token for every row."""
        log_p = self._log_probabilities()  # [rows, V]
        log_p[:, [PAD, BOS]] = -np.inf
        beam, count = self.beam, len(self.alive)
        # A row can end in one way only, so of each one more than `beam`, and of all twice `beam`, leave enough.
        values, indices = _best(log_p, min(beam + 1, log_p.shape[1]))
        totals = (self.scores[:, :, None] + values.reshape(count, beam, -1)).reshape(count, -1)
        best, places = _best(totals, min(2 * beam, totals.shape[1]))
        rows = places // indices.shape[1]
        words = np.take_along_axis(indices.reshape(count, -1), places, 1)
        ends = words == EOS
        self._finish(best, rows, ends)
        self.scores, chosen = _best(np.where(ends, -np.inf, best).astype(np.float32), beam)
        origin = (np.take_along_axis(rows, chosen, 1) + np.arange(count)[:, None] * beam).reshape(-1)
        words = np.take_along_axis(words, chosen, 1).reshape(-1, 1)
        self.tokens = np.concatenate([self.tokens[origin], words], 1)
        self._keep_rows(origin)
        self._leave()

    def _log_probabilities(self) -> Floats:
        names = ["log_probabilities", "new_keys", "new_values"]
        feeds: dict[str, Any] = {
            "tokens": self.tokens[:, -1].reshape(len(self.alive), self.beam),
            "source": self.source,
            "memory_keys": self.keys,
            "memory_values": self.values,
            "past_keys": self.past[0],
            "past_values": self.past[1],
        }
        if self.weights is None:
            log_p, *self.past = self.model.step(names, feeds)
            return log_p
        log_p, keys, values, weights = self.model.step([*names, "cross_attention"], feeds)  # [L, B, H, beam, S]
        self.past = [keys, values]
        now = weights.transpose(1, 3, 0, 2, 4).reshape(len(self.tokens), *self.weights.shape[1:3], 1, -1)
        self.weights = np.concatenate([self.weights, now], 3)
        return log_p

    def _keep_rows(self, rows: NDArray[np.int64]) -> None:
        if self.beam > 1 or len(rows) < self.past[0].shape[1]:
            self.past = [np.take(past, rows, 1) for past in self.past]
            self.weights = None if self.weights is None else self.weights[rows]

    def _finish(self, best: Floats, rows: NDArray[np.int64], ends: NDArray[np.bool_]) -> None:
        """Take up the candidates that end and are among the first ``beam`` of their sentence."""
        ending = ends[:, : self.beam] & np.isfinite(best[:, : self.beam])
        for place, rank in np.argwhere(ending).tolist():
            found = self.found[self.alive[place]]
            if len(found) < self.beam:
                row = place * self.beam + int(rows[place, rank])
                found.append(self._hypothesis(row, float(best[place, rank]), self.length + 1, finished=True))

    def _hypothesis(self, row: int, log_probability: float, length: int, *, finished: bool) -> _Hypothesis:
        weights = None if self.weights is None else self.weights[row]
        score = log_probability / ((5 + length) / 6) ** self.length_penalty
        return _Hypothesis(self.tokens[row, 1:].tolist(), log_probability, score, finished, weights)

    def _leave(self) -> None:
        """Sentences with enough hypotheses, at their greatest length, or with no way to go on leave the batch."""
        staying: list[int] = []
        for place, (sentence, best) in enumerate(zip(self.alive, self.scores[:, 0].tolist(), strict=True)):
            found = self.found[sentence]
            if math.isnan(best):
                raise ValueError(f"expected probabilities of piece {self.length} of a translation, got NaN")
            if len(found) < self.beam and self.length >= self.longest[sentence]:
                for rank, score in enumerate(self.scores[place].tolist()):
                    if len(found) < self.beam and score > -math.inf:
                        row = place * self.beam + rank
                        found.append(self._hypothesis(row, score, self.length, finished=False))
            elif len(found) < self.beam and best > -math.inf:
                staying.append(place)
        if len(staying) == len(self.alive):
            return
        self.alive = [self.alive[place] for place in staying]
        rows = (np.array(staying, np.int64)[:, None] * self.beam + np.arange(self.beam)).reshape(-1)
        self.source, self.scores, self.tokens = self.source[staying], self.scores[staying], self.tokens[rows]
        self.keys, self.values = self.keys[:, staying], self.values[:, staying]
        self._keep_rows(rows)


def _best(scores: Floats, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """The largest of each row and where they are, largest first."""
    places = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    values = np.take_along_axis(scores, places, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(values, order, 1), np.take_along_axis(places, order, 1)


def _groups(lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
    """Places of sentences of like length, longest first."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        count = max(1, _BATCH_PLACES // ((lengths[order[start]] + 1) * beam))
        yield order[start : start + count]
        start += count


def _padded(rows: Sequence[Sequence[int]]) -> Ids:
    found = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def _checked(sentences: Iterable[str]) -> list[str]:
    """As a list: they may come one after the other, once."""
    if isinstance(sentences, str):
        raise TypeError("sentences: expected a list of strings, got one string; put it into a list")
    texts = list(sentences)
    for place, text in enumerate(texts):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"sentences: expected strings, got {type(text).__name__} as number {place + 1}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"sentences: expected text, got half a character (a lone surrogate) in number {place + 1}; read the "
                "file as UTF-8"
            ) from None
    return texts


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name}: expected at least 1, got {value}")


def _check_files(folder: Path, digests: dict[str, str]) -> None:
    """Files of two exports would fit together, and translate into nonsense."""
    for name, expected in digests.items():
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{path}: expected a folder that `rela export --onnx` wrote, got one without it")
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != expected:
            raise ValueError(
                f"{path}: expected the file that {CONFIG_FILE} was written with, got a damaged file or that of another "
                "export; copy the whole folder anew"
            )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    config: Any = None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: expected a folder that `rela export --onnx` wrote, got one without it"
        ) from None
    except ValueError:
        pass  # no JSON has no format either
    found = config.get("format") if isinstance(config, dict) else None
    if found != FORMAT:
        raise ValueError(f"{path}: expected the format {FORMAT}, got {found!r}; export the model with `rela export`")
    if missing := [key for key in _KEYS if key not in config]:
        raise ValueError(f"{path}: expected {', '.join(_KEYS)}, got none for {', '.join(missing)}; export it anew")
    return config


def _session(path: Path, options: Any) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for each kind of damage, none of them public
        raise ValueError(
            f"{path}: expected a model in ONNX, got one that cannot be read ({error}); export it anew"
        ) from None


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises plain exceptions
        raise ValueError(f"{path}: expected a tokenizer, got {error}; export the model anew") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Translate standard input, a sentence a line."""
    parser = argparse.ArgumentParser(description="Translate standard input, a sentence a line, to standard output.")
    parser.add_argument(
        "--model", default=Path(__file__).parent, help="the folder of the model; this file's, if left out"
    )
    parser.add_argument("--beam", type=int, default=4, help="1 is greedy search (default: 4)")
    parser.add_argument("--length-penalty", type=float, default=0.6, help="GNMT's (default: 0.6)")
    parser.add_argument(
        "--max-source", type=int, default=MAX_SOURCE, help=f"pieces of a line; what is beyond is cut ({MAX_SOURCE})"
    )
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--json", action="store_true", help="an object a line, with scores")
    options = parser.parse_args(arguments)
    try:
        translator = OnnxTranslator.load(options.model, options.threads)
        cut = malformed = 0
        for lines, num_malformed in _windows(sys.stdin.buffer):
            malformed += num_malformed
            for found in translator.translate(
                lines, beam=options.beam, length_penalty=options.length_penalty, max_source=options.max_source
            ):
                cut += found.truncated
                row = {
                    "text": found.text,
                    "score": found.score,
                    "finished": found.finished,
                    "truncated": found.truncated,
                }
                line = json.dumps(row, ensure_ascii=False) if options.json else found.text
                sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()
        if cut:
            sys.stderr.write(f"note: {cut:,} lines have more than {options.max_source:,} pieces; their ends are cut\n")
        if malformed:
            sys.stderr.write(
                f"note: {malformed:,} lines are not UTF-8, or have a NUL; U+FFFD takes the place of what is wrong\n"
            )
    except BrokenPipeError:  # nobody reads any more, as after `| head`
        sys.stdout = None
        return 0
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _windows(stream: Any) -> Iterator[tuple[list[str], int]]:
    """Lines of text, so many at a time, and how many of them are not whole: U+FFFD takes the place of what is wrong."""
    lines: list[str] = []
    malformed = 0
    for line in stream:
        data = line.rstrip(b"\r\n")
        text = data.decode("utf-8", errors="replace").replace("\0", "\ufffd")
        malformed += text.encode() != data
        lines.append(text)
        if len(lines) == _WINDOW:
            yield lines, malformed
            lines, malformed = [], 0
    if lines:
        yield lines, malformed


if __name__ == "__main__":
    sys.exit(main())
