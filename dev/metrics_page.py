"""Prints docs/metrics.md: the metrics of `/metrics`, as a server and its code name them.

    python -m dev.metrics_page > docs/metrics.md

A standalone server shows most of them after some requests. Those of a cluster are read from the
code: calls of prometheus_client's classes with their texts.
"""

import ast
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

import tms

ROOT = Path(__file__).parents[1]
_HEAD = """# Metrics

`GET /metrics` has these, in Prometheus' text format, or in OpenMetrics if Accept names
`application/openmetrics-text`. An operation has no series before its first request, and a topic or
a group none before it is used; in PromQL, `or vector(0)` makes up for that. In a cluster, each
server counts its own requests, and a shard's metrics are at its leader; if the store has several
shards, they have the label `shard`. `python -m dev.metrics_page` generates this page.

| metric | type | labels | meaning |
| --- | --- | --- | --- |"""
_KINDS = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}
_FAMILY = "MetricFamily"
_OWN_LABELS = {"le", "quantile"}
_GREETING = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass
class Described:
    """One metric."""

    kind: str
    text: str
    labels: list[str] = field(default_factory=list)


def page() -> str:
    """Return the page."""
    shown, created = from_server(), from_code()
    for name, each in shown.items():
        each.labels = each.labels or created.get(name, each).labels
    rows = [
        f"| `{name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | "
        f"{each.text} |"
        for name, each in sorted((created | shown).items())
    ]
    return "\n".join([_HEAD, *rows]) + "\n"


def from_server() -> dict[str, Described]:
    """Return the metrics of a standalone server that was used a little."""
    with tempfile.TemporaryDirectory() as folder:
        command = "serve", "--store", f"leveldb:{folder}", "--listen", "127.0.0.1:0"
        server = subprocess.Popen(
            [sys.executable, "-m", "tms", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            url = next(found[0] for line in server.stdout if (found := _GREETING.search(line)))
            _use(url)
            with urllib.request.urlopen(f"{url}/metrics") as answer:
                return parsed(answer.read().decode())
        finally:
            server.terminate()
            server.communicate()


def parsed(text: str) -> dict[str, Described]:
    """Return the metrics in Prometheus' text."""
    described = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = dict.fromkeys(label for each in family.samples for label in each.labels)
        shown = [label for label in labels if label not in _OWN_LABELS]
        described[name] = Described(family.type, family.documentation, shown)
    return described


def _use(url: str) -> None:
    """Make requests after which metrics with labels have series."""
    with tms.connect(url) as client:
        topic = client.topic("orders")
        topic.create()
        subscription = topic.subscription("reader")
        subscription.create()
        group = topic.group("billing")
        group.create()
        topic.publish(b"a message")
        for message in group.take_once(1):
            message.ack()
        with client.transaction() as transaction:
            topic.publish(b"another", tx=transaction)
        next(iter(subscription.poll()))
    with urllib.request.urlopen(f"{url}/v1/registry/subjects") as answer:
        answer.read()


def from_code() -> dict[str, Described]:
    """Return the metrics that code creates one by one."""
    found: dict[str, Described] = {}
    for folder in ("tms", "api", "tables", "cleanup"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.update(_created_in(function))
    return found


def _created_in(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[str, Described]]:
    texts: dict[str, str] = {}
    for node in sorted(
        (each for each in ast.walk(function) if isinstance(each, ast.Assign | ast.Call)),
        key=lambda each: each.lineno,
    ):
        if isinstance(node, ast.Assign):
            if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
                texts[node.targets[0].id] = str(node.value.value)
            continue
        kind = _KINDS.get(getattr(node.func, "id", "").removesuffix(_FAMILY))
        if kind is None or len(node.args) < 2 or not isinstance(node.args[0], ast.Constant):  # noqa: PLR2004
            continue
        name, text, *more = node.args
        assert isinstance(name, ast.Constant)
        described = text.value if isinstance(text, ast.Constant) else texts.get(ast.unparse(text))
        more += [each.value for each in node.keywords if each.arg == "labels"]
        labels = more[-1].elts if more and isinstance(more[-1], ast.List | ast.Tuple) else ()
        if described is not None:  # otherwise a server without a cluster shows it too
            shown = [each.value for each in labels if isinstance(each, ast.Constant)]
            total = "_total" if kind == "counter" else ""
            yield f"{name.value!s}{total}", Described(kind, str(described), [*map(str, shown)])


if __name__ == "__main__":
    sys.stdout.write(page())
