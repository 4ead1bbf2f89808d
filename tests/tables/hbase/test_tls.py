"""A gateway behind a TLS terminator is used, or refused if its certificate is not trusted."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.hbase.tls import context
from tables.store import MESSAGE
from tests.contracts.store_contract import put, rows_of
from tests.waiting import WAIT_S_MAX
from tms.core.errors import StoreUnavailable

pytestmark = pytest.mark.slow


def certificate(folder: Path, name: str) -> Path:
    """Make a self-signed certificate of 127.0.0.1, with the key in the same file."""
    key, found = folder / f"{name}.key", folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(found)]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S_MAX)
    found.write_text(found.read_text(encoding="utf-8") + key.read_text(encoding="utf-8"))
    return found


class Terminator:
    """Talks TLS to clients with a given certificate, and forwards their bytes to a port."""

    def __init__(self, port: int, own: Path, client: Path) -> None:
        self._port = port
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(own)
        self._tls.load_verify_locations(client)
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                try:
                    plain.settimeout(20)
                    client = self._tls.wrap_socket(plain, server_side=True)
                    client.settimeout(None)
                except OSError:
                    plain.close()
                    continue
                gateway = socket.create_connection(("127.0.0.1", self._port))
                for ends in ((client, gateway), (gateway, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
    source.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificates, with keys, of the gateway and of our client."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made by openssl: apt-get install openssl")
    folder: Path = tmp_path_factory.mktemp("tls")
    return certificate(folder, "gateway"), certificate(folder, "ours")


@pytest.fixture(scope="module")
def tls_place(place: Place, files: tuple[Path, Path]) -> Iterator[Place]:
    """The store of the other tests, behind TLS."""
    terminator = Terminator(place.port, *files)
    yield replace(place, port=terminator.port)
    terminator.close()


def test_a_store_is_served_through_tls(tls_place: Place, files: tuple[Path, Path]) -> None:
    gateway = Gateway(tls_place.host, tls_place.port, tls=context(*map(str, files)))
    assert create(tls_place, gateway).tables == []
    store = HBaseStore(tls_place, gateway)
    put(store, MESSAGE, (b"ns:tls:1", b"v"))

    assert (b"ns:tls:1", b"v") in rows_of(store, MESSAGE)
    store.close()


def test_a_gateway_that_is_not_trusted_is_not_used(tls_place: Place) -> None:
    gateway = Gateway(tls_place.host, tls_place.port, retry_s=0.0, tls=context(None, None))
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        HBaseStore(tls_place, gateway)


def test_without_a_certificate_of_ours_it_does_not_answer(
    tls_place: Place, files: tuple[Path, Path]
) -> None:
    for tls in (None, context(str(files[0]), None)):
        gateway = Gateway(tls_place.host, tls_place.port, retry_s=0.0, timeout_s=5.0, tls=tls)
        with pytest.raises(StoreUnavailable):
            HBaseStore(tls_place, gateway)


def test_files_that_are_not_certificates_are_reported(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing", encoding="utf-8")
    for given in ((str(bad), None), (None, str(bad)), (str(tmp_path / "missing"), None)):
        with pytest.raises(OSError):  # noqa: PT011  of ssl, whose texts change
            context(*given)
