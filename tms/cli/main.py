"""`tms`: assembles the commands, and handles their errors.

An expected error is one line on standard error that says why, without a traceback, and an exit code
of `failure.ExitCode`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tms import __version__
from tms.cli import failure
from tms.cli.batches import WrongInput
from tms.cli.failure import ExitCode
from tms.cli.standard_streams import StreamFailed, give_up_output, open_streams, printing
from tms.cli.target import (
    NAMESPACE_HELP,
    URL,
    URL_HELP,
    CaOption,
    JsonOption,
    Target,
    TokenFileOption,
    with_target,
)
from tms.core.errors import TmsError
from tms.core.runtime import extras

EXAMPLES = """\b
A first session, in two terminals:
  tms serve
  tms topic create orders
  tms publish orders "hello" "world"
  tms poll orders
  tms poll orders --follow

\b
Exit codes: 0 done; 1 failed; 2 wrong usage or settings; 3 not found; 4 refused; 5 not
permitted; 6 away, nothing was done; 7 not known whether it was done; 130 Ctrl-C."""

_UMASK = 0o077
"""The umask for a store on this machine's disk: only its owner can read it."""
_AS_JSON = "tms.as_json"
"""The key in a context for whether --json is among the arguments."""
_CODES = {ExitCode.USAGE: "wrong_usage", ExitCode.FAILED: "failed"}
_UsageError: Any = typer.BadParameter.__mro__[1]
"""The base class of typer's usage errors, which typer does not export."""
_SERVER_COMMANDS = ("serve", "config", "doctor")
_ALONE = (
    *("publish", "publish-all", "poll", "export", "import", "init", "prune", "copy"),
    *("restore", "rollback", "status", "ui"),
)
_GROUPS = (
    *("topic", "namespace", "subscription", "group", "tx", "cleanup", "debug", "schema"),
    *("registry", "spark", "metadata", "cluster", "clock", "backup", "auth"),
)


class _Commands(TyperGroup):
    """All commands. Each is loaded when it is used, because loading all takes long."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of `tms --help`."""
        del ctx
        return [*_SERVER_COMMANDS, *_ALONE, "version", *_GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name; None if there is none."""
        if cmd_name in _SERVER_COMMANDS:
            return _server_command(cmd_name)
        if cmd_name not in self.commands and cmd_name in (*_ALONE, *_GROUPS):
            holder = typer.Typer(rich_markup_mode=None, add_completion=False)
            holder.callback()(_nothing)
            if cmd_name in _GROUPS:
                holder.add_typer(_group(cmd_name), name=cmd_name)
            else:
                function, examples = _alone(cmd_name)
                holder.command(cmd_name, epilog=examples)(function)
            held: Any = typer.main.get_command(holder)
            self.commands[cmd_name] = held.commands[cmd_name]
        return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command line. All its output is printable, including usage errors."""
        with printing():
            return super().main(*args, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command; note --json for the format of errors."""
        ctx.meta[_AS_JSON] = "--json" in takewhile("--".__ne__, args)
        with _reporting_errors(ctx):
            parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the command; print an expected error as one line, and exit with its code."""
        with _reporting_errors(ctx):
            result = super().invoke(ctx)
            sys.stdout.flush()  # to notice a missing reader here, not at the very end
        return result


@contextmanager
def _reporting_errors(ctx: Any) -> Iterator[None]:
    as_json = ctx.meta[_AS_JSON]
    try:
        yield
    except TmsError as error:
        noun = "group" if ctx.invoked_subcommand == "group" else "subscription"
        line, code = failure.line_of(error, ctx.obj.url, noun), error.problem.code
        failure.end(failure.exit_code_of(error), code, line, error.detail, as_json=as_json)
    except failure.Stopped as stopped:
        failure.end(stopped.exit_code, _CODES[stopped.exit_code], str(stopped), {}, as_json=as_json)
    except WrongInput as error:
        failure.end(ExitCode.FAILED, "wrong_input", str(error), {}, as_json=as_json)
    except UnicodeEncodeError as error:
        line = f"{error.object!r} is not UTF-8."
        failure.end(ExitCode.USAGE, "wrong_usage", line, {}, as_json=as_json)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "tms":
            raise
        failure.end(ExitCode.FAILED, "failed", str(error), {}, as_json=as_json)
    except _UsageError as error:
        if not as_json:
            raise  # typer prints it, with the command's usage
        failure.end(ExitCode.USAGE, "wrong_usage", error.format_message(), {}, as_json=True)


def _nothing() -> None:
    """Do nothing."""


def _alone(name: str) -> tuple[Callable[..., Any], str | None]:  # noqa: C901  as `_group`
    """Return the function of a command, and its examples."""
    match name:
        case "publish":
            from tms.cli.publish import EXAMPLES
            from tms.cli.publish import publish as function
        case "publish-all":
            from tms.cli.publish_all import EXAMPLES
            from tms.cli.publish_all import publish_all as function
        case "poll":
            from tms.cli.poll import EXAMPLES
            from tms.cli.poll import poll as function
        case "export":
            from tms.cli.export import EXAMPLES
            from tms.cli.export import export as function
        case "import":
            from tms.cli.importing import EXAMPLES
            from tms.cli.importing import import_ as function
        case "init":
            from tms.cli.init import EXAMPLES
            from tms.cli.init import init as function
        case "prune":
            from tms.cli.prune import EXAMPLES
            from tms.cli.prune import prune as function
        case "copy":
            from tms.cli.copy import EXAMPLES
            from tms.cli.copy import copy as function
        case "restore":
            from tms.cli.restore import EXAMPLES
            from tms.cli.restore import restore as function
        case "rollback":
            from tms.cli.rollback import rollback

            return rollback, None
        case _:
            from tms.cli import status

            return (status.status if name == "status" else status.ui), None
    return function, EXAMPLES


def _group(name: str) -> typer.Typer:  # noqa: C901, PLR0912  a table, by statements that are checked
    """Return the commands of a group."""
    match name:
        case "topic":
            from tms.cli.topic import app
        case "namespace":
            from tms.cli.namespace import app
        case "subscription":
            from tms.cli.subscription import app
        case "group":
            from tms.cli.group import app
        case "tx":
            from tms.cli.tx import app
        case "cleanup":
            from tms.cli.cleanup import app
        case "debug":
            from tms.cli.debug import app
        case "schema":
            from tms.cli.schema import app
        case "registry":
            from tms.cli.registry import app
        case "spark":
            from tms.cli.spark import app
        case "metadata":
            from tms.cli.metadata import app
        case "cluster":
            from tms.cli.cluster import app
        case "clock":
            from tms.cli.clock import app
        case "backup":
            from tms.cli.backup import app
        case _:
            from tms.cli.auth import app
    return app


def _server_command(name: str) -> Any:
    try:
        from tms.cli import serve  # loading pydantic takes as long as everything else
    except ModuleNotFoundError as error:
        return _missing(name, error)
    group: Any = typer.main.get_command(serve.app)
    return group.commands[name]


def _missing(name: str, error: ModuleNotFoundError) -> Any:
    """Return a command that only says which extra it needs."""
    lone = typer.Typer(rich_markup_mode=None, add_completion=False)

    @lone.command(name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def tell() -> None:
        """Needs the server's packages, which are not installed."""
        print(
            extras.missing(f"`tms {name}` needs the server's packages", error, "server"),
            file=sys.stderr,
        )
        raise typer.Exit(1)

    return typer.main.get_command(lone)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands below too
)


def _print_version(requested: bool) -> None:  # noqa: FBT001  typer calls it
    if requested:
        print(__version__)
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def options(  # noqa: PLR0917  typer calls it by names
    context: typer.Context,
    url: Annotated[str, typer.Option(envvar="TMS_URL", metavar="URL", help=URL_HELP)] = URL,
    namespace: Annotated[
        str, typer.Option(envvar="TMS_NAMESPACE", metavar="NAME", help=NAMESPACE_HELP)
    ] = "default",
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
    ca: CaOption = None,
    token_file: TokenFileOption = None,
    is_version_asked: VersionOption = False,  # noqa: ARG001, FBT002  its callback has answered
) -> None:
    """Publish to topics, poll from them, and run servers: a transactional messaging service."""
    context.obj = Target(url, namespace, as_json, ca, token_file)


@app.command()
@with_target
def version(target: Target) -> None:
    """Print the version."""
    target.answer(__version__, {"version": __version__})


def main() -> None:
    """Run the command that the process was started with."""
    os.umask(_UMASK)
    open_streams()
    try:
        try:
            app(prog_name="tms")
        finally:
            sys.stdout.flush()
    except StreamFailed as failed:
        give_up_output()
        print(failed, file=sys.stderr)
        sys.exit(1)
