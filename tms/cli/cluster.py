"""`tms cluster`: the servers of a cluster, and which of them leads."""

import asyncio
import time

import typer

from tms.cli.columns import aligned, span
from tms.cli.target import Target, with_target
from tms.client.http import Http
from tms.core.cluster import ClusterState, Role
from tms.wire.json_states import decode_cluster

_ANSWER_S_MAX = 30.0
_HEADS = ("ID", "ROLE", "ADDRESS", "VERSION", "SINCE")


@with_target
def cluster(target: Target) -> None:
    """Show the servers of the cluster, and which of them leads."""
    state = asyncio.run(_ask(target.url))
    target.answer(_text(state), state)


async def _ask(url: str) -> ClusterState:
    try:
        http = Http(url, timeout_s=_ANSWER_S_MAX, compress=False)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    try:
        return decode_cluster(await http.send("GET", "v1/cluster"))
    finally:
        await http.close()


def _text(state: ClusterState) -> str:
    if state.role is Role.ALONE:
        return "This server is alone: it was started without --advertise."
    now_ms = time.time_ns() // 1_000_000
    rows = []
    for instance in state.instances:
        role = Role.LEADER if instance.id == state.leader else Role.STANDBY
        if instance.id == state.id:
            role = state.role
        since = span(max(0, now_ms - instance.since_ms))
        rows.append((str(instance.id), role.value, instance.address, instance.version, since))
    leads = "nobody leads now" if state.leader is None else f"{state.leader} leads"
    token = "" if state.token is None else f", under token {state.token}"
    return f"{aligned(_HEADS, rows)}\n{leads}{token}; {state.id} answered."
