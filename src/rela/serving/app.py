"""The service itself: routes, limits, and what is said when something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.security import HTTPBearer

from rela._version import __version__
from rela.serving.batching import Batcher, QueueFullError, TooLateError
from rela.serving.door import Door
from rela.serving.limits import BodyLimit, Ending, LastAnswers
from rela.serving.looking import most_weights
from rela.serving.measured import Measured
from rela.serving.metrics import CONTENT_TYPE, Metrics
from rela.serving.models import ScoreItem, ScoreKey, ServedModel, ServedModels, TranslateItem, TranslateKey
from rela.serving.page import PAGE, SECURITY_HEADERS
from rela.serving.problems import AT_THE_DOOR, RESPONSES, add_problems
from rela.serving.reference import reference_page
from rela.serving.schemas import (
    Limits,
    ModelsResponse,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    TranslateResponse,
)
from rela.serving.settings import Settings

_Text = TypeVar("_Text")

_OPEN_TO_ALL: Final = ("/", "/docs", "/docs/", "/openapi.json", "/healthz")
TAKES_JSON: Final = ("/translate", "/score")
"""Addresses of all that is to be computed."""
_SHORT: Final = 2000  # letters
_METRICS: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}}


def create_app(settings: Settings, models: ServedModels, batcher: Batcher, metrics: Metrics, ending: Ending) -> FastAPI:
    """The service, ready to be run. ``batcher`` computes with the models."""
    _describe(metrics, batcher)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        batcher.start()
        try:
            yield
        finally:
            await batcher.close()

    app = FastAPI(
        title="rela",
        version=__version__,
        description="Translation with sparse attention: translations, word links, weights of heads, scores of pairs. "
        "Other addresses than these get 404, other methods 405.",
        lifespan=lifespan,
        redirect_slashes=False,  # it would send clients to whatever name they called the service by
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
    )
    closed = [] if settings.token is None else [Depends(_BEARER)]
    add_problems(app)

    def model_named(name: str | None) -> ServedModel:
        if name is None:
            return models.first
        if name not in models.by_name:
            raise HTTPException(404, f"model: expected one of {', '.join(models.by_name)}, got {name!r:.100}")
        return models.by_name[name]

    async def computed(key: Any, items: list[Any], work: int, deadline: float) -> list[Any]:
        try:
            return await batcher.submit(key, items, work=work, timeout=deadline - time.monotonic())
        except QueueFullError as error:
            raise HTTPException(503, str(error), {"Retry-After": str(error.retry_after)}) from None
        except TooLateError:
            raise HTTPException(504, f"not done within {settings.timeout:g} s; ask for less, or later") from None

    @app.post("/translate", dependencies=closed, responses=RESPONSES)
    async def translate(request: TranslateRequest, deadline: _Deadline) -> TranslateResponse:
        """Translate one text or many. Texts of several clients are translated together."""
        texts = [request.text] if isinstance(request.text, str) else request.text
        _check_texts(settings, "text", texts)
        if request.beam > settings.beam:
            raise HTTPException(422, f"beam: expected at most {settings.beam}, got {request.beam}")
        if request.nbest > request.beam:
            raise HTTPException(422, f"nbest: expected at most beam = {request.beam}, got {request.nbest}")
        model = model_named(request.model)
        for choice in request.attention:
            try:
                model.check_head(choice)
            except ValueError as error:
                raise HTTPException(422, str(error)) from None
        pieces = await _counted(model.source_pieces, texts, letters=sum(map(len, texts)))
        work = request.beam * sum(pieces)
        if work > settings.work:
            raise HTTPException(
                413,
                f"text: expected at most {settings.work:,} pieces times beam, got {sum(pieces):,} times "
                f"{request.beam}; send fewer or shorter texts, or a narrower beam",
            )
        heads = tuple(request.attention)
        looks = sum(most_weights(count, heads=request.heads, choices=heads) for count in pieces)
        if looks > settings.looks:
            raise HTTPException(
                413,
                f"heads and attention: expected at most {settings.looks:,} weights to look at, got up to {looks:,}; "
                "ask for fewer heads, or send fewer or shorter texts",
            )
        key = TranslateKey(model.name, request.beam, request.length_penalty, request.nbest, request.alignments)
        items = [TranslateItem(text, request.heads, heads) for text in texts]
        found = await computed(key, items, work, deadline) if texts else []
        metrics.count("rela_sentences_total", len(texts), model=model.name, what="translated")
        return TranslateResponse(model=model.name, translations=found)

    @app.post("/score", dependencies=closed, responses=RESPONSES)
    async def score(request: ScoreRequest, deadline: _Deadline) -> ScoreResponse:
        """How good are sentence pairs? Suspicious words of the targets are marked."""
        for side in ("source", "target"):
            _check_texts(settings, side, [getattr(pair, side) for pair in request.pairs], empty=False)
        model = model_named(request.model)
        if model.scorer is None:
            raise HTTPException(
                422,
                f"{model.name}: expected a model that remembers what a good pair is, got one that does not; teach it "
                "with rela.Scorer.load(MODEL).calibrated(pairs).remember(MODEL)",
            )
        pairs = [(pair.source, pair.target) for pair in request.pairs]
        pieces = await _counted(model.pair_pieces, pairs, letters=sum(len(side) for pair in pairs for side in pair))
        if sum(pieces) > settings.work:
            raise HTTPException(
                413,
                f"pairs: expected at most {settings.work:,} pieces, got {sum(pieces):,}; send fewer or shorter pairs",
            )
        items = [ScoreItem(*pair, count) for pair, count in zip(pairs, pieces, strict=True)]
        found = await computed(ScoreKey(model.name, request.spans), items, sum(pieces), deadline)
        metrics.count("rela_sentences_total", len(pairs), model=model.name, what="scored")
        return ScoreResponse(model=model.name, scores=found)

    @app.get("/models", dependencies=closed, responses=AT_THE_DOOR)
    async def what_there_is() -> ModelsResponse:
        """The models that there are, and what a request may have."""
        limits = Limits(**{name: getattr(settings, name) for name in Limits.model_fields})
        return ModelsResponse(models=[model.info() for model in models.by_name.values()], limits=limits)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the service answers."""
        return {"status": "ok"}

    @app.get("/metrics", dependencies=closed, responses=AT_THE_DOOR | _METRICS, response_class=Response)
    async def read_metrics() -> Response:
        """For Prometheus. Of several workers, each has numbers of its own."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(PAGE, headers=SECURITY_HEADERS)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def reference() -> Response:
        return HTMLResponse(reference_page(app.openapi()), headers=SECURITY_HEADERS)

    @app.get("/docs/", include_in_schema=False)
    async def reference_below() -> Response:
        return RedirectResponse("../docs")

    _describe_limits(app, settings)
    _add_middleware(app, settings, metrics, ending)
    del translate, score, what_there_is, healthz, read_metrics, page, reference, reference_below  # routes know them
    return app


def _describe_limits(app: FastAPI, settings: Settings) -> None:
    """Those that the form of a request does not know."""
    fields = app.openapi()["components"]["schemas"]["TranslateRequest"]["properties"]
    fields["beam"]["maximum"] = fields["nbest"]["maximum"] = settings.beam


def _describe(metrics: Metrics, batcher: Batcher) -> None:
    metrics.describe("rela_requests_total", "Requests by route, method and status.")
    metrics.describe("rela_request_seconds", "Time from a request to its answer.")
    metrics.describe("rela_sentences_total", "Sentences that were translated, and pairs that were scored.")
    metrics.describe("rela_queue_items", "Sentences that wait.")
    metrics.describe("rela_batches", "Batches that were computed.")
    metrics.describe("rela_batched_items", "Sentences in them.")
    metrics.gauge("rela_queue_items", lambda: batcher.num_waiting)
    metrics.counter("rela_batches", lambda: batcher.num_batches)
    metrics.counter("rela_batched_items", lambda: batcher.num_items)


# For the description alone: the token is asked for at the door.
_BEARER: Final = HTTPBearer(auto_error=False, description="The token that the service was started with.")


async def _deadline(request: Request) -> float:
    return request.state.deadline


_Deadline = Annotated[float, Depends(_deadline)]


async def _counted(count: Callable[[list[_Text]], list[int]], texts: list[_Text], *, letters: int) -> list[int]:
    """Pieces of texts. Short ones are counted at once: another thread would take longer to begin."""
    return count(texts) if letters <= _SHORT else await asyncio.to_thread(count, texts)


def _check_texts(settings: Settings, name: str, texts: list[str], *, empty: bool = True) -> None:
    if len(texts) > settings.sentences:
        raise HTTPException(413, f"{name}: expected at most {settings.sentences} sentences, got {len(texts)}")
    for place, text in enumerate(texts):
        if len(text) > settings.characters:
            raise HTTPException(
                413, f"{name} {place}: expected at most {settings.characters:,} characters, got {len(text):,}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise HTTPException(422, f"{name} {place}: expected text, got half a character (a lone surrogate)")
        if not empty and not text.strip():
            raise HTTPException(422, f"{name} {place}: expected text, got nothing but blanks")


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics, ending: Ending) -> None:
    """What is added last comes first: all requests are counted, and all answers say whose pages may read them."""
    app.add_middleware(BodyLimit, limit=settings.body, seconds=settings.timeout, ending=ending)
    app.add_middleware(
        Door, hosts=settings.hosts, token=settings.token, open_to_all=_OPEN_TO_ALL, takes_json=TAKES_JSON
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    routes = {path for route in app.routes if (path := getattr(route, "path", None)) is not None}
    app.add_middleware(LastAnswers, ending=ending)
    app.add_middleware(Measured, metrics=metrics, routes=routes)
