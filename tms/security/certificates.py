"""The principal in a client's certificate, and the end of certificates in a file.

Guarantees that no certificate names a group, everybody, a server of the cluster, or anonymous
callers, because rules apply to those names, and signing certificates is not granting rights. The
certificate must be verified; the names in it are not looked up anywhere.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tms.security.principals import reason_against


def principal_of_certificate(peercert: Mapping[str, Any]) -> str | None:
    """Return the principal of a verified certificate, from `SSLSocket.getpeercert`.

    It is the URI among its subject's alternative names, or else its common name. None if it has
    neither, several of one kind, or a name that is not allowed.
    """
    uris = [value for kind, value in peercert.get("subjectAltName", ()) if kind == "URI"]
    if uris:
        return _only(uris)
    pairs = (pair for part in peercert.get("subject", ()) for pair in part)
    return _only(value for kind, value in pairs if kind == "commonName")


def first_end(file: str) -> datetime:
    """Return when the first certificate in a file ends.

    Raises `OSError`, `ValueError` if it has none, `ModuleNotFoundError` without the extra auth.
    """
    from cryptography import x509  # noqa: PLC0415  an extra

    certificates = x509.load_pem_x509_certificates(Path(file).read_bytes())
    return min(each.not_valid_after_utc for each in certificates)


def _only(names: Iterable[str]) -> str | None:
    present = list(names)
    return present[0] if len(present) == 1 and reason_against(present[0]) is None else None
