"""The server and namespace of a command, and the form of its output.

`--url`, `--namespace`, `--json`, `--ca` and `--token-file` may precede the command
(`tms --json topic list`) or follow it (`tms topic list --json`); the latter wins. No option takes a
token itself, because others on the machine can see the arguments of a process.
"""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tms.cli import away
from tms.cli.columns import aligned
from tms.client import Client, connect
from tms.client.in_process import open_in_thread
from tms.client.remote.access import access_of
from tms.client.remote.addresses import is_of_servers, parse_addresses
from tms.client.remote.http import Http
from tms.core.text.store_url import is_in_process
from tms.core.values.store_access import StoreAccess

URL = "http://127.0.0.1:11015"

URL_HELP = (
    "The server, http://HOST:PORT; or a store in this process, leveldb:DIR. If a command only "
    "reads, LevelDB recovers its log there, and no row changes."
)
NAMESPACE_HELP = "The namespace of the topics."

CA_HELP = "The trusted certificates for an https:// server.  [env: TMS_CA]"
_WHO_ASKS = (
    "A file with the token to send.  [env: TMS_TOKEN_FILE, or the token itself in TMS_TOKEN; else "
    "~/.config/tms/token]"
)

CaOption = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help=CA_HELP)]
TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help=_WHO_ASKS)
]
UrlOption = Annotated[str | None, typer.Option(metavar="URL", help=URL_HELP)]
NamespaceOption = Annotated[str | None, typer.Option(metavar="NAME", help=NAMESPACE_HELP)]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Answer in JSON, for programs.", show_default=False)
]
ShardOption = Annotated[
    int | None,
    typer.Option(min=0, metavar="NUMBER", help="The shard, if the store has several."),
]
_SHARED = {
    "url": (None, UrlOption),
    "namespace": (None, NamespaceOption),
    "as_json": (False, JsonOption),
    "ca": (None, CaOption),
    "token_file": (None, TokenFileOption),
}
"""The options of each command, by the field of `Target` that they set: default and type."""


@dataclass(frozen=True, slots=True)
class Target:
    """The values of the shared options."""

    url: str
    namespace: str
    as_json: bool
    ca: Path | None = None
    token_file: Path | None = None

    def connect(
        self, access: StoreAccess = StoreAccess.WRITE, *, retry_for_s: float = 0.0
    ) -> Client:
        """Return a client. It repeats calls for `retry_for_s` seconds while no server answers.

        A store in this process is opened as `access` says. Raises as `tms.connect`,
        `StoreNotFound`, and a usage error for an invalid URL.
        """
        away.log_on_stderr()
        with self._usage_errors():
            if is_in_process(self.url):
                return Client(
                    *open_in_thread(self.url, self.namespace, access, retry_for_s=retry_for_s)
                )
            return connect(
                self.url,
                self.namespace,
                retry_for_s=retry_for_s,
                auth=self.token_file,
                ca=self.ca,
            )

    @asynccontextmanager
    async def http(self, *, timeout_s: float, compress: bool = False) -> AsyncIterator[Http]:
        """Yield the REST interface of the server, and close it. Raises as `connect`."""
        with self._usage_errors():
            access = access_of(self.url, auth=self.token_file, ca=self.ca)
            http = Http(self.url, timeout_s=timeout_s, compress=compress, access=access)
        try:
            yield http
        finally:
            await http.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> bytes:
        """Return the body of the server's answer to one request. Raises as `connect`."""

        async def send() -> bytes:
            async with self.http(timeout_s=timeout_s) as http:
                return await http.send(method, path, body, content_type)

        return asyncio.run(send())

    @contextmanager
    def _usage_errors(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            hint = "--url" if _names_no_server(self.url) else None
            raise typer.BadParameter(str(error), param_hint=hint) from None

    def answer(self, text: str, facts: object) -> None:
        """Print `text` for people, or `facts` for programs."""
        print(msgspec.json.encode(facts).decode() if self.as_json else text)

    def answer_list(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], facts: Sequence[object]
    ) -> None:
        """Print a table for people, without heads if it has no rows; or `facts` for programs."""
        if facts or self.as_json:
            self.answer(aligned(heads, [*rows]), facts)


def _names_no_server(url: str) -> bool:
    """Whether the URL is wrong, not a file that was given with it."""
    try:
        parse_addresses(url)
    except ValueError:
        return True
    return not is_of_servers(url)


def _check_texts(context: typer.Context) -> None:
    """Raise a usage error if a text is not UTF-8, before anything is done."""
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        for text in value if isinstance(value, list | tuple) else (value,):
            if isinstance(text, str) and not _is_text(text):
                shown = os.fsencode(text).decode(errors="backslashreplace")
                opts = [each for each in parameter.opts if each.startswith("-")]
                hint = (
                    " / ".join(f"'{each}'" for each in opts)
                    or f"'{parameter.metavar or parameter.name}'"
                )
                raise typer.BadParameter(f"{shown} is not UTF-8", param_hint=hint)


def _is_text(value: str) -> bool:
    """Whether an argument of a process is UTF-8: other bytes become surrogates in a `str`."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def takes(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Make typer see these `parameters` as those of `run`, which takes them by name."""
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def with_options(
    options: Mapping[str, object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of these names and types, None by default, for its `**options`."""
    by_name = inspect.Parameter.KEYWORD_ONLY

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        *own, _ = inspect.signature(command).parameters.values()
        more = [
            inspect.Parameter(name, by_name, default=None, annotation=kind)
            for name, kind in options.items()
        ]
        vars(command)["__signature__"] = inspect.Signature([*own, *more])
        return command

    return decorate


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` for typer, with the shared options; its first argument is the `Target`."""
    own = list(inspect.signature(command).parameters.values())[1:]
    by_name = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter("context", by_name, annotation=typer.Context)]
    shared += [
        inspect.Parameter(name, by_name, default=default, annotation=option)
        for name, (default, option) in _SHARED.items()
    ]

    def run(*, context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is not None:
            return  # a group's own function is for calls without a command
        _check_texts(context)
        here = {name: value for name in _SHARED if (value := given.pop(name))}
        command(replace(context.obj, **here), **given)

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    takes(run, [parameter.replace(kind=by_name) for parameter in own] + shared)
    return run
