"""Calls through the Thrift gateway, and the outcomes that one can have.

Three outcomes: it was answered; the gateway refused it (`Refused`), and says what nobody will take
as it is; or it failed (`CallFailed`), and a write may or may not have happened, or may still happen
while the gateway has not given up. A call waits `timeout_s` for an answer. Set the gateway's own
`hbase.client.operation.timeout` below that: then what is repeated here is not under way there.
Calls with the same effect when made twice are repeated until `retry_s` have passed.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import happybase  # noqa: F401  what follows needs it imported first
from Hbase_thrift import IllegalArgument
from Hbase_thrift import IOError as HBaseError
from thriftpy2.thrift import TException

from tables.hbase.pool import ConnectionPool, Share
from tms.core.errors import StoreUnavailable, Unavailable
from tms.core.services.findings import OUT_OF_MEMORY

T = TypeVar("T")

_PAUSE_S = 0.05
_PAUSE_S_MAX = 1.0
_REASON_CHARACTERS = 200
_FOREVER_REFUSED = ("DoNotRetryIOException: Cell with size",)
_MISSING = ("TableNotFoundException", "TableNotEnabledException", "TableNotDisabledException")
_LACKS_MEMORY = ("OutOfMemoryError", "GC overhead limit", "RegionTooBusyException")
"""Parts of Java's trace if a region server has no memory left, or none for more writes."""
SCANNER_GONE = "scanner ID is invalid"


class CallFailed(Exception):
    """Raised when a call failed: made again, it may succeed."""

    def __init__(self, said: str, *, is_in_doubt: bool = True) -> None:
        """Keep what is known of it; `is_in_doubt`: it may have had an effect, or have one yet."""
        super().__init__(said)
        self.is_in_doubt = is_in_doubt


class Refused(Exception):
    """Raised when the gateway or HBase will not carry out a call as it is, now or later."""

    is_in_doubt = False
    """Whether a part of what was to be done may have been done all the same."""


class Gateway:
    """The calls of one user to a gateway, by connections of a pool, for many threads."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        size: int = 8,
        timeout_s: float = 30.0,
        retry_s: float = 15.0,
        guard: Callable[[], None] = lambda: None,
        pool: ConnectionPool | None = None,
        own: int = 2,
        **options: Any,
    ) -> None:
        """Have at most `size` connections of `pool`; None: of one of its own, with its `options`.

        Of a pool that others use, `own` are there at any time: one to write, and one to read.
        `guard` is called before each call, on a connection that is open by then; where it raises
        `Unavailable`, nothing is sent. And after it: then the call counts as one without an answer.
        """
        self.address = f"{host}:{port}"
        self.timeout_s = timeout_s
        """By when the gateway has given up whatever call was sent before."""
        self._retry_s = retry_s
        self._guard = guard
        self._pool = pool or ConnectionPool(host, port, timeout_s=timeout_s, **options)
        self.size = size
        """The most connections."""
        self._share = Share(self._pool, size, own)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """None where calls are not encrypted."""
        return self._pool.tls

    def once(self, call: Callable[[Any], T]) -> T:
        """Return what `call` returns of a gateway's client. Raises `CallFailed`, `Refused`."""
        with self._connection() as connection:
            try:
                answer = call(connection.client)
            except HBaseError as error:
                said = _said(error)
                if any(said.find(known) >= 0 for known in _FOREVER_REFUSED):
                    raise Refused(said) from None
                raise CallFailed(said, is_in_doubt=not _is_missing(said)) from None
            except IllegalArgument as error:
                raise Refused(_said(error)) from None
            # What was done after another was let in may be what that one will never show.
            self._check(is_in_doubt=True)
            return answer

    def repeated(self, call: Callable[[Any], T], on_doubt: Callable[[], None] = lambda: None) -> T:
        """Return what `call` returns, made again while it fails, for a bounded time.

        `on_doubt` is called after each failure that is in doubt. Raises `CallFailed` with the last
        failure, and `Refused`; both are in doubt if any attempt was.
        """
        give_up, pause_s = time.monotonic() + self._retry_s, 0.0
        was_in_doubt = False
        while True:
            try:
                return self.once(call)
            except CallFailed as failure:
                if failure.is_in_doubt:
                    was_in_doubt = True
                    on_doubt()
                if time.monotonic() + pause_s >= give_up or _is_missing(str(failure)):
                    failure.is_in_doubt = was_in_doubt
                    raise
            except Refused as refusal:
                refusal.is_in_doubt = was_in_doubt
                raise
            time.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, pause_s * 2 or _PAUSE_S)

    def read(self, call: Callable[[Any], T]) -> T:
        """Return what `call` reads. Raises `StoreUnavailable`."""
        try:
            return self.repeated(call)
        except (CallFailed, Refused) as failure:
            raise StoreUnavailable(gateway=self.address, reason=str(failure)) from None

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Give a connection to this thread alone; what fails on it is not used again."""
        if not self._share.enter(self.timeout_s):
            raise CallFailed("no connection became free in time", is_in_doubt=False)
        try:
            connection = self._pool.take_idle()
            is_sent = False
            try:
                if connection is None:
                    connection = self._connect()
                connection.open()
                self._check()
                is_sent = True
                yield connection
            except (HBaseError, IllegalArgument, CallFailed, Refused):
                self._pool.keep(connection)  # the answer was an error; the connection is good
                raise
            # thriftpy2 asserts that a socket which the other side has closed is there.
            except (TException, OSError, EOFError, AssertionError) as error:
                self._pool.drop(connection)
                raise CallFailed(_said(error), is_in_doubt=is_sent) from None
            except BaseException:
                self._pool.drop(connection)
                raise
            self._pool.keep(connection)
        finally:
            self._share.leave()

    def _check(self, *, is_in_doubt: bool = False) -> None:
        """Raise `CallFailed` where nothing may be sent now, and no answer be taken."""
        try:
            self._guard()
        except Unavailable as error:
            raise CallFailed(str(error), is_in_doubt=is_in_doubt) from None

    def _connect(self) -> Any:
        return self._pool.connect()

    def close(self) -> None:
        """Let the connections go, once nothing is under way."""
        self._share.end()


def _is_missing(said: str) -> bool:
    """Whether a table is not there: that does not change by waiting."""
    return any(name in said for name in _MISSING)


def _said(error: Exception) -> str:
    """Return the first line of an error; HBase gives Java's whole trace, as bytes.

    With its cause where thriftpy2 keeps that to itself: why there is no connection; and with that
    of Java's trace which tells of memory.
    """
    said = getattr(error, "message", None) or str(error) or type(error).__name__
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if lacking := next((name for name in _LACKS_MEMORY if name in text), None):
        text = f"HBase is {OUT_OF_MEMORY} ({lacking}): {text}"
    if isinstance(error.__context__, OSError):
        text = f"{text.strip()}: {error.__context__}"
    return text.partition("\n")[0][:_REASON_CHARACTERS]
