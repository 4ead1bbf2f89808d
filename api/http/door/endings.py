"""The expiry of a server's credentials: its certificates, and the tokens that it knows."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from api.http.door.access_control import AccessControl
from tms.core.services.findings import Ending
from tms.security.certificates import first_end


class Endings:
    """Certificates in files, and tokens."""

    def __init__(self, access: AccessControl | None, certificates: Sequence[str]) -> None:
        """Report on certificate files, and on the tokens that `access` knows."""
        self._access = access
        self._certificates = certificates if importlib.util.find_spec("cryptography") else ()
        self._read: dict[str, tuple[int, Ending | None]] = {}
        """By file: the time at which it was written, and its expiry."""

    def __call__(self) -> list[Ending]:
        """Return the expiries; a certificate is read again once its file has changed."""
        endings = [
            Ending(f"token {token_id} of {kept.principal}", kept.expires_ms, fails=False)
            for token_id, kept in (
                () if self._access is None else self._access.grants.tokens.items()
            )
            if kept.expires_ms is not None
        ]
        certificates = (self._certificate(file) for file in self._certificates)
        return [*endings, *(certificate for certificate in certificates if certificate is not None)]

    def _certificate(self, file: str) -> Ending | None:
        try:
            written = Path(file).stat().st_mtime_ns
            read_before = self._read.get(file)
            if read_before is not None and read_before[0] == written:
                return read_before[1]
            ends = first_end(file)
        except (OSError, ValueError):
            return None
        ending = Ending(f"certificate {file}", int(ends.timestamp() * 1000), fails=True)
        self._read[file] = written, ending
        return ending
