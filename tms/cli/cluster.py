"""`tms cluster`: the servers of a cluster, which of them leads, and the end of a cluster."""

from typing import Annotated

import typer

from tms.cli.columns import aligned
from tms.cli.configured import ConfigOption, answering, on_hbase
from tms.cli.target import JsonOption, Target, with_target
from tms.core.clock import SystemClock
from tms.core.cluster import ClusterState, Role
from tms.core.durations import span
from tms.core.shards import ShardBy, Sharding
from tms.wire.json_values import decode_answer

_HEADS = ("ID", "ROLE", "ADDRESS", "VERSION", "SINCE", "STORE")

app = typer.Typer(rich_markup_mode=None)
_STORE_HELP = "The store, hbase://HOST:PORT/PREFIX.  [env: TMS_STORE]"


@app.callback(invoke_without_command=True)
@with_target
def cluster(target: Target) -> None:
    """Show the servers of the cluster, and which one is the leader."""
    state = decode_answer(ClusterState, target.ask("GET", "v1/cluster"))
    target.answer(_text(state), state)


@app.command()
@with_target
def where(
    target: Target,
    place: Annotated[
        str, typer.Argument(metavar="NAMESPACE[:TOPIC]", help="A namespace, or one of its topics.")
    ],
) -> None:
    """Show in which shard a topic is, or in which the transactions of a namespace are."""
    namespace, colon, topic = place.partition(":")
    state = decode_answer(ClusterState, target.ask("GET", "v1/cluster"))
    count, by = max(1, len(state.shards)), state.by
    sharding = Sharding(count, by or ShardBy.NAMESPACE)
    shard = sharding.home(namespace, topic if colon else None)
    leader = state.shards[shard].leader if state.shards else state.leader
    address = next((each.address for each in state.instances if each.id == leader), None)
    facts = {"shard": shard, "shards": count, "by": by, "leader": leader, "address": address}
    rule = "" if by is None else f", by {by}"
    leads = "" if leader is None else f"; {leader} leads it, {address}"
    target.answer(f"shard {shard} of {count}{rule}{leads}", facts)


@app.command()
def release(
    context: typer.Context,
    store: Annotated[str | None, typer.Option(metavar="URL", help=_STORE_HELP)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Let a server without --advertise open a store that a cluster used.

    Use it only if no server of the cluster runs any more. The command cannot check that.
    """
    from tms.server.stores import release_store  # noqa: PLC0415  the whole server

    otherwise = "is not the store of a cluster: a cluster needs HBase."
    was_released = on_hbase(store, config, otherwise, release_store)
    text = "A server alone can open it now." if was_released else "No cluster had it."
    answering(context, as_json=as_json).answer(text, {"released": was_released})


def _text(state: ClusterState) -> str:
    shards = f"{len(state.shards)} shards by {state.by}; " if state.shards else ""
    if state.role is Role.ALONE:
        return f"{shards}this server is alone: it was started without --advertise.".capitalize()
    now_ms = SystemClock().now_ms()
    rows = []
    for instance in state.instances:
        role = Role.LEADER if instance.id == state.leader else Role.STANDBY
        if instance.id == state.id:
            role = state.role
        since = span(max(0, now_ms - instance.since_ms))
        reached_ms = instance.reaches_store_since_ms
        store = "not reached" if reached_ms is None else span(max(0, now_ms - reached_ms))
        row = (str(instance.id), role.value, instance.address, instance.version, since, store)
        rows.append(row)
    leads = "there is no leader now" if state.leader is None else f"the leader is {state.leader}"
    token = "" if state.token is None else f", with token {state.token}"
    return f"{aligned(_HEADS, rows)}\n{shards}{leads}{token}; {state.id} answered."
