"""The configuration of a training: typed, complete, and strict about what it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from rela.attention.spec import KINDS
from rela.model.config import SIZES, AttentionChoice, Attentions, ModelConfig, Tied
from rela.training.dialect import load_yaml
from rela.training.schedule import RateConfig
from rela.training.settings import check_keys, explain, sections_of

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_SOME_VOCABULARY: Final = 100  # the real one is known when the store is open


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the configuration."""


class ModelSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model. Sizes that are not given come from ``size``; ``attention`` may differ from kind to kind."""

    size: str = "base"
    dim: int | None = None
    num_heads: int | None = None
    encoder_layers: int | None = None
    decoder_layers: int | None = None
    ffn_dim: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.1
    attention: AttentionChoice = "rela-g"
    tied: Tied | None = None

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"size: expected one of {', '.join(SIZES)}, got {self.size!r}")
        self._resolve(_SOME_VOCABULARY, _SOME_VOCABULARY, joint=True)  # sizes that do not fit are found now

    def resolve(self, source_vocabulary: int, target_vocabulary: int, joint: bool) -> ModelConfig:
        """The model's own configuration, for the vocabularies at hand."""
        if self.tied == "all" and not joint:  # also if they happen to have the same size
            raise ValueError(
                "model.tied: expected 'target' or 'none' for separate vocabularies, got 'all'; or prepare the text "
                "with one joint vocabulary"
            )
        try:
            return self._resolve(source_vocabulary, target_vocabulary, joint=joint)
        except ValueError as error:
            raise ValueError(f"model.{error}") from None

    def _resolve(self, source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> ModelConfig:
        given = {name: getattr(self, name) for name in SIZES["base"]}
        sizes = SIZES[self.size] | {name: value for name, value in given.items() if value is not None}
        return ModelConfig(
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            **sizes,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            attention=to_attentions(self.attention),
            tied=self.tied or ("all" if joint else "target"),
        )


def to_attentions(choice: AttentionChoice) -> Attentions:
    """One attention for all kinds, or a mapping with one for each."""
    if isinstance(choice, dict) and "name" not in choice:
        unknown = sorted(set(choice) - set(KINDS))
        if unknown:
            raise ValueError(
                f"attention: expected a name, `name` with options, or encoder, decoder and cross; got {unknown[0]!r}"
            )
        try:
            return msgspec.convert(choice, Attentions)
        except msgspec.ValidationError as error:
            raise ValueError(f"attention.{explain(error, choice, Attentions)}") from None
    return Attentions.everywhere(choice)


class BatchSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Batches: ``tokens`` go through the model at once, and updates are made of ``update_tokens``."""

    tokens: int = 4096
    update_tokens: int = 25_000
    max_pieces: int = 256
    subword_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tokens", "update_tokens", "max_pieces"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.update_tokens < self.tokens:
            raise ValueError(
                f"update_tokens: expected at least tokens {self.tokens}, got {self.update_tokens}; an update is made "
                "of whole batches, so lower tokens too"
            )
        if not 0 <= self.subword_dropout < 1:
            raise ValueError(f"subword_dropout: expected a probability below 1, got {self.subword_dropout}")


class SpoilingSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pairs that are spoiled on purpose, for scorers: heads learn to attend to nothing where nothing fits.

    Of each batch a ``share`` of the targets is spoiled in one of these ways: ``shuffle``, the target of another pair;
    ``span``, a span of words of another target in the place of as many. Spoiled words are predicted only if they are
    ``learned``; rows of cross-attention that see them get ``null_loss`` times a loss that is 0 where all weights are.
    All of it begins when a share ``begin`` of the budget is spent: a model that is told to attend to nothing before it
    has learned to attend never will.
    """

    share: float = 0.0
    kinds: tuple[Literal["shuffle", "span"], ...] = ("shuffle", "span")
    learned: bool = False
    null_loss: float = 0.0
    begin: float = 0.4

    def __post_init__(self) -> None:
        for name in ("share", "begin"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 0 or more and less than 1, got {getattr(self, name)}")
        if not self.null_loss >= 0:
            raise ValueError(f"null_loss: expected 0 or more, got {self.null_loss}")
        if not self.kinds:
            raise ValueError("kinds: expected shuffle, span or both, got none; set share to 0 to spoil nothing")
        if self.share > 0 and not self.learned and self.null_loss == 0:
            raise ValueError(
                "share: expected learned: true or a null_loss above 0 as well, or nothing is learned from it"
            )


class SparsitySection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wanted share of zeros among the weights of cross-attention; ``weight`` times the squared distance is a loss."""

    target: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.target is not None and not 0 <= self.target <= 1:
            raise ValueError(f"target: expected a rate from 0 to 1, or null, got {self.target}")
        if not self.weight >= 0:
            raise ValueError(f"weight: expected 0 or more, got {self.weight}")


class OptimizerSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Adam."""

    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 0 or more and less than 1, got {getattr(self, name)}")
        for name in ("eps", "weight_decay", "clip"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")


class BudgetSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When training ends: with the first update that reaches one of these."""

    steps: int | None = None
    tokens: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.steps, self.tokens, self.epochs) if value is not None]
        if not given:
            raise ValueError("expected steps, tokens or epochs, got none; training would never end")
        if min(given) < 1:
            raise ValueError(f"expected at least 1, got {min(given)}")


class ValidationSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Validation every so many updates; early stopping after ``patience`` of them without a better value."""

    split: str = "dev"
    every: int = 1000
    bleu: bool = True
    max_sentences: int | None = None
    metric: Literal["loss", "bleu"] = "loss"
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every: expected at least 1 update, got {self.every}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience: expected at least 1 validation, or none at all, got {self.patience}")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise ValueError(f"max_sentences: expected at least 1, got {self.max_sentences}")
        if self.metric == "bleu" and not self.bleu:
            raise ValueError("metric: expected 'loss', since bleu is false, got 'bleu'")


class CheckpointSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checkpoints every so many updates; the last ones and the best are kept. The model is the average of some.

    One more is made whenever a validation is the best so far; averages leave it out.
    """

    every: int = 1000
    keep_last: int = 5
    average: int = 5

    def __post_init__(self) -> None:
        for name in ("every", "keep_last", "average"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.average > self.keep_last:
            raise ValueError(f"average: expected at most keep_last {self.keep_last}, got {self.average}")


class DivergenceSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a training counts as failed.

    The loss is not a number ``max_skipped`` times in a row; or its mean over ``window`` updates rises by
    ``max_rise`` nats above the lowest such mean; or ``patience`` updates did not bring it down by ``min_drop``; or
    ``stuck_after`` updates did not bring it that far below the loss of guessing pieces by how frequent they are.
    """

    window: int = 100
    max_rise: float = 2.0
    patience: int = 2000
    min_drop: float = 0.5
    stuck_after: int = 10_000
    max_skipped: int = 5

    def __post_init__(self) -> None:
        for name in ("window", "max_skipped"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        for name in ("max_rise", "min_drop"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        for name in ("patience", "stuck_after"):
            if getattr(self, name) <= self.window:
                raise ValueError(f"{name}: expected more updates than window {self.window}, got {getattr(self, name)}")


class LogSection(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written down while training."""

    every: int = 50
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every: expected at least 1 update, got {self.every}")


class TrainConfig(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole training."""

    store: str
    split: str = "train"
    seed: int = 1
    model: ModelSection = msgspec.field(default_factory=ModelSection)
    batch: BatchSection = msgspec.field(default_factory=BatchSection)
    optimizer: OptimizerSection = msgspec.field(default_factory=OptimizerSection)
    rate: RateConfig = msgspec.field(default_factory=RateConfig)
    spoiling: SpoilingSection = msgspec.field(default_factory=SpoilingSection)
    sparsity: SparsitySection = msgspec.field(default_factory=SparsitySection)
    budget: BudgetSection
    validation: ValidationSection = msgspec.field(default_factory=ValidationSection)
    checkpoints: CheckpointSection = msgspec.field(default_factory=CheckpointSection)
    divergence: DivergenceSection = msgspec.field(default_factory=DivergenceSection)
    log: LogSection = msgspec.field(default_factory=LogSection)

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed: expected a number from 0 to 2**63 - 1, got {self.seed}")


class OverrideError(ValueError):
    """What was given to ``--set`` is wrong, not the file."""


def load_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a YAML configuration and apply overrides of the form ``a.b=c``, whose values are YAML too."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a configuration, there is no such file{_shipped(path.name)}")
    try:
        text = path.read_text(encoding="utf-8")
        data = load_yaml(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected YAML, got {' '.join(str(error).split())}") from None
    if not overrides or not isinstance(data, dict):
        return to_config(data, str(path))
    for override in overrides:
        _apply(data, override)
    try:
        return to_config(data, "--set")
    except ValueError as error:
        to_config(load_yaml(text), str(path))  # raises if the file is at fault
        raise OverrideError(str(error)) from None


def _shipped(name: str) -> str:
    """Where the configurations lie that came with the package: inside it, or beside the sources."""
    for folder in (_PACKAGE / "configs", _PACKAGE.parents[1] / "configs"):
        if names := sorted(path.name for path in folder.glob("*.yaml")):
            if name in names:
                return f"; one of that name came with rela: {folder / name}"
            return f"; those that came with rela are in {folder}: {', '.join(names)}"
    return ""


def to_config(data: Mapping[str, Any], where: str) -> TrainConfig:
    """Check plain data and make it a configuration; errors name the place."""
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] (it may come from a file)
        raise ValueError(f"{where}: expected a mapping of settings, got {type(data).__name__}")
    check_keys(data, TrainConfig, where)
    sections = sections_of(TrainConfig)
    # A section whose lines are all comments is None in YAML.
    given = {key: value for key, value in data.items() if not (value is None and key in sections)}
    try:
        return msgspec.convert(given, TrainConfig)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {explain(error, given, TrainConfig)}") from None


def dump_config(config: TrainConfig) -> str:
    """The configuration as YAML, complete."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False, allow_unicode=True)


def _apply(data: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise OverrideError(f"--set: expected a.b=value, got {override!r}")
    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        raise OverrideError(f"--set {path}: expected a YAML value, got {text!r}") from None
    for place, key in enumerate(keys[:-1], 1):
        if data.get(key) is None:
            data[key] = {}
        if not isinstance(data[key], dict):
            whole = ".".join(keys[:place])
            raise OverrideError(
                f"--set {path}: expected settings in `{whole}`, got {data[key]!r}; set `{whole}` as a whole"
            )
        data = data[key]
    data[keys[-1]] = value
