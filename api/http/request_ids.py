"""Ids of requests: the one in `X-Request-Id`, or one of our own if there is none that is valid.

An id is made only for a request that needs one: its answer is an error, the audit records it, or
the access log is on. Ids of one process differ, and those of others almost certainly.
"""

import re
import secrets
from collections.abc import Mapping
from itertools import count

HEADER = b"x-request-id"
_VALID = re.compile(rb"[!-~]{1,128}")
_PROCESS = secrets.token_hex(6)
_numbers = count(1)


def request_id_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the id of the request with these headers, or a new one."""
    sent = headers.get(HEADER)
    if sent is not None and _VALID.fullmatch(sent):
        return sent.decode("ascii")
    return f"{_PROCESS}-{next(_numbers):x}"
