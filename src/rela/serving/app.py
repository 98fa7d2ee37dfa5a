"""The service itself: routes, limits, and what is said when something is wrong."""

from __future__ import annotations

import contextlib
import hmac
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rela._version import __version__
from rela.serving.batching import Batcher, QueueFullError, TooLateError
from rela.serving.limits import BodyLimit
from rela.serving.metrics import CONTENT_TYPE, Metrics
from rela.serving.models import ScoreKey, ServedModel, ServedModels, TranslateItem, TranslateKey
from rela.serving.page import PAGE, SECURITY_HEADERS
from rela.serving.reference import reference_page
from rela.serving.schemas import (
    ModelsResponse,
    Problem,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    TranslateResponse,
)
from rela.serving.settings import VARIABLE, Settings

_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is no text."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    404: {"model": Problem, "description": "There is no such model."},
    413: {"model": Problem, "description": "The request is too large."},
    422: {"description": "The request does not fit."},
    503: {"model": Problem, "description": "Too many requests wait; Retry-After says when to try again."},
    504: {"model": Problem, "description": "Not done in time."},
}


def create_app(settings: Settings) -> FastAPI:
    """The service, ready to be run. Models are loaded when it starts."""
    metrics = _described(Metrics())
    state: dict[str, Any] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        models = ServedModels(settings)
        batcher = Batcher(models.compute, queue_items=settings.queue, batch_items=settings.batch)
        state["models"], state["batcher"] = models, batcher
        metrics.gauge("rela_queue_items", lambda: batcher.num_waiting)
        metrics.gauge("rela_batches", lambda: batcher.num_batches)
        metrics.gauge("rela_batched_items", lambda: batcher.num_items)
        batcher.start()
        try:
            yield
        finally:
            await batcher.close()

    app = FastAPI(
        title="rela",
        version=__version__,
        description="Translation with sparse attention: translations, word links, weights of heads, scores of pairs.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.rela = state
    _add_middleware(app, settings, metrics)
    allowed = [] if settings.token is None else [Depends(_guard(settings.token))]
    app.add_exception_handler(400, _no_text)

    def model_named(name: str | None) -> ServedModel:
        models: ServedModels = state["models"]
        if name is None:
            return models.first
        if name not in models.by_name:
            raise HTTPException(404, f"model: expected one of {', '.join(models.by_name)}, got {name!r}")
        return models.by_name[name]

    async def computed(key: Any, items: list[Any]) -> list[Any]:
        batcher: Batcher = state["batcher"]
        try:
            return await batcher.submit(key, items, timeout=settings.timeout)
        except QueueFullError as error:
            raise HTTPException(503, str(error), {"Retry-After": str(error.retry_after)}) from None
        except TooLateError as error:
            raise HTTPException(504, str(error)) from None

    @app.post("/translate", dependencies=allowed, responses=_ERRORS)
    async def translate(request: TranslateRequest) -> TranslateResponse:
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
        key = TranslateKey(model.name, request.beam, request.length_penalty, request.nbest)
        wanted = request.alignments, request.heads, tuple(request.attention)
        found = await computed(key, [TranslateItem(text, *wanted) for text in texts]) if texts else []
        metrics.count("rela_sentences_total", len(texts), model=model.name, what="translated")
        return TranslateResponse(model=model.name, translations=found)

    @app.post("/score", dependencies=allowed, responses=_ERRORS)
    async def score(request: ScoreRequest) -> ScoreResponse:
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
        found = await computed(ScoreKey(model.name, request.spans), pairs)
        metrics.count("rela_sentences_total", len(pairs), model=model.name, what="scored")
        return ScoreResponse(model=model.name, scores=found)

    @app.get("/models", dependencies=allowed, responses={401: _ERRORS[401]})
    async def models() -> ModelsResponse:
        """The models that there are, and what a request may have."""
        served: ServedModels = state["models"]
        limits = {
            name: float(getattr(settings, name)) for name in ("sentences", "characters", "body", "timeout", "beam")
        }
        return ModelsResponse(models=[model.info() for model in served.by_name.values()], limits=limits)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the service answers."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def read_metrics() -> Response:
        """For Prometheus. Of several workers, each has numbers of its own."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(PAGE, headers=SECURITY_HEADERS)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def reference() -> Response:
        return HTMLResponse(reference_page(app.openapi()), headers=SECURITY_HEADERS)

    del translate, score, models, healthz, read_metrics, page, reference  # routes know them
    return app


def from_environment() -> FastAPI:
    """For worker processes, which uvicorn starts by the name of this function."""
    return create_app(Settings.from_json(os.environ[VARIABLE]))


def _described(metrics: Metrics) -> Metrics:
    metrics.describe("rela_requests_total", "Requests by route, method and status.")
    metrics.describe("rela_request_seconds", "Time from a request to its answer.")
    metrics.describe("rela_sentences_total", "Sentences that were translated, and pairs that were scored.")
    metrics.describe("rela_queue_items", "Sentences that wait.")
    metrics.describe("rela_batches", "Batches that were computed.")
    metrics.describe("rela_batched_items", "Sentences in them.")
    return metrics


_BEARER: Final = HTTPBearer(auto_error=False, description="The token that the service was started with.")


async def _no_text(request: Request, error: Exception) -> Response:
    """What FastAPI says of a body that is not UTF-8 tells nobody what to do; it raises no other 400."""
    del request, error
    return JSONResponse({"detail": "expected JSON in UTF-8, got bytes that are no text"}, 400)


def _guard(token: str) -> Callable[..., None]:
    def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(
                401, "expected the service's token as `Authorization: Bearer TOKEN`", {"WWW-Authenticate": "Bearer"}
            )

    return check


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


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    app.add_middleware(BodyLimit, limit=settings.body)

    async def measured(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        began, status = time.monotonic(), 500
        try:
            response = await call(request)
            status = response.status_code
        finally:
            route = getattr(request.scope.get("route"), "path", "other")
            metrics.count("rela_requests_total", route=route, method=request.method, status=str(status))
            metrics.observe("rela_request_seconds", time.monotonic() - began, route=route)
        return response

    app.middleware("http")(measured)
