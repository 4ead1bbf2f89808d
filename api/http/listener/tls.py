"""The server's certificate and key, which may change while it serves.

Guarantees that there is always a usable context: if the current files are not valid, that is
logged, and the last good context stays. Open connections keep theirs. Used on the event loop's
thread; `look` costs a `stat` of each file.
"""

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from tms.core.runtime.tls import TlsFiles, is_read_by_others, server_context

_log = logging.getLogger("tms.api")


class ServerTls:
    """The newest context that could be created from the files."""

    def __init__(self, files: TlsFiles, to_others: ssl.SSLContext | None = None) -> None:
        """Read the files. Raises `ValueError`, which names the wrong setting.

        `to_others`, the context for calls to other servers, gets each new certificate too.
        """
        self._to_others = to_others
        self._files = files
        self._seen = _state_of(files)
        self._context = server_context(files)
        if is_read_by_others(files.key):
            _log.warning(
                "tls_key: other users of this machine can read %s: run chmod 600 on it", files.key
            )

    @property
    def certificates(self) -> Sequence[str]:
        """The files with certificates."""
        return tuple(each for each in (self._files.cert, self._files.client_ca) if each)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        return self._context

    def look(self) -> None:
        """Read the files again if one of them has changed since they were read."""
        if _state_of(self._files) != self._seen:
            self.reload()

    def reload(self) -> None:
        """Read the files again. If they are not valid, log it and keep the last context."""
        self._seen = _state_of(self._files)
        try:
            self._context = server_context(self._files)
        except ValueError as error:
            _log.error(
                "the changed certificate is not valid, so the last one remains in use: %s", error
            )
        else:
            if self._to_others is not None:
                self._to_others.load_cert_chain(self._files.cert, self._files.key)
            _log.info("new connections use the certificate in %s from now on", self._files.cert)


def _state_of(files: TlsFiles) -> list[tuple[int, int, int] | None]:
    """Return a state of each file that changes with it; None for a missing file."""
    return [_state(Path(each)) for each in files.all]


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        now = file.stat()
    except OSError:
        return None
    return now.st_mtime_ns, now.st_size, now.st_ino
