"""The access log: one line for each answered request, if the setting `access_log` is on.

Its lines have no credentials and no query, and are printable, whatever a client sends.
"""

import logging

from api.http.exchange import Exchange
from tms.core.text.credentials import shortened
from tms.core.text.printable import printable

_PATH_CHARS_MAX = 500
_MS_PER_S = 1000

_log = logging.getLogger("tms.access")


class AccessLog:
    """The log, whatever the level of other logs is."""

    def __init__(self) -> None:
        _log.setLevel(logging.INFO)

    def add(self, exchange: Exchange, seconds: float) -> None:
        """Log a request with the status of its answer."""
        admission, operation = exchange.admission, exchange.operation
        session = None if admission is None else admission.session
        fields = {
            "address": exchange.address,
            "principal": None if session is None else session.identity.principal,
            "method": exchange.method,
            "path": printable(shortened(exchange.path, _PATH_CHARS_MAX)),
            "operation": None if operation is None else operation.name,
            "status": exchange.status,
            "bytes_in": exchange.bytes_in,
            "bytes_out": exchange.bytes_out,
            "ms": round(seconds * _MS_PER_S, 3),
            "request_id": exchange.request_id,
        }
        _log.info(
            "%(address)s %(principal)s %(method)s %(path)s %(status)d %(bytes_in)d %(bytes_out)d "
            "%(ms).3f ms %(request_id)s",
            fields,
            extra={"fields": fields},
        )
