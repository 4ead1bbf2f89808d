"""`tms init`: creates the tables of a store on HBase. LevelDB needs no such step."""

import shlex
from typing import Annotated, Any

import typer

from tms.cli.columns import counted
from tms.cli.configured import ConfigOption, answering, on_hbase
from tms.cli.progress import drawing
from tms.cli.target import JsonOption
from tms.core.values.shards import SHARDS_MAX, ShardBy, Sharding

EXAMPLES = """\b
Examples:
  tms init --store hbase://gateway:9090/tms
  tms init --store hbase://gateway:9090/tms?buckets=16 --admin gateway:9091
  tms init --store hbase://gateway:9090/tms --shards 12 --shard-by topic"""

_REGIONS_MAX = 200
"""More regions cause a warning: HBase with a small heap runs out of memory."""
_HEAP_MIB_EACH = 5
"""A region with writes needs at least 2 MiB, and all of them may use 0.4 of the heap."""

_ADMIN_HELP = (
    "HOST:PORT of a gateway of HBase's second Thrift interface (`hbase thrift2 start`), "
    "because only that interface can create tables in several regions."
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="hbase://HOST:PORT/PREFIX. Each table has 8 parts (1 with --shards), or N with "
        "?buckets=N at the end; that number cannot be changed later.  [env: TMS_STORE]",
    ),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=SHARDS_MAX,
        metavar="COUNT",
        help="Divide the store into this number of shards, each with its own tables, "
        "transactions and writes. This cannot be changed later.",
    ),
]
ShardByOption = Annotated[
    ShardBy | None,
    typer.Option(
        "--shard-by",
        help="Assign topics to shards by their namespace, which is the default, or by their own "
        "name. A transaction uses topics of one shard.",
    ),
]
AdminOption = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=_ADMIN_HELP)]


def init(
    context: typer.Context,
    *,
    store: StoreOption = None,
    admin: AdminOption = None,
    shards: ShardsOption = None,
    shard_by: ShardByOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the tables of a store on HBase. Tables that exist are not changed."""
    from tms.server.stores import create_tables  # noqa: PLC0415  the whole server

    gateway, sharding = _address(admin), _sharding(shards, shard_by)
    otherwise = "needs no tables: `tms serve` creates everything there."
    if sharding is not None and sharding.shards > 1:
        otherwise = "has one shard: several need HBase."
    with drawing("creating tables", "shards", None) as draw:

        def create(url: str, settings: Any) -> tuple[str, Any]:
            return url, create_tables(
                url,
                settings,
                gateway,
                sharding,
                lambda done, total: draw(completed=done, total=total),
            )

        url, created = on_hbase(store, config, otherwise, create)
    facts = {"buckets": created.buckets, "created": created.tables}
    lines = [f"created {name}" for name in created.tables] or ["All tables existed already."]
    if created.sharding is not None:
        facts |= {"shards": created.sharding.shards, "by": created.sharding.by}
        lines.append(f"The store has {created.sharding}.")
    lines.append(f"Each table has {counted(created.buckets, 'bucket')}.")
    lines += _of_memory(created.regions)
    facts["regions"] = created.regions
    if created.splits:
        lines += [
            "Each is in one region until HBase splits it. To split them now, in `hbase shell`:",
            *(
                f"  split '{name}', \"\\x{key.hex().upper()}\""
                for name, keys in created.splits.items()
                for key in keys
            ),
        ]
    lines.append(f"Now: tms serve --store {shlex.quote(url)}")
    answering(context, as_json=as_json).answer("\n".join(lines), facts)


def _of_memory(regions: int) -> list[str]:
    """Describe a store's regions, and the memory that HBase needs for them."""
    heap_mib = regions * _HEAP_MIB_EACH
    told = (
        f"HBase has {regions} regions of this store, which need about {heap_mib} MiB of the region "
        "servers' heaps together."
    )
    if regions <= _REGIONS_MAX:
        return [told]
    return [told, "Warning: those are many. Fewer shards or buckets take less memory of HBase."]


def _sharding(shards: int | None, by: ShardBy | None) -> Sharding | None:
    if shards is None and by is not None:
        raise typer.BadParameter("give --shards too", param_hint="--shard-by")
    return None if shards is None else Sharding(shards, by or ShardBy.NAMESPACE)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("give HOST:PORT", param_hint="--admin")
    return host.strip("[]"), int(port)
