"""`tms serve`, `config` and `doctor`: their options are the settings, described in `tms.settings`.

Imported only when one of them is run: the settings need the package's `server` extra.
"""

import inspect
import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer
from typer.core import TyperCommand

from tms.cli import doctor
from tms.cli.columns import aligned
from tms.cli.configured import ConfigOption
from tms.cli.durations import METAVAR
from tms.cli.failure import ExitCode, stop
from tms.cli.standard_streams import StreamFailed, give_up_output
from tms.cli.target import JsonOption, Target, takes
from tms.core.text.credentials import without_credentials
from tms.settings import (
    DEFAULT,
    Loaded,
    Settings,
    WrongSettings,
    flag_of,
    is_duration,
    load,
    variable_of,
)
from tms.settings.server import ADVANCED
from tms.settings.values import SECTION

EXAMPLES = """\b
Examples:
  tms serve
  tms serve --store leveldb:/var/lib/tms --listen 127.0.0.1:8080
  TMS_STORE=memory: tms serve"""

CONFIG_EXAMPLES = """\b
Examples:
  tms config
  tms config --toml > tms.toml      a file to start from, for --config"""

DOCTOR_EXAMPLES = """\b
Examples:
  tms doctor --config /etc/tms/tms.toml
  sudo -u tms tms doctor --store leveldb:/var/lib/tms"""

_HEADS = ("RESULT", "CHECK", "TEXT")
_FLAG_COLUMNS = 42
_HIDDEN = "# The user and the password are not shown: write them in place of ***."

TomlOption = Annotated[
    bool, typer.Option("--toml", help="Print a TOML file to start from.", show_default=False)
]


class _OnOneScreen(TyperCommand):
    """A command whose help has one line for each option."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options; a switch has both forms in one word."""
        rows = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                both = "--[no-]" + param.opts[0].removeprefix("--")
                rows.append((both if param.secondary_opts else record[0], record[1]))
        with formatter.section("Options"):
            formatter.write_dl(rows, col_max=_FLAG_COLUMNS)


def _parameter(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    by_name = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, by_name, default=default, annotation=annotation)


def _setting(name: str) -> inspect.Parameter:
    """Return the parameter of a setting. `tms.settings` checks its value."""
    field = Settings.model_fields[name]
    flag, metavar = flag_of(name), "|".join(get_args(field.annotation)) or "VALUE"
    kind: type = str
    if field.annotation is bool:
        flag, kind = f"{flag}/--no-{flag.removeprefix('--')}", bool
    elif field.annotation in (int, float):
        metavar = METAVAR if is_duration(name) else "NUMBER"
    short = (field.description or "").partition(". ")[0].removesuffix(".")
    shown = {"": "", False: "off", True: "on"}.get(field.default, field.default)
    default = f" [{shown}]" if shown != "" else ""
    option = typer.Option(
        flag,
        metavar=metavar,
        help=f"{short}{default}",
        show_default=False,
        hidden=name in ADVANCED,
    )
    return _parameter(name, Annotated[kind | None, option])


def _command(run: Callable[..., None], *others: inspect.Parameter) -> Callable[..., None]:
    """Return `run` for typer, with all settings as options."""
    settings = [_setting(name) for name in Settings.model_fields]
    takes(run, [_parameter("config", ConfigOption), *others, *settings])
    return run


def _load(config: Path | None, flags: dict[str, object]) -> Loaded:
    try:
        return load(flags, config)
    except WrongSettings as error:
        stop(*error.problems)


def _serve(*, config: Path | None, **flags: object) -> None:
    """Run a server until Ctrl-C or SIGTERM; it then finishes the requests that it has accepted.

    `tms config` explains every setting and names its environment
    variable.
    """
    settings = _load(config, flags).settings
    store = without_credentials(settings.store)
    if settings.registry_log:
        store = f"the schemas of {without_credentials(settings.registry_log)}"
    from tms.server.serving.process import serve as serve_node  # noqa: PLC0415  the whole server

    try:
        serve_node(settings, partial(_welcome, store=store, settings=settings))
    except OSError as error:
        stop(
            f"Cannot serve {store} at {settings.listen}: {error.strerror or error}. "
            "Give another address with --listen, or another store with --store.",
            exit_code=ExitCode.FAILED,
        )
    except ValueError as error:
        stop(f"Cannot serve {store}: {error}.", exit_code=ExitCode.FAILED)


def _welcome(url: str, registry: str = "", *, store: str, settings: Settings) -> None:
    """Print what is served where, and what to try next. Failing to print does not matter."""
    text = _welcoming(url, store, settings)
    if registry:
        text = f"The schema registry is at {registry} too.\n{text}"
    try:
        print(text, flush=True)
    except (StreamFailed, BrokenPipeError):
        give_up_output()


def _welcoming(url: str, store: str, settings: Settings) -> str:
    curl, where = _curl(settings), "another terminal"
    if settings.auth != "off":
        where = "another terminal, with your token in TMS_TOKEN"
    if settings.registry_log:
        return f"""TMS serves {store} at {url} (below /v1/registry). Try in {where}:

  {curl} {url}/v1/registry/subjects

Stop it with Ctrl-C."""
    topic = f"{url}/v1/namespaces/default/topics/hello"
    as_json = "-H 'Content-Type: application/json'"
    return f"""TMS serves {store} at {url} (OpenAPI: {url}/openapi.json). Try in {where}:

  {curl} -X PUT  {topic}
  {curl} -X POST {topic}/publish {as_json} -d '{{"messages": ["hello, world"]}}'
  {curl} -X POST {topic}/poll    {as_json} -d '{{}}'

Stop it with Ctrl-C."""


def _curl(settings: Settings) -> str:
    """Return the start of a curl command that trusts this server and sends credentials."""
    words = ["curl"]
    if settings.tls_cert and settings.tls_ca:
        words += ["--cacert", shlex.quote(str(Path(settings.tls_ca).absolute()))]
    if settings.auth != "off":
        words.append('-H "Authorization: Bearer $TMS_TOKEN"')
    return " ".join(words)


def _show(
    *,
    context: typer.Context,
    config: Path | None,
    as_json: bool,
    as_toml: bool,
    **flags: object,
) -> None:
    """Show the settings of a server.

    Shows the value, source and meaning of each setting. Takes the options of
    `tms serve`, to show what they would do.
    """
    target: Target = context.obj
    loaded = _load(config, flags)
    values, has_section = _values(loaded), False
    for name in sorted(Settings.model_fields, key=ADVANCED.__contains__):
        field, value, source = Settings.model_fields[name], values[name], loaded.sources[name]
        if name in ADVANCED and not has_section:
            has_section = True
            if not (as_json or target.as_json) or as_toml:
                print(f"[{SECTION}]")
        if as_toml:
            mark = "# " if source == DEFAULT else ""
            hidden = f"{_HIDDEN}\n" if value != getattr(loaded.settings, name) else ""
            print(f"# {field.description}\n{hidden}{mark}{name} = {json.dumps(value)}\n")
        elif not (as_json or target.as_json):
            print(f"{name} = {json.dumps(value)}  ({source})\n    {field.description}")
    if (as_json or target.as_json) and not as_toml:
        print(msgspec.json.encode(_described(loaded)).decode())


def _examine(
    *, context: typer.Context, config: Path | None, as_json: bool, **flags: object
) -> None:
    """Look for what keeps a server from starting, or will.

    Takes the options of `tms serve`. Looks at versions, permissions, the disk and
    its fsync rate, descriptors, the clock, certificates and contradictory
    settings. Exits with 1 if anything is wrong.
    """
    target: Target = context.obj
    settings: Settings | None = None
    problems: tuple[str, ...] = ()
    try:
        settings = load(flags, config).settings
    except WrongSettings as error:
        problems = tuple(error.problems)
    checks = doctor.examine(settings, problems)
    if as_json or target.as_json:
        print(msgspec.json.encode(checks).decode())
    else:
        print(aligned(_HEADS, [(each.verdict, each.name, each.text) for each in checks]))
    if any(each.verdict == "wrong" for each in checks):
        raise typer.Exit(ExitCode.FAILED)


def _values(loaded: Loaded) -> dict[str, object]:
    """Return the values of settings without users and passwords."""
    return {
        name: without_credentials(value, "***@") if isinstance(value, str) else value
        for name, value in loaded.settings.model_dump().items()
    }


def _described(loaded: Loaded) -> list[dict[str, object]]:
    values = _values(loaded)
    return [
        {
            "name": name,
            "value": values[name],
            "source": loaded.sources[name],
            "default": field.default,
            "description": field.description,
            "flag": flag_of(name),
            "variable": variable_of(name),
        }
        for name, field in Settings.model_fields.items()
    ]


app = typer.Typer(rich_markup_mode=None)
_WIDE = {"max_content_width": 100}
app.command("serve", cls=_OnOneScreen, context_settings=_WIDE, epilog=EXAMPLES)(_command(_serve))
app.command("config", cls=_OnOneScreen, context_settings=_WIDE, epilog=CONFIG_EXAMPLES)(
    _command(
        _show,
        _parameter("context", typer.Context, inspect.Parameter.empty),
        _parameter("as_json", JsonOption, default=False),
        _parameter("as_toml", TomlOption, default=False),
    )
)
app.command("doctor", cls=_OnOneScreen, context_settings=_WIDE, epilog=DOCTOR_EXAMPLES)(
    _command(
        _examine,
        _parameter("context", typer.Context, inspect.Parameter.empty),
        _parameter("as_json", JsonOption, default=False),
    )
)
