"""Cleanup: the costs of its passes, what holds it back, and a pass on demand."""

from collections.abc import Mapping

from api.console.row import Row
from api.console.visit import Answer, Done, ShownPage, Visit, place
from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest
from tms.core.values.cleanup import Cleanup
from tms.core.values.shards import SHARDS_MAX
from tms.security.resources import Action

_WAIT_S = 1.0
_BOUNDS_SHOWN = 100


def _cleanup_of(visit: Visit, parameters: Mapping[str, str]) -> Cleanup | None:
    """Return the cleanup of a server, or of a shard if one is named. Raises `InvalidRequest`."""
    shard = parameters.get("shard", "")
    if not shard:
        return visit.services.cleanup
    number = whole_number(shard, SHARDS_MAX - 1)
    if number is None:
        raise InvalidRequest("invalid_query", shard=shard[:20])
    return visit.services.in_shard(number).cleanup


async def cleanup(visit: Visit) -> Answer:
    """Show the state of cleanup."""
    query = visit.query
    values: dict[str, object] = {
        "state": None,
        "shard": query.get("shard", ""),
        "shards": 0,
        "bounds_shown": _BOUNDS_SHOWN,
        "may_run": visit.may_change(Action.OPERATE),
    }
    cleanup = _cleanup_of(visit, query)
    if cleanup is not None:
        try:
            values["state"] = await cleanup.state()
        except InvalidRequest as error:
            if error.problem.code != "shard_required":
                raise
            values["shards"] = error.detail["shards"]
    return ShownPage("cleanup.html", values)


async def run(visit: Visit) -> Answer:
    """Start a pass."""
    cleanup = _cleanup_of(visit, visit.form)
    if cleanup is None:
        raise InvalidRequest("not_found", path=visit.exchange.path)
    has_ended = await cleanup.run_pass(_WAIT_S)
    notice = "The pass has ended." if has_ended else "A pass is running."
    return Done(place("cleanup", shard=visit.form.get("shard", "")), notice)


ROWS = (
    Row("Cleanup", "/cleanup", cleanup, Action.OPERATE),
    Row("RunCleanup", "/cleanup/run", run, Action.OPERATE, is_form=True),
)
