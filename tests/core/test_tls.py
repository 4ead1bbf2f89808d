"""Errors for certificates and keys that cannot be used."""

import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.authority import Authority, Issued
from tms.core.runtime.tls import TlsFiles, client_context, server_context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("server")


def _encrypt(issued: Issued, authority: Authority) -> None:
    command = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", str(issued.key)]
    done = subprocess.run(command, check=True, capture_output=True)
    issued.key.write_bytes(done.stdout)


def _exchange(issued: Issued, authority: Authority) -> None:
    issued.key.write_bytes(authority.issue("another").key.read_bytes())


@pytest.mark.parametrize(
    ("damage", "setting", "told"),
    [
        (lambda issued, _: issued.cert.unlink(), "tls_cert", "cannot be read: No such file"),
        (lambda issued, _: issued.key.unlink(), "tls_key", "cannot be read: No such file"),
        (lambda issued, _: issued.cert.write_text("CANARY"), "tls_cert", "is not a certificate"),
        (lambda issued, _: issued.key.write_text("CANARY"), "tls_key", "is not a usable key"),
        (lambda issued, _: issued.cert.write_text(""), "tls_cert", "is not a certificate"),
        (_exchange, "tls_key", "does not belong to the certificate"),
        (_encrypt, "tls_key", "is encrypted"),
    ],
)
def test_what_is_wrong_is_reported_with_the_setting(
    authority: Authority,
    issued: Issued,
    damage: Callable[[Issued, Authority], object],
    setting: str,
    told: str,
) -> None:
    damage(issued, authority)

    with pytest.raises(ValueError, match=told) as raised:
        server_context(TlsFiles(*issued.pair))

    assert str(raised.value).startswith(f"{setting}: ")
    assert "CANARY" not in str(raised.value)


def test_wrong_authorities_are_reported(issued: Issued, tmp_path: Path) -> None:
    nothing = tmp_path / "ca.pem"
    nothing.write_text("nothing")

    with pytest.raises(ValueError, match=r"tls_client_ca: .* has no certificates"):
        server_context(TlsFiles(*issued.pair, client_ca=str(nothing)))
    with pytest.raises(ValueError, match=r"ca: .* has no certificates"):
        client_context(str(nothing))
    with pytest.raises(ValueError, match=r"tls_ca: .* cannot be read"):
        client_context(str(tmp_path / "gone"), names=("tls_ca", "tls_cert", "tls_key"))


def test_a_client_checks_the_server_and_its_name(authority: Authority, issued: Issued) -> None:
    for context in (client_context(), client_context(str(authority.ca), *issued.pair)):
        assert context.check_hostname
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
