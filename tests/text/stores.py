"""Small stores for tests."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rela.text.readers import PairSource
from rela.text.store import CONTENTS, DESCRIPTION_FILE, FORMAT, SIDES, Sentences, SentenceWriter, Split, Store
from rela.text.subwords import Subwords

Lengths = Sequence[int]

# Text to prepare.
ENGLISH = [f"the {noun} is {kind} ." for noun in ("house", "dog", "tree") for kind in ("old", "big", "here", "1 €")]
GERMAN = [f"das {noun} ist {kind} ." for noun in ("Haus", "Tier", "Blatt") for kind in ("alt", "groß", "hier", "1 €")]


def sentences(lengths: Lengths) -> Sentences:
    """Sentences of so many pieces; each piece tells its sentence, so that none can be mistaken for another."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))])
    return Sentences(np.repeat(np.arange(len(lengths), dtype=np.uint32) + 10, lengths), offsets)


def split(source: Lengths, target: Lengths) -> Split:
    """A split in memory."""
    return Split(sentences(source), sentences(target))


def random_split(count: int, *, seed: int = 1) -> Split:
    """Pairs whose lengths are spread like those of real text, and go together."""
    generator = np.random.default_rng(seed)
    source = np.clip(generator.lognormal(3.0, 0.6, count).astype(int), 1, 250)
    target = np.clip((source * generator.normal(1.0, 0.15, count)).astype(int), 1, 250)
    return split(source.tolist(), target.tolist())


def write_store(folder: Path, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> Store:
    """A store with one split, train."""
    folder.mkdir()
    entry: dict[str, int | str] = {"pairs": len(source)}
    for side, ids in zip(SIDES, (source, target), strict=True):
        with SentenceWriter(folder, "train", side, "<u2") as writer:
            writer.write(ids)
        entry |= {f"{side}_tokens": writer.num_tokens, f"{side}_sha256": writer.sha256}
    subwords = Subwords.train([], 0)
    (folder / "tokenizer.json").write_text(subwords.to_json(), encoding="utf-8")
    description = {
        "format": FORMAT,
        "source_language": "en",
        "target_language": "de",
        "dtype": "<u2",
        "vocabulary": dict.fromkeys(SIDES, subwords.size),
        "splits": {"train": entry},
    }
    (folder / DESCRIPTION_FILE).write_text(json.dumps(description), encoding="utf-8")
    return Store.open(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def store_files(*splits: str) -> set[str]:
    """The names of a store's files, with one vocabulary."""
    arrays = {f"{name}.{side}.{content}" for name in splits for side in SIDES for content in CONTENTS}
    texts = {f"{name}.{side}.txt" for name in splits if name != "train" for side in SIDES}
    return arrays | texts | {DESCRIPTION_FILE, "tokenizer.json"}


def write_pair(folder: Path, name: str, source: Sequence[str], target: Sequence[str]) -> PairSource:
    """Two files of lines, name.en and name.de."""
    for language, lines in (("en", source), ("de", target)):
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return PairSource.files(folder / f"{name}.en", folder / f"{name}.de")
