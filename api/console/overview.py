"""The first page: throughput, leaders, and what is wrong now."""

from api.console.charts import Chart
from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.door.guarded import DecidedBy
from tms.core.services.findings import findings
from tms.security.resources import Action
from tms.watch.history import History
from tms.watch.watch import disk_of

_BUSIEST = 10


async def overview(visit: Visit) -> Answer:
    """Show the first page; only visitors who may operate the server see its health."""
    if not visit.may(Action.OPERATE):
        return ShownPage("overview.html", {"is_operator": False})
    context = visit.exchange.context
    watch, cluster = context.watch, context.cluster
    figures = await watch.figures()
    facts = await watch.facts(figures)
    history = watch.history
    values = {
        "is_operator": True,
        "findings": findings(facts),
        "rates": watch.rates(figures),
        "sums": figures.sums,
        "latest": {
            name: _latest(history, f"{name}_s")
            for name in ("publish_p50", "publish_p99", "poll_p50", "poll_p99")
        },
        "disk": disk_of(facts),
        "oldest": next(iter(facts.in_progress), None),
        "in_progress": len(facts.in_progress),
        "connections": visit.exchange.connection.open_connections,
        "cluster": None if cluster is None else await cluster.state(),
        "busiest": _busiest(visit, history),
        "charts": _charts(history),
    }
    return ShownPage("overview.html", values)


def _latest(history: History, name: str) -> float | None:
    return next((each for each in reversed(history.values(name)) if each is not None), None)


def _busiest(visit: Visit, history: History) -> list[tuple[str, str, dict[str, float | None]]]:
    """Return the busiest topics that the visitor may see, with their latest rates."""
    topics = []
    for namespace, name in history.busiest(_BUSIEST):
        rates = history.topic((namespace, name))
        if rates is not None and visit.may_topic(Action.DESCRIBE, namespace, name):
            topics.append((namespace, name, {field: rate[-1] for field, rate in rates.items()}))
    return topics


def _charts(history: History) -> list[Chart]:
    times = history.times_ms()
    charts = [
        Chart(
            "Messages",
            "/s",
            times,
            [("in", history.rates("messages_in")), ("out", history.rates("messages_out"))],
        ),
        Chart(
            "Bytes",
            "B/s",
            times,
            [("in", history.rates("bytes_in")), ("out", history.rates("bytes_out"))],
        ),
        Chart(
            "Latency, p99",
            "s",
            times,
            [("publish", history.values("publish_p99_s")), ("poll", history.values("poll_p99_s"))],
        ),
        Chart(
            "Disk and memory",
            "B",
            times,
            [("store", history.values("store_bytes")), ("memory", history.values("memory_bytes"))],
        ),
    ]
    return [chart for chart in charts if not chart.is_empty]


ROWS = (Row("Overview", "", overview, Action.DESCRIBE, decided_by=DecidedBy.ANSWER),)
