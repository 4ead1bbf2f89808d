"""`tms init`: creates the tables of a store on HBase. LevelDB's come with its folder."""

import shlex
from typing import Annotated

import typer

from tms.cli.configured import ConfigOption, answering, settings_of, stop
from tms.cli.target import JsonOption
from tms.core.store_url import HBASE, has_scheme

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

    settings = settings_of({"store": store}, config)
    if not has_scheme(settings.store, HBASE):
        stop(f"{settings.store} needs no tables: `tms serve` creates everything there.")
    try:
        created = create_tables(settings.store, settings, _address(admin))
    except ValueError as error:
        stop(f"{settings.store}: {error}")
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
    lines.append(f"Now: tms serve --store {shlex.quote(settings.store)}")
    answering(context, as_json=as_json).answer("\n".join(lines), facts)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("give HOST:PORT", param_hint="--admin")
    return host.strip("[]"), int(port)
