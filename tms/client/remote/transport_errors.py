"""The errors of HTTP's transport, as ours.

`ServerUnreachable` where no connection was made and so nothing was sent, `NotTms` for a server that
is not trusted, else `OutcomeUnknown`, whatever was raised. Only sending and receiving belong below
`typed_errors`: the errors of a caller's own code are its own. What httpx and what is below it raise
is not kept as the cause, because that is a hundred lines of others' code; its reason is kept.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tms.core.errors import (
    AnswerLost,
    InternalError,
    NotTms,
    OutcomeUnknown,
    ServerUnreachable,
    TmsError,
)
from tms.core.runtime.http_connections import reason_of

CALLS_MAX = 1000
"""So many calls are under way at a time; more wait for their turn. Polls, which may wait for
messages, or for whoever takes them, have connections of their own: only the server bounds them."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_TRUST_IT = "name the file of its authority by ca, --ca or TMS_CA"


@contextmanager
def typed_errors(url: str) -> Iterator[None]:
    """Raise what a transport raises as ours. Ours pass."""
    try:
        yield
    except TmsError:
        raise
    except httpx.ConnectError as error:
        distrust = _distrust(error)
        if distrust is not None:
            raise NotTms(url=url, reason=distrust) from None
        raise ServerUnreachable(url=url, reason=reason_of(error)) from None
    except httpx.PoolTimeout:
        reason = f"{CALLS_MAX} other calls of this client were in progress all the time"
        raise ServerUnreachable(url=url, reason=reason) from None
    except (httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise ServerUnreachable(url=url, reason=reason_of(error)) from None
    except httpx.DecodingError as error:
        raise InternalError(url=url, reason=reason_of(error)) from error
    except httpx.TransportError as error:
        raise OutcomeUnknown(url=url, reason=reason_of(error)) from None
    except Exception as error:  # whatever else breaks below httpx
        raise OutcomeUnknown(url=url, reason=reason_of(error)) from error


def was_not_sent(error: BaseException) -> bool:
    """Whether there was no connection, be it because the server is not trusted."""
    return isinstance(error.__context__, httpx.ConnectError)


@contextmanager
def told_of_lost_answers(*, is_read: bool) -> Iterator[None]:
    """Raise `AnswerLost` for a request that only reads: its outcome is of no interest."""
    try:
        yield
    except OutcomeUnknown as error:
        if not is_read or type(error) is not OutcomeUnknown:
            raise
        raise AnswerLost(**error.detail) from error.__cause__


def _distrust(error: BaseException) -> str | None:
    """Return why a server is not what its https:// URL says; None if that was not the failure."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message}): {_TRUST_IT}"
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", None) in _NO_TLS:
            return "it does not speak TLS: write http://, if that is meant"
        cause = cause.__cause__ or cause.__context__
    return None
