"""The page `/docs`: the OpenAPI document for people. It needs no script or network."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from api.http.door.guarded import DecidedBy
from api.http.exchange import Exchange
from api.http.operation import Operation
from api.http.pages import page_of
from api.http.prose import html_of
from tms.security.resources import Action

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
code { background: #f3f3f3; padding: 0 .2em; overflow-wrap: anywhere }
summary { cursor: pointer; padding: .2rem 0 }
dt { font-weight: 600 } dd { margin-left: 1.5rem }
"""


def page(document: dict[str, Any]) -> str:
    """Return the page that shows an OpenAPI document."""
    info = document["info"]
    head = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>"
        f"<style>{_STYLE}</style><h1>{escape(info['title'])}</h1>"
        f"<p>Version {escape(info['version'])}. {html_of(info['description'])} "
        "The same for programs: <a href=openapi.json>openapi.json</a>.</p>"
    )
    return head + "".join(_sections(document))


def _sections(document: dict[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2><p>{html_of(tag['description'])}</p>"
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(document, method.upper(), path, operation)
    yield "<h2>Errors</h2><dl>"
    for name, response in document["components"]["responses"].items():
        yield f"<dt>{escape(name.removeprefix('Error'))}</dt><dd>{_lines(response)}</dd>"
    yield "</dl>"


def _operation(
    document: dict[str, Any], method: str, path: str, operation: dict[str, Any]
) -> Iterator[str]:
    yield (
        f"<details id={escape(operation['operationId'])}><summary>"
        f"<code>{method} {escape(path)}</code> {html_of(operation['summary'])}</summary>"
        f"<p>{html_of(operation['description'])}</p><dl>"
    )
    for parameters in operation["parameters"]:
        parameter = _resolved(document, parameters)
        yield (
            f"<dt><code>{escape(parameter['name'])}</code> in the {escape(parameter['in'])}</dt>"
            f"<dd>{html_of(parameter.get('description', ''))}</dd>"
        )
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        yield f"<dt>Body</dt><dd>{escape(', '.join(body))}</dd>"
    for status, given in operation["responses"].items():
        response = _resolved(document, given)
        yield f"<dt>{escape(status)}</dt><dd>{_lines(response)}</dd>"
    yield "</dl></details>"


def _lines(response: dict[str, Any]) -> str:
    return html_of(response["description"]).replace("\n", "<br>")


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference within the document, except a description beside it."""
    found: Any = value
    while "$ref" in found:
        steps = found["$ref"].removeprefix("#/").split("/")
        found = document
        for step in steps:
            found = found[step]
    kept = {key: text for key, text in value.items() if key == "description"}
    return {**found, **kept}


async def _show(request: Request) -> HTMLResponse:
    exchange: Exchange = request.scope["exchange"]
    return HTMLResponse(page(json.loads(exchange.context.openapi())))


OPERATIONS = (
    Operation(
        name="docs",
        action=Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
        method="GET",
        path="/docs",
        handler=page_of(Starlette(routes=[Route("/docs", _show)])),
        tag="Server",
        summary="This documentation, as a page",
        description="The page is for people, in a browser.",
        success="The page.",
        answer={"text/html": {"schema": {"type": "string"}}},
        is_page=True,
        is_compressed=True,
    ),
)
