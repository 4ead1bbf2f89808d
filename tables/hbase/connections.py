"""Calls through the Thrift gateway, and the outcomes that one can have.

There are three outcomes: an answer; a refusal (`Refused`) of a call that HBase will never accept as
it is; or a failure (`CallFailed`), after which a write may or may not have happened, or may still
happen until the gateway gives up. A call waits `timeout_s` for an answer. Set the gateway's own
`hbase.client.operation.timeout` below that, so that a call repeated here is no longer in progress
there. Idempotent calls are repeated until `retry_s` have passed.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import happybase  # noqa: F401  the next imports need it first
from Hbase_thrift import IllegalArgument
from Hbase_thrift import IOError as HBaseError
from thriftpy2.thrift import TException

from tables.hbase.pool import ConnectionPool, Share
from tms.core.errors import StoreUnavailable, Unavailable
from tms.core.services.findings import OUT_OF_MEMORY

T = TypeVar("T")

_PAUSE_S = 0.05
_PAUSE_S_MAX = 1.0
_REASON_CHARACTERS = 300
_FOREVER_REFUSED = ("DoNotRetryIOException: Cell with size", "DoNotRetryIOException: Cell[")
"""Sent by a region server if a cell is too large; the latter in HBase 2.6."""
_MISSING = ("TableNotFoundException", "TableNotEnabledException", "TableNotDisabledException")
_LACKS_MEMORY = ("OutOfMemoryError", "GC overhead limit", "RegionTooBusyException")
"""Found in Java's trace if a region server has no memory left, or none for more writes."""
SCANNER_GONE = "scanner ID is invalid"


class CallFailed(Exception):
    """Raised when a call failed; it may succeed when repeated."""

    def __init__(self, reason: str, *, is_in_doubt: bool = True) -> None:
        """Keep the reason. `is_in_doubt`: the call may have had an effect, or may still do."""
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class Refused(Exception):
    """Raised when the gateway or HBase will not carry out a call as it is, now or later."""

    is_in_doubt = False
    """Whether a part of the call may have been carried out all the same."""


class Gateway:
    """One user's calls to a gateway, over connections of a pool, from many threads."""

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
        """Use at most `size` connections of `pool`, by default a new one with these `options`.

        In a shared pool, `own` connections are always available: one to write, and one to read.
        `guard` is called before each call, when the connection is open; if it raises `Unavailable`,
        nothing is sent. It is also called after each call; if it raises then, the call counts as
        unanswered.
        """
        self.address = f"{host}:{port}"
        self.timeout_s = timeout_s
        """The time after which the gateway has given up any call."""
        self._retry_s = retry_s
        self._guard = guard
        self._pool = pool or ConnectionPool(host, port, timeout_s=timeout_s, **options)
        self.size = size
        """The maximum number of connections."""
        self._share = Share(self._pool, size, own)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """None if calls are not encrypted."""
        return self._pool.tls

    def once(self, call: Callable[[Any], T]) -> T:
        """Return the result of `call` with a gateway's client. Raises `CallFailed`, `Refused`."""
        with self._connection() as connection:
            try:
                answer = call(connection.client)
            except HBaseError as error:
                message = _message_of(error)
                if any(message.find(part) >= 0 for part in _FOREVER_REFUSED):
                    raise Refused(message) from None
                raise CallFailed(message, is_in_doubt=not _is_missing(message)) from None
            except IllegalArgument as error:
                raise Refused(_message_of(error)) from None
            # A write carried out after another leader took over may stay hidden under that leader.
            self._check(is_in_doubt=True)
            return answer

    def repeated(self, call: Callable[[Any], T], on_doubt: Callable[[], None] = lambda: None) -> T:
        """Return the result of `call`, repeated while it fails, for a bounded time.

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
        """Return the result of a `call` that only reads. Raises `StoreUnavailable`."""
        try:
            return self.repeated(call)
        except (CallFailed, Refused) as failure:
            raise StoreUnavailable(gateway=self.address, reason=str(failure)) from None

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Lend a connection to this thread alone; after a failure it is not used again."""
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
            # thriftpy2 raises AssertionError if the other side has closed the socket.
            except (TException, OSError, EOFError, AssertionError) as error:
                self._pool.drop(connection)
                raise CallFailed(_message_of(error), is_in_doubt=is_sent) from None
            except BaseException:
                self._pool.drop(connection)
                raise
            self._pool.keep(connection)
        finally:
            self._share.leave()

    def _check(self, *, is_in_doubt: bool = False) -> None:
        """Raise `CallFailed` if no call may be sent now, and no answer used."""
        try:
            self._guard()
        except Unavailable as error:
            raise CallFailed(str(error), is_in_doubt=is_in_doubt) from None

    def _connect(self) -> Any:
        return self._pool.connect()

    def close(self) -> None:
        """Release the connections, once no call is in progress."""
        self._share.end()


def _is_missing(message: str) -> bool:
    """Whether the error says that a table is missing, which waiting does not change."""
    return any(name in message for name in _MISSING)


def _message_of(error: Exception) -> str:
    """Return the first line of an error; HBase sends Java's whole trace, as bytes.

    It includes the cause of a failed connection, which thriftpy2 leaves out, and the lack of memory
    that Java's trace reports.
    """
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    if lacking := next((name for name in _LACKS_MEMORY if name in text), None):
        text = f"HBase is {OUT_OF_MEMORY} ({lacking}): {text}"
    if isinstance(error.__context__, OSError):
        text = f"{text.strip()}: {error.__context__}"
    return text.partition("\n")[0][:_REASON_CHARACTERS]
