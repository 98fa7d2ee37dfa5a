"""The statistics of attention weights from their definitions: plain loops over Python's floats."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rela.alignment.pairs import EncodedPair
from rela.analysis.statistics import Values
from rela.analysis.sums import Sums
from rela.attention.spec import Kind

Row = list[float]


class Query(NamedTuple):
    """What each head gives to the places that one query may see. Of words, too."""

    sentence: int
    place: int
    rows: list[Row]  # [H][places]

    @property
    def layer(self) -> Row:
        """The sum over heads, which is 0 where their mean is."""
        return [math.fsum(weights) for weights in zip(*self.rows, strict=True)]


def piece_queries(weights: Tensor, kind: Kind, pairs: Sequence[EncodedPair]) -> list[Query]:
    """No padding, and in the decoder no future. BOS and EOS count."""
    found: list[Query] = []
    for sentence, pair in enumerate(pairs):
        source, target = len(pair.source.ids) + 1, len(pair.target.ids) + 1
        for query in range(source if kind == "encoder" else target):
            num_keys = query + 1 if kind == "decoder" else source
            rows = [[float(head[query, key]) for key in range(num_keys)] for head in weights[sentence].numpy()]
            found.append(Query(sentence, query, rows))
    return found


def unit_queries(weights: Tensor, kind: Kind, pairs: Sequence[EncodedPair]) -> list[Query]:
    """Weights summed over the pieces of a key's word, averaged over those of a query's. BOS and EOS are words."""
    found: list[Query] = []
    for sentence, pair in enumerate(pairs):
        source = [*with_pieces(pair.source.word_pieces), [len(pair.source.ids)]]
        predicted = [*with_pieces(pair.target.word_pieces), [len(pair.target.ids)]]
        inputs = [[0], *([piece + 1 for piece in word] for word in with_pieces(pair.target.word_pieces))]
        queries = {"encoder": source, "decoder": inputs, "cross": predicted}[kind]
        keys = inputs if kind == "decoder" else source
        for number, query in enumerate(queries):
            seen = keys[: number + 1] if kind == "decoder" else keys
            rows = [
                [math.fsum(float(head[q, k]) for q in query for k in key) / len(query) for key in seen]
                for head in weights[sentence].numpy()
            ]
            found.append(Query(sentence, number, rows))
    return found


def with_pieces(words: list[list[int]]) -> list[list[int]]:
    return [word for word in words if word]


def entropy(distribution: Row) -> float:
    return -math.fsum(p * math.log(p) for p in distribution if p > 0)


def entropy_of_weights(row: Row) -> float:
    mass = math.fsum(map(abs, row))
    return entropy([abs(weight) / mass for weight in row])


def divergence(distributions: list[Row]) -> float:
    """Generalised Jensen-Shannon: the entropy of the mean, less the mean of the entropies."""
    mean = [math.fsum(column) / len(distributions) for column in zip(*distributions, strict=True)]
    return entropy(mean) - math.fsum(map(entropy, distributions)) / len(distributions)


def softened(row: Row, tau: float) -> Row:
    """softmax(weight ** tau), and behind it a place of its own for a row that attends to nothing."""
    if not any(row):
        return [0.0] * len(row) + [1.0]
    powers = [math.copysign(abs(weight) ** tau, weight) if weight else 0.0 for weight in row]
    exponentials = [math.exp(power - max(powers)) for power in powers]
    return [e / math.fsum(exponentials) for e in exponentials] + [0.0]


def diversity(query: Query, taus: Sequence[float]) -> Row:
    if not taus:
        return [divergence(query.rows)]
    return [divergence([softened(row, tau) for row in query.rows]) for tau in taus]


def naive_sums(weights: Tensor, kind: Kind, pairs: Sequence[EncodedPair], taus: Sequence[float]) -> Sums:
    """All that :class:`Sums` has."""
    queries, units = piece_queries(weights, kind, pairs), unit_queries(weights, kind, pairs)
    num_batch, num_heads, num_queries, _ = weights.shape
    null = torch.zeros(num_batch, num_heads, num_queries, dtype=torch.bool)
    for query in queries:
        for head, row in enumerate(query.rows):
            null[query.sentence, head, query.place] = not any(row)
    by_head: list[Row] = []
    distances = np.zeros((num_heads, 21))
    for head in range(num_heads):
        rows, words = [query.rows[head] for query in queries], [unit.rows[head] for unit in units]
        by_head.append(
            [
                sum(weight != 0 for row in rows for weight in row),
                sum(not any(row) for row in rows),
                math.fsum(abs(weight) for row in rows for weight in row),
                math.fsum(entropy_of_weights(row) for row in rows if any(row)),
                math.fsum(abs(row[0]) for row in rows),
                math.fsum(abs(row[-1]) for row in rows),
                sum(weight != 0 for row in words for weight in row),
                sum(not any(row) for row in words),
            ]
        )
        for query in queries:
            for key, weight in enumerate(query.rows[head]):
                distances[head, min(max(key - query.place, -10), 10) + 10] += abs(weight)
    by_layer = [
        sum(weight != 0 for query in queries for weight in query.layer),
        sum(not any(query.layer) for query in queries),
        sum(len(query.layer) for query in queries),
        len(queries),
        sum(len(unit.layer) for unit in units),
        len(units),
    ]
    between = [
        [math.fsum(column) for column in zip(*(diversity(query, taus) for query in level), strict=True)]
        for level in (queries, units)
    ]
    head, layer, distance, level = (
        torch.tensor(np.array(sums), dtype=torch.float64) for sums in (by_head, by_layer, distances, between)
    )
    return Sums(head, layer, distance, level, null)


def naive_values(
    layers: Sequence[Tensor], kind: Kind, pairs: Sequence[EncodedPair], taus: Sequence[float]
) -> dict[str, Values]:
    """The means and shares that a reader sees, of all layers: straight from rows, by no way over sums."""
    each = [_values(weights, kind, pairs, taus) for weights in layers]
    found: dict[str, Values] = {name: np.array([values[name] for values in each], float) for name in each[0]}
    for name in ("sparsity", "null", "mass", "entropy", "sink_first", "sink_last", "sparsity.word", "null.word"):
        known = [[value for value in layer if not math.isnan(value)] for layer in found[name]]
        found[f"{name}.layer"] = np.array([np.mean(layer) if layer else math.nan for layer in known])
        if not name.endswith(".word"):
            found[f"{name}.variance"] = np.array([np.var(layer) if layer else math.nan for layer in known])
    for name in ("diversity.tau", "diversity.tau.word"):
        found[name] = found[name].T  # [tau, layer]
    found["diversity"], found["diversity.word"] = found["diversity.tau"][0], found["diversity.tau.word"][0]
    found["diversity.mean"] = np.mean(found["diversity"])
    found["diversity.tau.mean"] = np.array([np.mean(layers) for layers in found["diversity.tau"]])
    if not taus:
        for name in ("diversity.tau", "diversity.tau.word", "diversity.tau.mean"):
            del found[name]
    return found


def _values(weights: Tensor, kind: Kind, pairs: Sequence[EncodedPair], taus: Sequence[float]) -> dict[str, Any]:
    queries, units = piece_queries(weights, kind, pairs), unit_queries(weights, kind, pairs)
    found: dict[str, Any] = {}
    for head in range(weights.shape[1]):
        rows, words = [query.rows[head] for query in queries], [unit.rows[head] for unit in units]
        total = math.fsum(abs(weight) for row in rows for weight in row)
        shares = {distance: list[float]() for distance in range(-10, 11)}
        for query in queries:
            for key, weight in enumerate(query.rows[head]):
                shares[min(max(key - query.place, -10), 10)].append(abs(weight))
        values = {
            "sparsity": _mean([weight == 0 for row in rows for weight in row]),
            "null": _mean([not any(row) for row in rows]),
            "mass": _mean([math.fsum(map(abs, row)) for row in rows]),
            "entropy": _mean([entropy_of_weights(row) for row in rows if any(row)]),
            "sink_first": math.fsum(abs(row[0]) for row in rows) / total if total else math.nan,
            "sink_last": math.fsum(abs(row[-1]) for row in rows) / total if total else math.nan,
            "sparsity.word": _mean([weight == 0 for row in words for weight in row]),
            "null.word": _mean([not any(row) for row in words]),
            "distance": [math.fsum(share) / total if total else math.nan for share in shares.values()],
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found | {
        "sparsity.layer_attention": _mean([weight == 0 for query in queries for weight in query.layer]),
        "null.layer_attention": _mean([not any(query.layer) for query in queries]),
        "diversity.tau": [_mean(column) for column in zip(*(diversity(query, taus) for query in queries), strict=True)],
        "diversity.tau.word": [
            _mean(column) for column in zip(*(diversity(unit, taus) for unit in units), strict=True)
        ],
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
