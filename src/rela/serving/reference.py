"""The page at ``/docs``: the OpenAPI description of the service, to be read and tried. All of it comes from here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from rela.serving.page import STYLE, read_asset

_CODE: Final = re.compile("``(.+?)``")
_METHODS: Final = ("get", "post")
_PLACE: Final = "#/components/schemas/"
_LIMITS: Final = {
    "minimum": ("at least", ""),
    "maximum": ("at most", ""),
    "minLength": ("at least", " character"),
    "minItems": ("at least", " item"),
    "maxItems": ("at most", " item"),
}


def reference_page(description: Mapping[str, Any]) -> str:
    """HTML of an OpenAPI description."""
    routes = "".join(
        _route(path, method, operations[method], description)
        for path, operations in description["paths"].items()
        for method in _METHODS
        if method in operations
    )
    schemas = "".join(_schema(name, schema) for name, schema in sorted(description["components"]["schemas"].items()))
    needs_token = bool(description["components"].get("securitySchemes"))
    parts = {
        "/*STYLE*/": STYLE,
        "/*SCRIPT*/": read_asset("reference.js") + read_asset("token.js"),
        "<!--VERSION-->": escape(description["info"]["version"]),
        "<!--TOKEN-->": _TOKEN if needs_token else "",
        "<!--ROUTES-->": routes,
        "<!--SCHEMAS-->": schemas,
    }
    page = read_asset("reference.html")
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


_TOKEN: Final = (
    '<form class="notice-box" onsubmit="return false"><label for="token">Token of the service</label>'
    '<input id="token" type="password" autocomplete="off"></form>'
)


def _route(path: str, method: str, operation: Mapping[str, Any], description: Mapping[str, Any]) -> str:
    name = f"{method}{path.replace('/', '-')}"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    example = None if body is None else _example(body, description)
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer['description'])}</td>"
        f"<td>{_answer_type(answer)}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    asked = (
        ""
        if body is None
        else f'<p>Body: {_type(body)}</p><label for="{name}-body">Request</label>'
        f'<textarea id="{name}-body" rows="{example.count(chr(10)) + 1 if example else 3}" spellcheck="false">'
        f"{escape(example or '{}')}</textarea>"
    )
    return (
        f'<section class="result route" aria-labelledby="{name}">'
        f'<h2 id="{name}"><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h2>'
        f"<p>{escape(operation.get('description') or operation['summary'])}</p>{asked}"
        f'<p><button type="button" class="main-button" data-method="{method.upper()}" data-path="{escape(path)}" '
        f'data-name="{name}">Send</button></p>'
        f'<pre class="answer" id="{name}-answer" role="status" tabindex="0" hidden></pre>'
        f"<details><summary>Answers</summary><table class='scores'><thead><tr><th>status</th><th>when</th>"
        f"<th>what</th></tr></thead><tbody>{answers}</tbody></table></details></section>"
    )


def _answer_type(answer: Mapping[str, Any]) -> str:
    for kind, content in answer.get("content", {}).items():
        schema = content.get("schema") or {}
        return _type(schema) if kind == "application/json" and schema else escape(kind)
    return ""


def _example(schema: Mapping[str, Any], description: Mapping[str, Any]) -> str | None:
    """The first one of a schema."""
    name = schema.get("$ref", "").removeprefix(_PLACE)
    examples = description["components"]["schemas"].get(name, {}).get("examples")
    return json.dumps(examples[0], indent=1, ensure_ascii=False) if examples else None


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(found)}</td>"
        f"<td>{'required' if field in required else _default(found)}</td>"
        f"<td>{escape(' '.join(_said(found)))}</td></tr>"
        for field, found in schema.get("properties", {}).items()
    )
    own = f"schema-{escape(name)}"
    said = _CODE.sub(r"<code>\1</code>", escape(schema.get("description", "")))
    return (
        f'<section class="schema" aria-labelledby="{own}"><h3 id="{own}">{escape(name)}</h3><p>{said}</p>'
        f'<div class="matrix-box"><table class="scores"><thead><tr><th>field</th><th>type</th><th></th><th></th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div></section>"
    )


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return ""
    return f"<code>{escape(json.dumps(schema['default'], ensure_ascii=False))}</code>"


def _said(schema: Mapping[str, Any]) -> Iterator[str]:
    """Limits and meaning, each a sentence."""
    limits = [
        f"{words} {schema[key]:,g}{unit}{'s' if unit and schema[key] != 1 else ''}"
        for key, (words, unit) in _LIMITS.items()
        if key in schema and "prefixItems" not in schema  # whose type shows how many there are
    ]
    if limits:
        yield f"{', '.join(limits).capitalize()}."
    if "description" in schema:
        yield schema["description"]


def _type(schema: Mapping[str, Any]) -> str:
    """In words; other schemas are links."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_PLACE))
        return f'<a href="#schema-{name}">{name}</a>'
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(one))}</code>" for one in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if "additionalProperties" in schema and isinstance(schema["additionalProperties"], Mapping):
            return f"object of {_type(schema['additionalProperties'])}"
        case str(name):
            return name
        case _:
            return "anything"
