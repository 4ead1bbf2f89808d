"""The errors of connections, as ours.

`ServerUnreachable` where no connection was made and so nothing was sent, `NotTms` for a server that
is not trusted, else `OutcomeUnknown`, whatever was raised. What the connections raise is not kept
as the cause, because that tells nobody more; its reason is kept.
"""

import ssl
import zlib

from tms.core.errors import (
    AnswerLost,
    InternalError,
    NotTms,
    OutcomeUnknown,
    ServerUnreachable,
    TmsError,
)
from tms.outgoing.answer import BrokenAnswer, reason_of
from tms.outgoing.compressed import UnknownCoding
from tms.outgoing.upstream import NotSent

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_TRUST_IT = "name the file of its authority by ca, --ca or TMS_CA"


def typed_error(error: Exception, url: str, *, is_read: bool = False) -> TmsError:
    """Return ours for what connections raise; ours as it is.

    For a request that only reads, `AnswerLost`: its outcome is of no interest.
    """
    typed = error if isinstance(error, TmsError) else _typed(error, url)
    if not is_read or type(typed) is not OutcomeUnknown:
        return typed
    lost = AnswerLost(**typed.detail)
    lost.__cause__ = typed.__cause__
    return lost


def _typed(error: Exception, url: str) -> TmsError:
    if isinstance(error, NotSent):
        distrust = _distrust(error)
        if distrust is not None:
            return NotTms(url=url, reason=distrust)
        return ServerUnreachable(url=url, reason=reason_of(error))
    if isinstance(error, BrokenAnswer):
        return OutcomeUnknown(url=url, reason=reason_of(error))
    kind = InternalError if isinstance(error, zlib.error | UnknownCoding) else OutcomeUnknown
    typed = kind(url=url, reason=reason_of(error))
    typed.__cause__ = error  # whatever else breaks below
    return typed


def was_not_sent(error: BaseException) -> bool:
    """Whether there was no connection, be it because the server is not trusted."""
    return isinstance(error.__context__, NotSent)


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
