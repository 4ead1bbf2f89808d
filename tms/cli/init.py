"""`tms init`: creates the tables of a store on HBase. LevelDB's come with its folder."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tms.cli.target import JsonOption, Target

EXAMPLES = """\b
Examples:
  tms init --store hbase://gateway:9090/tms
  tms init --store hbase://gateway:9090/tms?buckets=16 --admin gateway:9091"""

_ADMIN_HELP = (
    "HOST:PORT of a gateway of HBase's second Thrift interface (`hbase thrift2 start`), which "
    "alone can create tables in several regions."
)
_USAGE_EXIT_CODE = 2

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="hbase://HOST:PORT/PREFIX, with ?buckets=N behind it for another number than 8 of "
        "parts that each table has; it stays so for good.  [env: TMS_STORE]",
    ),
]
AdminOption = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=_ADMIN_HELP)]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TMS_CONFIG", metavar="FILE", help="A TOML file of settings; see `tms config`."
    ),
]


def init(
    context: typer.Context,
    store: StoreOption = None,
    admin: AdminOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Create the tables of a store on HBase; those that are there stay as they are."""
    from tms.node import create_tables  # noqa: PLC0415  the whole server
    from tms.settings import WrongSettings, load  # noqa: PLC0415  needs the server's extra

    before: Target = context.obj
    target = Target(before.url, before.namespace, as_json or before.as_json)
    try:
        settings = load({"store": store}, config).settings
    except WrongSettings as error:
        _stop(*error.problems)
    if not settings.store.startswith("hbase:"):
        _stop(f"{settings.store} needs no tables: `tms serve` creates what it needs there.")
    try:
        created = create_tables(settings.store, settings, _address(admin))
    except ValueError as error:
        _stop(f"{settings.store}: {error}")
    facts = {"buckets": created.buckets, "created": created.tables}
    lines = [f"created {name}" for name in created.tables] or ["All tables were there."]
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
    target.answer("\n".join(lines), facts)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("HOST:PORT is wanted", param_hint="--admin")
    return host.strip("[]"), int(port)


def _stop(*problems: str) -> NoReturn:
    for problem in problems:
        print(problem, file=sys.stderr)
    raise typer.Exit(_USAGE_EXIT_CODE)
