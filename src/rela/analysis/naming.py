"""Names of models that stand side by side, and groups of those that differ in their seed alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rela.model.config import ModelConfig
from rela.model.directory import Languages, find_model_folder
from rela.model.opening import describe_model

_TRAITS: Final[Sequence[Callable[[ModelConfig], str]]] = (
    lambda config: f"{config.encoder_layers}+{config.decoder_layers} layers",
    lambda config: f"{config.num_heads} heads",
    lambda config: f"dim {config.dim}",
    lambda config: f"ffn {config.ffn_dim}",
    lambda config: (
        " and ".join(f"{size:,}" for size in dict.fromkeys((config.source_vocabulary, config.target_vocabulary)))
        + " pieces"
    ),
    lambda config: f"dropout {config.dropout:g}",
)
"""What may tell models of one attention apart, the first ones first."""


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """A model of a study: its folder, its name in tables, and the group of those that differ in their seed alone."""

    folder: Path
    name: str
    group: str
    seed: int | None
    attention: str
    languages: Languages
    max_pieces: int | None = None
    """As of :class:`rela.model.seq2seq.Seq2Seq`."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    path: Path
    folder: Path
    config: ModelConfig
    languages: Languages
    seed: int | None
    sort: str
    """The same for models of the same configuration and tokenizers."""
    max_pieces: int | None

    @property
    def attention(self) -> str:
        return self.config.attention.label


def name_models(paths: Sequence[Path]) -> list[NamedModel]:
    """Names that tell models apart: the attention's, with what differs, the seed or the folder where it must be.

    Models of one configuration, with the same tokenizers, are a group, unless two have the same seed: those are of one
    training, and differ in something else. Of models that do not know their seed, other seeds are taken for granted.
    """
    found = [_find(path) for path in paths]
    repeated = [folder for folder, count in Counter(model.folder.resolve() for model in found).items() if count > 1]
    if repeated:
        raise ValueError(f"expected different models, got {repeated[0]} more than once; give each once")
    _check_directions(found)
    groups = _group_names(found)
    sizes = Counter(groups)
    return [
        NamedModel(
            folder=model.folder,
            name=group if sizes[group] == 1 else f"{group} {_own_name(model)}",
            group=group,
            seed=model.seed,
            attention=model.attention,
            languages=model.languages,
            max_pieces=model.max_pieces,
        )
        for model, group in zip(found, groups, strict=True)
    ]


def _find(path: Path) -> _Found:
    folder = find_model_folder(path)
    config, languages, seed, sort, most = describe_model(folder)
    return _Found(path=path, folder=folder, config=config, languages=languages, seed=seed, sort=sort, max_pieces=most)


def _check_directions(found: Sequence[_Found]) -> None:
    for model in found:
        if model.languages != found[0].languages:
            expected, got = found[0].languages, model.languages
            raise ValueError(
                f"{model.path}: expected a model from {expected.source} to {expected.target}, as {found[0].path} is, "
                f"got one from {got.source} to {got.target}; one of the opposite direction is given with --opposite"
            )


def _group_names(found: Sequence[_Found]) -> list[str]:
    """For each model the name of its group."""
    seeds = Counter((model.sort, model.seed) for model in found if model.seed is not None)
    of_one_training = {sort for (sort, _), count in seeds.items() if count > 1}
    found = [replace(m, sort=f"{m.sort} {m.folder}") if m.sort in of_one_training else m for m in found]
    names = {model.sort: model.attention for model in found}
    for trait in _TRAITS:
        for attention in set(names.values()):
            alike = [model for model in found if names[model.sort] == attention]
            if len({trait(model.config) for model in alike}) > 1:
                names |= {model.sort: f"{attention}, {trait(model.config)}" for model in alike}
    taken = Counter(names.values())
    first = {model.sort: model for model in reversed(found)}
    names = {
        sort: name if taken[name] == 1 else f"{name} {_own_name(first[sort], seed=False)}"
        for sort, name in names.items()
    }
    return [names[model.sort] for model in found]


def _own_name(model: _Found, *, seed: bool = True) -> str:
    return f"seed {model.seed}" if seed and model.seed is not None else f"({model.path})"
