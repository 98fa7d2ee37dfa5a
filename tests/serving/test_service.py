"""The service over HTTP: what it answers, what it refuses, and how it ends."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.served import Running, post, served

import rela

TOKEN = "a secret"
SOURCES = ["one two three!", "four!", "seven eight one two!", "five five six!"]


class TestTranslate:
    def test_as_the_translator_does(self, running: Running):
        expected = rela.Translator.load(running.models["rela-g"]).translate(SOURCES, beam=3, nbest=2)
        found = running.post("/translate", {"text": SOURCES, "beam": 3, "nbest": 2}).json()
        assert found["model"] == "rela-g"
        for ours, theirs in zip(expected, found["translations"], strict=True):
            assert theirs["text"] == ours.text
            assert theirs["score"] == pytest.approx(ours.score, abs=1e-5)
            assert [one["text"] for one in theirs["nbest"]] == [ours.text, *(one.text for one in ours.alternatives)]

    def test_one_text_another_model_and_nothing(self, running: Running):
        found = running.post("/translate", {"text": "four!", "model": "other"}).json()
        [expected] = rela.Translator.load(running.models["softmax"]).translate(["four!"])
        assert found["model"] == "other"
        assert found["translations"][0]["text"] == expected.text
        assert running.post("/translate", {"text": []}).json()["translations"] == []
        assert running.post("/translate", {"text": " "}).json()["translations"][0]["text"] == ""

    def test_links_and_weights(self, running: Running):
        heads: list[dict[str, Any]] = [{"layer": 1, "head": 1}, {"kind": "encoder", "layer": 1, "head": 0}]
        wanted = {"text": "one two!", "alignments": True, "heads": True, "attention": heads}
        [found] = running.post("/translate", wanted).json()["translations"]
        translator = rela.Translator.load(running.models["rela-g"])
        [expected] = translator.translate(["one two!"], align=True)
        [seen] = rela.inspect(translator, ["one two!"], [expected.text])
        assert found["source_words"] == ["one", "two", "!"]
        assert [tuple(link) for link in found["alignment"]] == list(expected.alignment or ())
        words = seen.words("cross").weights[0, 1]
        assert found["attention"][0]["weights"] == [[pytest.approx(one, abs=1e-4) for one in row] for row in words]
        assert found["attention"][1]["queries"] == found["source_words"]
        assert found["null_rates"] == [[pytest.approx(one, abs=1e-4) for one in seen.null("cross").mean(-1)[0]]]


class TestScore:
    def test_as_the_scorer_does(self, running: Running):
        pairs = [("one two!", "eins zwei!"), ("one two!", "acht sieben acht sieben!")]
        asked = {"pairs": [{"source": source, "target": target} for source, target in pairs]}
        found = running.post("/score", asked).json()["scores"]
        expected = rela.Scorer.load(running.models["rela-g"]).score(pairs, spans=True)
        for ours, theirs in zip(expected, found, strict=True):
            assert theirs["quality"] == pytest.approx(ours.quality, abs=1e-4)
            assert theirs["null_rate"] == pytest.approx(ours.null_rate, abs=1e-4)
            marked = {word for span in theirs["suspicious"] for word in range(*span["words"])}
            assert marked == set(ours.suspicious or ())

    def test_a_model_that_does_not_know(self, running: Running):
        found = running.post("/score", {"pairs": [{"source": "a", "target": "b"}], "model": "other"})
        assert found.status_code == 422
        assert "remembers what a good pair is" in found.json()["detail"]


def test_what_there_is(running: Running):
    models = httpx.get(f"{running.address}/models").json()["models"]
    assert [(one["name"], one["attention"], one["scores"]) for one in models] == [
        ("rela-g", "rela-g", True),
        ("other", "softmax", False),
    ]
    assert httpx.get(f"{running.address}/healthz").json() == {"status": "ok"}
    schema = httpx.get(f"{running.address}/openapi.json").json()
    assert set(schema["paths"]) == {"/translate", "/score", "/models", "/healthz", "/metrics"}
    running.post("/translate", {"text": "one!"})
    text = httpx.get(f"{running.address}/metrics").text
    assert 'rela_requests_total{method="POST",route="/translate",status="200"}' in text
    assert 'rela_request_seconds_bucket{route="/translate",le="+Inf"}' in text


def test_the_description_has_the_limits(running: Running):
    limits = httpx.get(f"{running.address}/models").json()["limits"]
    assert limits == {
        "sentences": 64,
        "characters": 4000,
        "body": 1 << 20,
        "work": 1 << 15,
        "looks": 1 << 21,
        "timeout": 30.0,
        "beam": 12,
    }
    assert {name for name, limit in limits.items() if isinstance(limit, float)} == {"timeout"}
    schema = httpx.get(f"{running.address}/openapi.json").json()
    fields = schema["components"]["schemas"]["TranslateRequest"]["properties"]
    assert fields["beam"]["maximum"] == fields["nbest"]["maximum"] == 12
    assert "415" in schema["paths"]["/translate"]["post"]["responses"]
    page = httpx.get(f"{running.address}/docs").text
    assert "<td>At least 1, at most 12. 1 is greedy search.</td>" in page
    assert "<td>At least 1 character.</td>" in page
    assert "<td>At most 64 items. The weights of these heads.</td>" in page


def test_metrics_are_of_the_type_that_is_described(running: Running):
    [described] = httpx.get(f"{running.address}/openapi.json").json()["paths"]["/metrics"]["get"]["responses"]["200"][
        "content"
    ]
    assert httpx.get(f"{running.address}/metrics").headers["content-type"] == described


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/healthz", "/models", "/metrics"])
def test_heads_of_answers(running: Running, path: str):
    found = httpx.head(f"{running.address}{path}")
    assert found.status_code == 200
    assert found.content == b""
    assert int(found.headers["content-length"]) > 0


def test_a_slash_too_many_stays_with_this_service(running: Running):
    found = httpx.get(f"{running.address}/docs/")
    assert found.headers["location"] == "../docs"
    assert found.next_request is not None
    assert str(found.next_request.url) == f"{running.address}/docs"


class TestRefused:
    @pytest.mark.parametrize(
        ("path", "data", "status", "message"),
        [
            ("/translate", {"text": ["a"] * 65}, 413, "text: expected at most 64 sentences, got 65"),
            ("/translate", {"text": "a" * 4001}, 413, "expected at most 4,000 characters, got 4,001"),
            ("/translate", {"text": "a", "model": "../../etc/passwd"}, 404, "model: expected one of rela-g, other"),
            ("/translate", {"text": "a", "beam": 13}, 422, "beam: expected at most 12, got 13"),
            ("/translate", {"text": "a", "beam": 2, "nbest": 3}, 422, "nbest: expected at most beam = 2"),
            ("/translate", {"text": "a", "attention": [{"layer": 9, "head": 0}]}, 422, "expected layers 1 to 1"),
            ("/translate", {"text": "a", "nbest": int("9" * 4000)}, 422, f"expected at most 99,999, got {'9' * 60}…"),
            ("/translate", {"text": "a", "beams": 3}, 422, "beams: expected no field of this name, got one"),
            ("/translate", {"text": 3}, 422, "text: expected text, got 3"),
            ("/translate", {"text": ["a", None]}, 422, "text.1: expected text, got null"),
            (
                "/translate",
                {"beam": 1.5},
                422,
                "text: expected a value, got none; beam: expected a whole number, got 1.5",
            ),
            ("/translate", {"text": "a", "length_penalty": 11}, 422, "length_penalty: expected at most 10, got 11"),
            (
                "/translate",
                {"text": "a", "attention": [{"layer": 1}]},
                422,
                "attention.0.head: expected a value, got none",
            ),
            ("/translate", [], 422, "request: expected an object, got a list of 0"),
            ("/translate", dict.fromkeys("abcdefghi"), 422, "request: expected some of text, model"),
            ("/score", {"pairs": []}, 422, "pairs: expected a list of at least 1, got a list of 0"),
            ("/score", {"pairs": [{"source": "", "target": "b"}]}, 422, 'pairs.0.source: expected text, got ""'),
            ("/score", {"pairs": [{"source": " ", "target": "b"}]}, 422, "expected text, got nothing but blanks"),
        ],
    )
    def test_with_a_reason(self, running: Running, path: str, data: Any, status: int, message: str):
        found = running.post(path, data)
        assert found.status_code == status
        assert message in found.json()["detail"]

    @pytest.mark.parametrize(
        ("body", "detail"),
        [
            (b'{"text": NaN}', "text: expected text, got NaN"),
            (b'{"text": "a", "length_penalty": NaN}', "length_penalty: expected a number, got NaN"),
            (b"{text", "request: expected JSON, got something else at character 2: Expecting property name"),
            (b"", "request: expected a value, got none"),
        ],
    )
    def test_what_is_no_json(self, running: Running, body: bytes, detail: str):
        found = running.send("/translate", body)
        assert found.status_code == 422
        assert found.json()["detail"].startswith(detail)

    def test_what_does_not_say_that_it_is_json(self, running: Running):
        found = httpx.post(f"{running.address}/translate", data={"text": "a"})
        assert found.status_code == 415
        assert found.json() == {
            "detail": "expected Content-Type: application/json, got application/x-www-form-urlencoded"
        }

    def test_names_of_others(self, running: Running):
        found = httpx.get(f"{running.address}/models", headers={"host": "elsewhere.example"})
        assert found.status_code == 421
        assert "Host: expected one of localhost, 127.0.0.1, ::1, got elsewhere.example" in found.json()["detail"]

    def test_half_a_character(self, running: Running):
        found = httpx.post(
            f"{running.address}/translate", content=b'{"text": "\\ud800"}', headers={"content-type": "application/json"}
        )
        assert found.status_code == 422

    def test_bytes_that_are_no_text(self, running: Running):
        headers = {"content-type": "application/json"}
        found = httpx.post(f"{running.address}/translate", content=b'{"text": "\xff"}', headers=headers)
        assert found.status_code == 400
        assert found.json() == {"detail": "expected JSON in UTF-8, got bytes that are no text"}

    def test_large_bodies_by_whatever_way(self, running: Running):
        headers = {"content-type": "application/json"}
        large = b'{"text": "' + b"a" * (1 << 20) + b'"}'
        assert httpx.post(f"{running.address}/translate", content=large, headers=headers).status_code == 413

        def parts() -> Iterator[bytes]:
            for start in range(0, len(large), 65_536):
                yield large[start : start + 65_536]

        found = httpx.post(f"{running.address}/translate", content=parts(), headers=headers)
        assert found.status_code == 413
        assert "at most 1,048,576 bytes" in found.json()["detail"]

    def test_pages_of_others(self, running: Running):
        found = running.post("/translate", {"text": "a"}, headers={"origin": "https://elsewhere.example"})
        assert "access-control-allow-origin" not in found.headers

    @pytest.mark.parametrize("path", ["/../../etc/passwd", "/assets/page.js", "/%2e%2e/secret", "/static"])
    def test_no_files(self, running: Running, path: str):
        assert httpx.get(f"{running.address}{path}").status_code == 404


def test_many_clients_get_their_own_answers(running: Running):
    texts = [f"{first} {second}!" for first in ("one", "two", "three") for second in ("four", "five", "six", "seven")]
    expected = {one: rela.Translator.load(running.models["rela-g"]).translate([one])[0].text for one in texts}

    def ask(text: str) -> tuple[str, str]:
        return text, running.post("/translate", {"text": text}).json()["translations"][0]["text"]

    with ThreadPoolExecutor(16) as pool:
        for text, found in pool.map(ask, texts * 4):
            assert found == expected[text]


def test_token_and_origins(models: dict[str, Path]):
    arguments = (models["rela-g"], "--cors", "https://here.example")
    with served(*arguments, RELA_TOKEN=TOKEN) as (address, _):
        assert post(address, "/translate", {"text": "a"}).status_code == 401
        assert post(address, "/translate", {"text": "a"}, headers={"authorization": "Bearer no"}).status_code == 401
        assert post(address, "/translate", {"nonsense": "a"}).status_code == 401  # asked for before the body is read
        headers = {"authorization": f"Bearer {TOKEN}", "origin": "https://here.example"}
        found = post(address, "/translate", {"text": "a"}, headers=headers)
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == "https://here.example"
        closed = {
            path: httpx.get(f"{address}{path}").status_code for path in ("/models", "/metrics", "/healthz", "/docs")
        }
        assert closed == {"/models": 401, "/metrics": 401, "/healthz": 200, "/docs": 200}
        assert httpx.get(f"{address}/metrics", headers=headers).status_code == 200


def test_full_queues_are_said(models: dict[str, Path]):
    with served(models["rela-g"], "--queue", "8", "--batch", "4") as (address, _), ThreadPoolExecutor(32) as pool:
        asked = [pool.submit(post, address, "/translate", {"text": ["one two!"] * 4}) for _ in range(64)]
        found = [one.result() for one in asked]
    codes = [one.status_code for one in found]
    assert set(codes) == {200, 503}
    refused = next(one for one in found if one.status_code == 503)
    assert int(refused.headers["retry-after"]) >= 1
    assert "too many requests wait" in refused.json()["detail"]
