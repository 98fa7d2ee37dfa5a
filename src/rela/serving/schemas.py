"""What clients send, and what they get."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

_ONE, _MANY = "<text>", "<texts>"
BRANCHES: Final = frozenset({_ONE, _MANY})
"""Stand in the places of errors, and are of no use to a client."""
_MOST: Final = 99_999  # of small numbers: none is worth repeating that has thousands of digits


def _branch(text: Any) -> str:
    return _MANY if isinstance(text, list) else _ONE


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, data: Any) -> Any:
        """Of what is no field, each would be an error of its own: a large request could have a hundred thousand."""
        if isinstance(data, dict) and (size := len(cast("dict[str, Any]", data))) > len(cls.model_fields):
            raise ValueError(f"expected some of {', '.join(cls.model_fields)}, got {size:,} fields")
        return data


def _with_example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class HeadChoice(_Strict):
    """One head of the model. Layers count from 1, heads from 0."""

    kind: Literal["encoder", "decoder", "cross"] = "cross"
    layer: Annotated[int, Field(ge=1, le=_MOST)]
    head: Annotated[int, Field(ge=0, le=_MOST)]


class TranslateRequest(_Strict):
    """One text or many; a text is a sentence."""

    model_config = _with_example(text=["The dog sleeps.", "A cat sees the house."], beam=4, nbest=2, alignments=True)

    text: Annotated[
        Annotated[str, Tag(_ONE)] | Annotated[list[str], Field(fail_fast=True), Tag(_MANY)], Discriminator(_branch)
    ]
    model: Annotated[str | None, Field(description="A name of GET /models; the first one if left out.")] = None
    beam: Annotated[int, Field(ge=1, le=_MOST, description="1 is greedy search.")] = 4
    length_penalty: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 0.6
    nbest: Annotated[int, Field(ge=1, le=_MOST, description="At most the beam.")] = 1
    alignments: Annotated[bool, Field(description="Links between words.")] = False
    heads: Annotated[bool, Field(description="How often each head of cross-attention attends to nothing.")] = False
    attention: Annotated[
        list[HeadChoice], Field(max_length=64, fail_fast=True, description="The weights of these heads.")
    ] = []


class HeadWeights(BaseModel):
    """The weights of a head between words, and where it attends to nothing. Words beyond a cut are left out."""

    kind: str
    layer: int
    head: int
    queries: list[str]
    keys: list[str]
    weights: list[list[float]]
    null: Annotated[list[bool], Field(description="Queries whose pieces all have no weight at all.")]


class Hypothesis(BaseModel):
    """A translation and its score: the log-probability over GNMT's length penalty."""

    text: str
    score: float
    log_probability: float
    finished: Annotated[bool, Field(description="False if it was cut off at the greatest length.")]


class TranslatedText(Hypothesis):
    """The best translation of a text, and what was asked for beside it."""

    truncated: Annotated[bool, Field(description="True if the text was too long, and its end was left out.")]
    nbest: list[Hypothesis] = []
    source_words: list[str] | None = None
    target_words: list[str] | None = None
    alignment: Annotated[
        list[tuple[int, int]] | None, Field(description="Pairs of a source word and a target word, from 0.")
    ] = None
    null_rates: Annotated[
        list[list[float]] | None,
        Field(description="Of each layer, for each head: the share of null rows. Null if the translation is empty."),
    ] = None
    attention: Annotated[
        list[HeadWeights], Field(description="In the order of the request. Empty if the translation is empty.")
    ] = []


class TranslateResponse(BaseModel):
    """In the order of the texts."""

    model: str
    translations: list[TranslatedText]


class Pair(_Strict):
    """A text and what is said to be its translation."""

    source: Annotated[str, Field(min_length=1)]
    target: Annotated[str, Field(min_length=1)]


class ScoreRequest(_Strict):
    """Pairs to score."""

    model_config = _with_example(pairs=[{"source": "The dog sleeps.", "target": "Der Hund schläft."}], spans=True)

    pairs: Annotated[list[Pair], Field(min_length=1, fail_fast=True)]
    model: str | None = None
    spans: Annotated[bool, Field(description="Mark the suspicious words of targets.")] = True


class SuspiciousSpan(BaseModel):
    """Neighbouring words of the target: their numbers and their characters, the ends excluded."""

    words: tuple[int, int]
    characters: tuple[int, int]
    text: str


class ScoredPair(BaseModel):
    """The scores of a pair; docs/sieve.md has their formulas.

    A pair that cannot be scored has a ``problem``, which says why, and no scores; its quality is 0.
    """

    null_rate: float | None
    null_rate_matching: float | None
    cross_entropy: float | None
    surprise: float | None
    coverage: float | None
    null_run: float | None
    length_ratio: float | None
    quality: float | None
    problem: str | None
    suspicious: list[SuspiciousSpan] | None


class ScoreResponse(BaseModel):
    """In the order of the pairs."""

    model: str
    scores: list[ScoredPair]


class ModelInfo(BaseModel):
    """A model that the service has."""

    name: str
    source_language: str
    target_language: str
    attention: str
    parameters: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    scores: Annotated[bool, Field(description="Whether POST /score knows what a good pair is.")]


class Limits(BaseModel):
    """What a request may have, at most."""

    sentences: Annotated[int, Field(description="Or pairs.")]
    characters: Annotated[int, Field(description="Of each sentence.")]
    body: Annotated[int, Field(description="Bytes.")]
    work: Annotated[int, Field(description="Pieces of its sources times the beam, or pieces of both sides of pairs.")]
    looks: Annotated[int, Field(description="Weights between pieces, where heads or attention ask for them.")]
    timeout: Annotated[float, Field(description="Seconds.")]
    beam: int


class ModelsResponse(BaseModel):
    """The first one is used where none is named."""

    models: list[ModelInfo]
    limits: Limits


class Problem(BaseModel):
    """Why a request was not answered, in one line."""

    detail: str


class FieldProblem(BaseModel):
    """What does not fit, and where: the names and numbers that lead there."""

    loc: list[str | int]
    msg: str
    type: str


class Unfit(Problem):
    """Why a request does not fit, in one line, and for programs."""

    errors: Annotated[list[FieldProblem], Field(description="The first of them, if its form is wrong.")] = []
