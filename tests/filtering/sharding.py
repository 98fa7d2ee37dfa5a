"""Shards of three formats, with good rows and bad ones."""

import gzip
import json
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from tests.filtering.scoring import made_pairs

from rela.filtering.shards import Shard, find_files
from rela.text.readers import PairSource
from rela.text.rows import WINDOW

HEADER = b"number\ten\tde"
SIZES = (5 * WINDOW + 1, 4 * WINDOW, 4 * WINDOW + 700)
ROWS = sum(SIZES)
PROBLEMS = {"bad-record": 3, "empty-target": 1, "invalid-utf8": 1, "too-many-pieces": 1}


def many_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Some pairs, over and over."""
    return list(islice(cycle(made_pairs(300, seed=seed)), count))


def write_shards(folder: Path, sizes: Sequence[int]) -> None:
    """Three formats, packed and not, with `PROBLEMS` in the first, the last and another window."""
    (folder / "deep").mkdir(parents=True)
    rows = [f"{n}\t{source}\t{target}".encode() for n, (source, target) in enumerate(many_pairs(sizes[0], 2))]
    rows[3], rows[len(rows) // 2], rows[-1] = b"no tabs", b"1\t\xff\ttext", b"7\tthere is\t "
    (folder / "a.tsv.gz").write_bytes(gzip.compress(b"".join(row + b"\r\n" for row in [HEADER, *rows])))
    pairs: list[tuple[str, str | None]] = [*many_pairs(sizes[1] - 1, 3), ("dog", None)]
    columns = {"en": [source for source, _ in pairs], "de": [target for _, target in pairs], "n": [*range(len(pairs))]}
    pq.write_table(pa.table(columns), folder / "c.parquet", row_group_size=3000)
    objects = [{"translation": {"en": s, "de": t}, "id": n} for n, (s, t) in enumerate(many_pairs(sizes[2], 4))]
    lines = [json.dumps(found, ensure_ascii=False) for found in objects]
    lines[5], lines[-2] = "{", json.dumps({"translation": {"en": "dog " * 1100, "de": "Hund"}})
    (folder / "deep" / "b.jsonl.zst").write_bytes(zstandard.compress("".join(f"{line}\n" for line in lines).encode()))


def find_shards(folder: str, output: Path) -> list[Shard]:
    """What `write_shards` wrote."""

    def source(url: str) -> PairSource:
        if url.endswith(".tsv.gz"):
            return PairSource.tsv(url, columns=(2, 3))
        if url.endswith(".parquet"):
            return PairSource.parquet(url, keys=("en", "de"))
        return PairSource.jsonl(url, keys=("translation.en", "translation.de"))

    return [Shard(name, size, source(url), version) for name, url, size, version in find_files([folder], str(output))]
