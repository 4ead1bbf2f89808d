"""The recipes for nginx and HAProxy, run in front of a server, if they are installed."""

import re
import shutil
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tms
from tests.api.rest import TOPIC
from tests.docs.markdown import ROOT
from tests.servers.other_programs import running
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until

NAME = "tms.example"


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for `NAME` and localhost, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    names = [x509.DNSName(NAME), x509.DNSName("localhost")]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "tms.pem", folder / "tms.key"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    cert.write_bytes(public + private)
    secret.write_bytes(private)
    return cert, secret


def nginx(folder: Path, port: int, server: int) -> list[str]:
    cert, key = certificate(folder)
    site = (ROOT / "ops/nginx/tms.conf").read_text(encoding="utf-8")
    for old, new in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:11015", f"127.0.0.1:{server}"),
        ("/etc/nginx/tms.pem", str(cert)),
        ("/etc/nginx/tms.key", str(key)),
        ("server_name tms.example", "server_name tms.example localhost"),
    ):
        assert old in site
        site = site.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    whole = folder / "nginx.conf"
    whole.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{site}\n}}\n"
    )
    return ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(whole)]


def haproxy(folder: Path, port: int, server: int) -> list[str]:
    cert, _ = certificate(folder)
    text = (ROOT / "ops/haproxy/haproxy.cfg").read_text(encoding="utf-8")
    text = text.replace("bind :443", f"bind 127.0.0.1:{port}")
    text = text.replace("127.0.0.1:11015", f"127.0.0.1:{server}")
    text = text.replace("/etc/haproxy/tms.pem", str(cert))
    (folder / "haproxy.cfg").write_text(re.sub("maxconn 20000", "maxconn 200", text))
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


@pytest.mark.parametrize("proxy", [nginx, haproxy], ids=["nginx", "haproxy"])
def test_a_recipe_passes_requests_on(proxy: type, tmp_path: Path) -> None:
    if shutil.which(proxy.__name__) is None:
        pytest.skip(f"{proxy.__name__} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    flags = ("--allowed-hosts", NAME, "--trusted-proxies", "127.0.0.1", "--access-log")
    with ServerProcess("memory:", *flags) as server:
        assert server.port
        with running(proxy(tmp_path, port, server.port), port):
            url = f"https://localhost:{port}"
            trusted = ssl.create_default_context(cafile=str(tmp_path / "tms.pem"))
            with httpx.Client(base_url=url, verify=trusted) as http:
                wait_until(lambda: http.get("/health").status_code == httpx.codes.OK)
                sent = {"X-Request-Id": "mine", "X-Forwarded-For": "192.0.2.7", "Host": NAME}
                assert http.get("/health", headers=sent).headers["x-request-id"] == "mine"
                assert http.get("/health").headers["x-request-id"]
                wait_until(lambda: re.search(r" 192\.0\.2\.7 None GET /health .* mine", server.log))
                assert http.put(TOPIC).status_code == httpx.codes.OK
                with http.stream("GET", f"{TOPIC}/stream") as events:
                    lines = events.iter_lines()
                    for text in ("one", "two"):  # each arrives before the next one is published
                        sent = {"Content-Type": "text/plain"}
                        http.post(f"{TOPIC}/messages", content=text, headers=sent)
                        assert any(f'"payload":"{text}"' in line for line in lines)
            with tms.connect(url, ca=str(tmp_path / "tms.pem")) as client:
                topic = client.topic("orders")
                topic.create()
                topic.publish(b"x" * 3_000_000)
                assert [len(each.payload) for each in topic.poll()] == [3_000_000]
                assert [*topic.poll(after=[*topic.poll()][-1].id, wait_s=0.2)] == []
