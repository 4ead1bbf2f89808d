"""A signer of JSON Web Tokens, and the server that publishes its keys over TLS."""

import asyncio
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, Private] = {"RS256": RSA, "ES256": EC, "EdDSA": ED}


def jwk(algorithm: str, key: Any, kid: str | None) -> dict[str, Any]:
    """Return a public key in the form of a JSON Web Key Set."""
    family = jwt.get_algorithm_by_name(algorithm)
    told: dict[str, Any] = json.loads(family.to_jwk(key.public_key()))
    told.pop("key_ops", None)
    return told if kid is None else {**told, "kid": kid}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


ALL = key_set(*(jwk(name, key, name) for name, key in KEYS.items()))
"""Each key under its algorithm's name."""


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate of 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "ca.pem", folder / "key.pem"


class KeyServer:
    """Answers each request over TLS, with the answer that a test sets."""

    def __init__(self, folder: Path) -> None:
        self.ca_file, self._key_file = map(str, write_certificate(folder))
        self.answer: bytes = ALL
        self.status = "200 OK"
        self.location = ""
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["KeyServer"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca_file, self._key_file)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            self.was_asked.set()
            await self.may_answer.wait()
            head = f"HTTP/1.1 {self.status}\r\nconnection: close\r\n{self.location}"
            writer.write(f"{head}content-length: {len(self.answer)}\r\n\r\n".encode())
            writer.write(self.answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
