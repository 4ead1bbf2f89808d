"""The error line of a failed command, which says what to change, and its exit code.

With --json the line is REST's body of an error: `{"error": {"code": …}}`.
"""

import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NoReturn

import msgspec
import typer

from tms.core.errors import (
    AnswerLost,
    OutcomeUnknown,
    RequestError,
    StoreNotFound,
    TmsError,
    Unavailable,
)
from tms.core.text.credentials import without_credentials
from tms.core.text.printable import printable
from tms.wire.json_errors import ErrorBody, ProblemBody, number_in_json


class ExitCode(IntEnum):
    """Why a command ended, for scripts. docs/session.md has the table."""

    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    NOT_PERMITTED = 5
    AWAY = 6
    UNKNOWN = 7


_EXIT_CODE_OF_STATUS = {
    401: ExitCode.NOT_PERMITTED,
    403: ExitCode.NOT_PERMITTED,
    404: ExitCode.NOT_FOUND,
    502: ExitCode.FAILED,
}
_REGISTRY_NOT_FOUND = 404
"""The first digits of the registry's error codes for things that do not exist."""


class Stopped(Exception):
    """Raised to end a command, with a line for each problem."""

    def __init__(self, *problems: str, exit_code: ExitCode = ExitCode.USAGE) -> None:
        """Store the problems; by default the command was used wrongly."""
        super().__init__("\n".join(problems))
        self.exit_code = exit_code


def stop(*problems: str, exit_code: ExitCode = ExitCode.USAGE) -> NoReturn:
    """End the command and print why, by default as one that was used wrongly."""
    raise Stopped(*problems, exit_code=exit_code)


def exit_code_of(error: TmsError) -> ExitCode:
    """Return the exit code of a command that `error` ended."""
    match error:
        case Unavailable() | AnswerLost():
            return ExitCode.AWAY
        case OutcomeUnknown():
            return ExitCode.UNKNOWN
        case StoreNotFound():
            return ExitCode.NOT_FOUND
        case RequestError():
            registry_code = str(error.detail.get("error_code", ""))
            status = _REGISTRY_NOT_FOUND if registry_code.startswith("404") else error.status
            return _EXIT_CODE_OF_STATUS.get(status, ExitCode.REFUSED)
        case _:
            return ExitCode.FAILED


def end(
    exit_code: ExitCode, code: str, line: str, detail: Mapping[str, Any], *, as_json: bool
) -> NoReturn:
    """Print why a command failed, for people or for programs, and end it."""
    if as_json:
        facts = {
            name: number_in_json(name, fact) if type(fact) is int else fact
            for name, fact in detail.items()
        }
        body = ErrorBody(ProblemBody(code, line, facts))
        line = msgspec.json.encode(body, enc_hook=str).decode()
    print(line, file=sys.stderr)
    raise typer.Exit(exit_code)


_GIVE_ONE = "give a token by --token-file, TMS_TOKEN_FILE or TMS_TOKEN"


def line_of(error: TmsError, url: str, noun: str = "subscription") -> str:
    """Return the line for an error from `url`; `noun` is the kind of subscription.

    It is printable, whatever text the server sends.
    """
    return printable(_line_of(error, url, noun))


def _line_of(error: TmsError, url: str, noun: str) -> str:
    code, detail, url = error.problem.code, error.detail, without_credentials(url)
    match code:
        case "topic_not_found":
            namespace, _, name = str(detail.get("topic", "")).rpartition(":")
            return (
                f"There is no topic {name} in namespace {namespace}: make it with "
                f"`tms topic create {name}`, or see what there is with `tms topic list`."
            )
        case "subscription_not_found":
            topic, name = str(detail.get("topic", "")), detail.get("subscription", "")
            short = topic.rpartition(":")[2]
            return (
                f"Topic {topic} has no {noun} {name}: make it with "
                f"`tms {noun} create {short} {name}`, or see what there is with "
                f"`tms {noun} list {short}`."
            )
        case _:
            own = _of_transport(error, url) or _of_credentials(error, url) or str(error)
            return _reason_of_registry(detail) if code == "schema_refused" else own


def _of_transport(error: TmsError, url: str) -> str | None:
    """Return the line for an error of the connection to a server; None for another error."""
    place, reason = error.detail.get("url", url), error.detail.get("reason", "no reason is known")
    lines = {
        "server_unreachable": (
            f"No server at {place} ({reason}): start one with `tms serve`, or give the address of "
            "one with --url or TMS_URL."
        ),
        "not_tms": f"{place} answers, but it is not TMS: {reason}. Check --url or TMS_URL.",
        "answer_lost": f"No answer from {place} ({reason}): try again, or read its log.",
        "server_silent": (
            f"{place} accepts connections but does not answer: check --url or TMS_URL, and that "
            "the server does not hang. It is not known whether the request was carried out."
        ),
    }
    return lines.get(error.problem.code)


def _of_credentials(error: TmsError, url: str) -> str | None:
    """Return the line for an error of authentication or access; None for another error."""
    reason = f" ({error.detail['reason']})" if error.detail.get("reason") else ""
    lines = {
        "credentials_required": (
            f"The server requires credentials: {_GIVE_ONE}, or keep it in ~/.config/tms/token."
        ),
        "credentials_invalid": (
            f"The server refuses the credentials{reason}: {_GIVE_ONE}, a valid one. "
            "`tms auth token` makes new ones."
        ),
        "not_permitted": f"{error} `tms auth explain` says why.",
        "plaintext_credentials": (
            f"A token would go unencrypted to {error.detail.get('url', url)}: write https://, or "
            "set TMS_ALLOW_PLAINTEXT=1 if the network is safe."
        ),
    }
    return lines.get(error.problem.code)


def _reason_of_registry(detail: Mapping[str, Any]) -> str:
    return f"{detail.get('reason')} (error code {detail.get('error_code')})"
