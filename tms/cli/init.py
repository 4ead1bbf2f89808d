"""`tms init`: creates the tables of a store on HBase. LevelDB's come with its folder."""

import shlex
from typing import Annotated

import typer

from tms.cli.configured import ConfigOption, answering, on_hbase
from tms.cli.target import JsonOption

EXAMPLES = """\b
Examples:
  tms init --store hbase://gateway:9090/tms
  tms init --store hbase://gateway:9090/tms?buckets=16 --admin gateway:9091"""

_ADMIN_HELP = (
    "HOST:PORT of a gateway of HBase's second Thrift interface (`hbase thrift2 start`), "
    "because only that interface can create tables in several regions."
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="hbase://HOST:PORT/PREFIX. Each table has 8 parts, or N with ?buckets=N at the end; "
        "that number cannot be changed later.  [env: TMS_STORE]",
    ),
]
AdminOption = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=_ADMIN_HELP)]


def init(
    context: typer.Context,
    store: StoreOption = None,
    admin: AdminOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Create the tables of a store on HBase. Tables that exist are not changed."""
    from tms.server.stores import create_tables  # noqa: PLC0415  the whole server

    otherwise = "needs no tables: `tms serve` creates everything there."
    url, created = on_hbase(
        store,
        config,
        otherwise,
        lambda url, settings: (url, create_tables(url, settings, _address(admin))),
    )
    facts = {"buckets": created.buckets, "created": created.tables}
    lines = [f"created {name}" for name in created.tables] or ["All tables existed already."]
    lines.append(f"Each table has {created.buckets} buckets.")
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


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("give HOST:PORT", param_hint="--admin")
    return host.strip("[]"), int(port)
