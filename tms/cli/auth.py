"""`tms auth`: creates the files for authentication, without a server.

Only their owner can read them, and existing files are never overwritten. Secrets are neither
printed nor read from the command line, which others on the machine can see.
"""

import json
import re
import shlex
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tms.cli import auth_rules
from tms.cli.auth_password import password
from tms.cli.configured import answering
from tms.cli.failure import stop
from tms.cli.new_files import FilesRefused, write_new
from tms.cli.target import JsonOption
from tms.core.limits import MS_PER_S
from tms.core.runtime import extras
from tms.core.runtime.clock import SystemClock
from tms.security.tokens import new_token

app = typer.Typer(
    help="Manage access to a server by certificates, tokens and passwords.", no_args_is_help=True
)

app.command()(password)
app.registered_commands += auth_rules.app.registered_commands

INIT_EXAMPLES = """\b
Examples:
  tms auth init /etc/tms
  tms auth init /etc/tms --host tms.example.com --listen 0.0.0.0:11015"""

ADMIN = "admin"
_AUTHORITY_FILES = ("ca.pem", "ca-key.pem")
_LISTEN = "127.0.0.1:11015"
_STORE = "leveldb:./tms-data"
"""The default of the setting, written out so that users see it."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FILE_NAME = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9._@-]{0,63}", re.ASCII)
_KEPT_NAMES = ("ca", "server")

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The new folder.")]
AuthorityArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of `tms auth init`.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The principal that the certificate names.")
]
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="Another name, or IP address, of the server."),
]
ListenOption = Annotated[
    str,
    typer.Option("--listen", metavar="HOST:PORT", help="The address on which the server listens."),
]


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() // MS_PER_S, UTC)


@app.command(epilog=INIT_EXAMPLES)
def init(
    context: typer.Context,
    folder: FolderArgument,
    host: HostOption = None,
    listen: ListenOption = _LISTEN,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Create everything that a server with authentication needs: certificates, a token, settings.

    It needs no server. The token belongs to `admin`, the first superuser.
    """
    authority = _authority_module()
    folder = folder.absolute()
    now = _now()
    try:
        own = authority.new_authority("TMS's own authority", now)
        server = authority.issue_for_server(own, _hosts(host or []), now)
    except ValueError as error:
        stop(f"--host: {error}")
    token, kept = new_token(ADMIN)
    files = {
        "ca.pem": own.certificate,
        "ca-key.pem": own.key,
        "server.pem": server.certificate,
        "server-key.pem": server.key,
        "token": f"{token}\n".encode(),
        "tms.toml": _settings(folder, listen, f"{kept.id}:{kept.sha256.hex()}:{ADMIN}").encode(),
    }
    _write(folder, files)
    facts = {name: str(folder / name) for name in files}
    answering(context, as_json=as_json).answer(_what_next(folder, listen), facts)


@app.command()
def certificate(
    context: typer.Context,
    folder: AuthorityArgument,
    name: NameArgument,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way to say what a flag is
) -> None:
    """Create a certificate for the client NAME, signed by the authority in DIR."""
    authority = _authority_module()
    if not _FILE_NAME.fullmatch(name) or name in _KEPT_NAMES or name.endswith("-key"):
        stop(
            "NAME has letters and digits, and after the first character also _ @ . -; it is not "
            "ca, server or …-key."
        )
    try:
        own = authority.Signed(*((folder / each).read_bytes() for each in _AUTHORITY_FILES))
    except OSError as error:
        stop(f"{error.filename} cannot be read ({error.strerror}): `tms auth init DIR` makes it.")
    try:
        issued = authority.issue_for_client(own, name, _now())
    except (TypeError, ValueError) as error:
        stop(f"{folder / _AUTHORITY_FILES[0]} cannot sign this: {error}")
    files = {f"{name}.pem": issued.certificate, f"{name}-key.pem": issued.key}
    _write(folder, files)
    cert, key = (folder / each for each in files)
    text = (
        f"{cert} and its key {key} say that a client is {name}. Try:\n"
        f"  {_shown(TMS_CERTIFICATE=cert, TMS_CERTIFICATE_KEY=key, TMS_CA=folder / 'ca.pem')} "
        "tms --url https://HOST:PORT topic list"
    )
    answering(context, as_json=as_json).answer(text, {"certificate": str(cert), "key": str(key)})


def _authority_module() -> Any:
    """Return the module that makes certificates, or end the command if its package is missing."""
    try:
        from tms.security import authority  # noqa: PLC0415  needs the auth extra
    except ModuleNotFoundError as error:
        raise extras.missing("certificates need more", error, "auth") from None
    return authority


def _write(folder: Path, files: dict[str, bytes]) -> None:
    try:
        write_new(folder, files)
    except FilesRefused as error:
        stop(str(error))


def _hosts(more: list[str]) -> list[str]:
    """Return the names of this machine without duplicates."""
    return list(dict.fromkeys((socket.gethostname(), *_LOOPBACK, *more)))


def _settings(folder: Path, listen: str, token: str) -> str:
    """Return a settings file. Its strings are in JSON's form, which TOML accepts."""

    def line(name: str, value: object) -> str:
        return f"{name} = {json.dumps(str(value))}"

    return "\n".join(
        (
            "# Made by `tms auth init`. `tms config` says what each setting means.",
            "# Relative to the folder that the server is started in.",
            line("store", _STORE),
            line("listen", listen),
            line("auth", "required"),
            line("superusers", ADMIN),
            line("tls_cert", folder / "server.pem"),
            line("tls_key", folder / "server-key.pem"),
            "",
            "[advanced]",
            "# Clients may show a certificate of this authority; see `tms auth certificate`.",
            line("tls_client_ca", folder / "ca.pem"),
            line("tls_ca", folder / "ca.pem"),
            f"# The token of {ADMIN}, as a hash: the token itself is in the file `token`.",
            line("auth_tokens", token),
            "",
        )
    )


def _what_next(folder: Path, listen: str) -> str:
    host, _, port = listen.rpartition(":")
    shown = "localhost" if host in ("", "0.0.0.0", "[::]", "127.0.0.1") else host  # noqa: S104
    url = f"https://{shown}:{port}"
    ca, token = folder / "ca.pem", folder / "token"
    header = f'"Authorization: Bearer $(cat {shlex.quote(str(token))})"'
    return f"""\
{folder} has the certificates, the settings, and the token of {ADMIN}. Try:

  tms serve --config {shlex.quote(str(folder / "tms.toml"))}
  {_shown(TMS_TOKEN_FILE=token, TMS_CA=ca)} tms --url {url} topic create hello
  curl --cacert {shlex.quote(str(ca))} -H {header} {url}/v1/namespaces/default/topics

The server keeps its data in ./tms-data, in the folder where it is started: `store` in tms.toml
names another place.
Keep ca-key.pem elsewhere: anybody who has it can pretend to be any server or client."""


def _shown(**variables: Path) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
