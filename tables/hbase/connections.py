"""Connections to the Thrift gateway, and the outcomes that a call through them can have.

Three outcomes: it was answered; the gateway refused it (`Refused`), and says what nobody will take
as it is; or it failed (`CallFailed`), and a write may or may not have happened, or may still happen
while the gateway has not given up. The pool waits `timeout_s` for an answer. Set the gateway's own
`hbase.client.operation.timeout` below that: then what is repeated here is not under way there.

After a failed connection all idle ones are dropped too: a gateway that was restarted has forgotten
them all. Calls with the same effect when made twice are repeated until `retry_s` have passed.
"""

import math
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock
from typing import Any, Literal, TypeVar

import happybase
from Hbase_thrift import IllegalArgument
from Hbase_thrift import IOError as HBaseError
from thriftpy2.thrift import TException

from tables.hbase.tls import TlsConnection
from tms.core.errors import StoreUnavailable, Unavailable

T = TypeVar("T")

_PAUSE_S = 0.05
_PAUSE_S_MAX = 1.0
_REASON_CHARACTERS = 200
_FOREVER_REFUSED = ("DoNotRetryIOException: Cell with size",)
_MISSING = ("TableNotFoundException", "TableNotEnabledException", "TableNotDisabledException")
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
    """A pool of connections to one gateway, for many threads."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        size: int = 8,
        timeout_s: float = 30.0,
        retry_s: float = 15.0,
        transport: Literal["buffered", "framed"] = "buffered",
        protocol: Literal["binary", "compact"] = "binary",
        tls: ssl.SSLContext | None = None,
        guard: Callable[[], None] = lambda: None,
        idle_s_max: float = math.inf,
    ) -> None:
        """Keep the arguments, those of `happybase.Connection` among them; connect when asked.

        `guard` is called before each call, on a connection that is open by then; where it raises
        `Unavailable`, nothing is sent. And after it: then the call counts as one without an answer.
        A connection that was idle for `idle_s_max` is not used.
        """
        self.address = f"{host}:{port}"
        self.tls = tls
        """None where calls are not encrypted."""
        self.timeout_s = timeout_s
        """By when the gateway has given up whatever call was sent before."""
        self._retry_s = retry_s
        self._guard = guard
        self._idle_s_max = idle_s_max
        self._options = {
            "host": host,
            "port": port,
            "timeout": int(timeout_s * 1000),
            "transport": transport,
            "protocol": protocol,
            "autoconnect": False,
        }
        self.size = size
        """The most connections."""
        self._free = BoundedSemaphore(size)
        self._idle: list[tuple[float, Any]] = []
        """The connections that nobody uses, each with when it was used last."""
        self._lock = Lock()

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
        if not self._free.acquire(timeout=self.timeout_s):
            raise CallFailed("no connection became free in time", is_in_doubt=False)
        try:
            connection = self._take_idle()
            is_sent = False
            try:
                if connection is None:
                    connection = self._connect()
                connection.open()
                self._check()
                is_sent = True
                yield connection
            except (HBaseError, IllegalArgument, CallFailed, Refused):
                self._keep(connection)  # the answer was an error; the connection is as good as ever
                raise
            # thriftpy2 asserts that a socket which the other side has closed is there.
            except (TException, OSError, EOFError, AssertionError) as error:
                self._drop(connection)
                raise CallFailed(_said(error), is_in_doubt=is_sent) from None
            except BaseException:
                self._drop(connection)
                raise
            self._keep(connection)
        finally:
            self._free.release()

    def _check(self, *, is_in_doubt: bool = False) -> None:
        """Raise `CallFailed` where nothing may be sent now, and no answer be taken."""
        try:
            self._guard()
        except Unavailable as error:
            raise CallFailed(str(error), is_in_doubt=is_in_doubt) from None

    def _take_idle(self) -> Any:
        """Return the connection used last, None where none is fresh enough."""
        with self._lock:
            if not self._idle:
                return None
            used_s, connection = self._idle.pop()
        if time.monotonic() - used_s < self._idle_s_max:
            return connection
        _close(connection)
        self.close_idle()  # the others have been idle for longer
        return None

    def _connect(self) -> Any:
        if self.tls is None:
            return happybase.Connection(**self._options)
        return TlsConnection(self.tls, **self._options)

    def _keep(self, connection: Any) -> None:
        with self._lock:
            self._idle.append((time.monotonic(), connection))

    def _drop(self, connection: Any) -> None:
        _close(connection)
        self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            _close(connection)


def _close(connection: Any) -> None:
    if connection is not None:
        with suppress(TException, OSError):
            connection.close()


def _is_missing(said: str) -> bool:
    """Whether a table is not there: that does not change by waiting."""
    return any(name in said for name in _MISSING)


def _said(error: Exception) -> str:
    """Return the first line of an error; HBase gives Java's whole trace, as bytes.

    With its cause where thriftpy2 keeps that to itself: why there is no connection.
    """
    said = getattr(error, "message", None) or str(error) or type(error).__name__
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if isinstance(error.__context__, OSError):
        text = f"{text.strip()}: {error.__context__}"
    return text.partition("\n")[0][:_REASON_CHARACTERS]
