"""`tms cluster`: the servers of a cluster, their leaders, moves of shards, and a cluster's end."""

import json
from collections import Counter
from typing import Annotated

import typer

from tms.cli.columns import aligned
from tms.cli.configured import ConfigOption, answering, on_hbase
from tms.cli.target import JsonOption, Target, with_target
from tms.core.runtime.clock import SystemClock
from tms.core.services.cluster import ClusterState, Role, ShardStanding
from tms.core.text.durations import span
from tms.core.values.shards import ShardBy, Sharding
from tms.wire.json_values import decode_answer

_HEADS = ("ID", "ROLE", "ADDRESS", "VERSION", "SINCE", "STORE")
_SHARDS = "SHARDS"
_SHARD_HEADS = ("SHARD", "LEADER", "TOKEN", "STATE", "WISH")
_ANY = "auto"

app = typer.Typer(rich_markup_mode=None)
_STORE_HELP = "The store, hbase://HOST:PORT/PREFIX.  [env: TMS_STORE]"


@app.callback(invoke_without_command=True)
@with_target
def cluster(
    target: Target,
    shards: Annotated[bool, typer.Option("--shards", help="Also show each shard.")] = False,  # noqa: FBT002  typer's way
) -> None:
    """Show the servers of the cluster, and the leader."""
    state = decode_answer(ClusterState, target.ask("GET", "v1/cluster"))
    text = _text(state)
    if shards and state.shards:
        text = f"{_shards_text(state)}\n{text}"
    target.answer(text, state)


@app.command()
@with_target
def move(
    target: Target,
    shard: Annotated[int, typer.Argument(help="The number of the shard.")],
    server: Annotated[str, typer.Argument(help=f"The id of a server, or `{_ANY}`.")],
) -> None:
    """Pin a shard to a server; `auto` lets the balancer choose again."""
    if server != _ANY and not (server.isascii() and server.isdigit()):
        raise typer.BadParameter(f"{server!r} is not the id of a server, and not {_ANY!r}")
    instance = None if server == _ANY else int(server)
    body = json.dumps({str(shard): instance}).encode()
    wishes = decode_answer(
        dict[str, int], target.ask("PUT", "v1/cluster/wishes", body, "application/json")
    )
    target_text = "whom the balance says" if instance is None else str(instance)
    target.answer(f"Shard {shard} is to be led by {target_text}.", wishes)


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

    Use it only if no server of the cluster is running. The command cannot check that.
    """
    from tms.server.stores import release_store  # noqa: PLC0415  the whole server

    otherwise = "is not the store of a cluster: a cluster needs HBase."
    was_released = on_hbase(store, config, otherwise, release_store)
    text = "A server alone can open it now." if was_released else "No cluster had it."
    answering(context, as_json=as_json).answer(text, {"released": was_released})


def _text(state: ClusterState) -> str:
    shards = f"{len(state.shards)} shards by {state.by}" if state.shards else ""
    if state.role is Role.ALONE:
        prefix = f"{shards}; " if shards else ""
        return f"{prefix}this server is alone: it was started without --advertise.".capitalize()
    now_ms = SystemClock().now_ms()
    led = Counter(each.leader for each in state.shards)
    rows = []
    for instance in state.instances:
        leads = led[instance.id] > 0 if state.shards else instance.id == state.leader
        role = Role.LEADER if leads else Role.STANDBY
        if instance.id == state.id:
            role = state.role
        since = span(max(0, now_ms - instance.since_ms))
        reached_ms = instance.reaches_store_since_ms
        store = "not reached" if reached_ms is None else span(max(0, now_ms - reached_ms))
        row = [str(instance.id), role.value, instance.address, instance.version, since, store]
        if state.shards:
            row.insert(2, str(led[instance.id]))
        rows.append(tuple(row))
    heads = (*_HEADS[:2], _SHARDS, *_HEADS[2:]) if state.shards else _HEADS
    if state.shards:
        away = [str(each.shard) for each in state.shards if each.state is not ShardStanding.SERVING]
        prefix = f"{shards}, {len(away)} not served: {', '.join(away)}" if away else shards
        for instance in state.instances:
            if unopened := ", ".join(map(str, instance.unopened_shards)):
                prefix += f"; server {instance.id} could not open {unopened}"
    else:
        token = "" if state.token is None else f", with token {state.token}"
        prefix = (
            "there is no leader now" if state.leader is None else f"the leader is {state.leader}"
        )
        prefix += token
    for instance in state.instances:
        if unreached := ", ".join(map(str, instance.unreached_servers)):
            prefix += f"; server {instance.id} does not reach {unreached}"
    return f"{aligned(heads, rows)}\n{prefix}; {state.id} answered."


def _shards_text(state: ClusterState) -> str:
    rows = [
        tuple(
            "-" if each is None else str(each)
            for each in (shard.shard, shard.leader, shard.token, shard.state.value, shard.wish)
        )
        for shard in state.shards
    ]
    return f"{aligned(_SHARD_HEADS, rows)}\n"
