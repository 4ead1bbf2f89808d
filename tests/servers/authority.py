"""Certificates for tests, made by openssl: authorities, and the certificates that they sign."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_OF_SERVER = "DNS:localhost,IP:127.0.0.1,IP:::1"
_EXPIRED_DAYS = "-1"


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key."""

    cert: Path
    key: Path

    @property
    def pair(self) -> tuple[str, str]:
        return str(self.cert), str(self.key)

    def become(self, other: "Issued") -> None:
        """Replace the files with those of another certificate, as a rotation does."""
        for mine, new in ((self.cert, other.cert), (self.key, other.key)):
            draft = mine.with_suffix(".new")
            draft.write_bytes(new.read_bytes())
            draft.replace(mine)


class Authority:
    """Signs certificates, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Make it."""
        folder.mkdir()
        self._folder = folder
        self.ca = folder / "ca.pem"
        self._key = folder / "ca-key.pem"
        where = ("-keyout", str(self._key), "-out", str(self.ca), "-days", "2")
        _openssl("req", "-x509", *_EC, *where, "-subj", f"/CN=authority {folder.name}")

    def issue(self, name: str, sans: str = _OF_SERVER, *, is_expired: bool = False) -> Issued:
        """Sign a certificate for a common name and alternative names, in openssl's notation."""
        stem = self._folder / f"issued{len(list(self._folder.iterdir()))}"
        request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        issued = Issued(stem.with_suffix(".pem"), stem.with_suffix(".key"))
        extensions.write_text(f"subjectAltName={sans}\n" if sans else "keyUsage=digitalSignature\n")
        _openssl(
            *("req", *_EC, "-keyout", str(issued.key), "-out", str(request)),
            *("-subj", f"/CN={name}" if name else "/O=nobody"),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.ca), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-out", str(issued.cert), "-extfile", str(extensions)),
            *("-days", _EXPIRED_DAYS if is_expired else "2"),
        )
        return issued


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
