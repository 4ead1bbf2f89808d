"""The message of a failed command: one line on standard error that says what to change."""

from collections.abc import Mapping
from typing import Any

from tms.core.credentials import without_credentials
from tms.core.errors import TmsError

_GIVE_ONE = "give a token by --token-file, TMS_TOKEN_FILE or TMS_TOKEN"


def line_of(error: TmsError, url: str) -> str:
    """Return the line for `error`, met while talking to `url`."""
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
                f"Topic {topic} has no subscription {name}: make it with "
                f"`tms subscription create {short} {name}`, or see what there is with "
                f"`tms subscription list {short}`."
            )
        case _:
            own = _of_transport(error, url) or _of_credentials(error, url) or str(error)
            return _reason_of_registry(detail) if code == "schema_refused" else own


def _of_transport(error: TmsError, url: str) -> str | None:
    """Return the line for an error of the way to a server; None for another one."""
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
    """Return the line for an error of authentication or access; None for another one."""
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
