"""Converts the errors of connections to ours.

`ServerUnreachable` if no connection was made and so nothing was sent, `NotTms` for a server that is
not trusted, `OutcomeUnknown` for any other error. The original error is not kept as the cause,
because it says no more; its reason is kept.
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
    """Convert an error of a connection to ours; return ours unchanged.

    For a request that only reads, `AnswerLost`: its outcome does not matter.
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
    typed.__cause__ = error  # any other failure
    return typed


def was_not_sent(error: BaseException) -> bool:
    """Whether there was no connection, even if only because the server is not trusted."""
    return isinstance(error.__context__, NotSent)


def _distrust(error: BaseException) -> str | None:
    """Return why a server is not trusted for its https:// URL; None for another failure."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message}): {_TRUST_IT}"
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", None) in _NO_TLS:
            return "it does not speak TLS: write http://, if that is meant"
        cause = cause.__cause__ or cause.__context__
    return None
