"""TLS and credentials, with real servers that require both."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dev.etcd import servers as etcd_servers
from dev.processes import HOST, CannotStart, Servers, free_ports
from dev.zookeeper import servers as zookeeper_servers
from tests.metadata.needed import needed
from tests.waiting import WAIT_S_MAX
from tms.core.errors import MetadataUnavailable
from tms.metadata.interface import MetadataStore
from tms.server.stores import open_metadata

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

USER, PASSWORD = "tms", "s/cr:t@"
QUOTED = "s%2Fcr%3At%40"


def openssl(folder: Path, *arguments: str) -> None:
    command = ["openssl", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=WAIT_S_MAX)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create ca.pem, and for server and client a .pem and a .key that the CA has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates need openssl: apt-get install openssl")
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl(folder, "req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("server", "client"):
        (folder / f"{name}.ext").write_text(
            "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        request = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(folder, "req", *key[:3], *request)
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
        openssl(folder, "x509", "-req", *files, *signed)
    both = (folder / "server.key").read_text() + (folder / "server.pem").read_text()
    (folder / "server-both.pem").write_text(both)
    return folder


@pytest.fixture(scope="module")
def tls_zookeeper(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if missing := needed("zk"):
        pytest.skip(f"ZooKeeper needs {', '.join(missing)}")
    (port,) = free_ports(1)
    settings = {
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(certificates / "server-both.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(certificates / "ca.pem"),
        "ssl.trustStore.type": "PEM",
    }
    servers = zookeeper_servers.start(tmp_path_factory.mktemp("tls-zk"), settings=settings)
    yield f"{HOST}:{port}"
    servers.stop()


@pytest.fixture(scope="module")
def tls_etcd(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = [
        f"--cert-file={certificates / 'server.pem'}",
        f"--key-file={certificates / 'server.key'}",
        f"--trusted-ca-file={certificates / 'ca.pem'}",
        "--client-cert-auth",
    ]
    try:
        servers = etcd_servers.start(tmp_path_factory.mktemp("tls-etcd"), options=options)
    except CannotStart as error:
        pytest.skip(str(error))
    yield servers.addresses
    servers.stop()


@pytest.fixture(params=["zk", "etcd"])
def tls(request: pytest.FixtureRequest) -> str:
    """The URL of a store whose server requires TLS with client certificates."""
    name = "tls_zookeeper" if request.param == "zk" else "tls_etcd"
    return f"{request.param}://{request.getfixturevalue(name)}/tms"


async def works(store: MetadataStore) -> bool:
    await store.put("/k", b"v")
    found = await store.get("/k")
    await store.close()
    return found is not None and found.value == b"v"


async def test_tls_both_ways(tls: str, certificates: Path) -> None:
    files = "&".join(
        f"{option}={certificates / name}"
        for option, name in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    )

    assert await works(await open_metadata(f"{tls}?{files}"))


async def test_without_tls_or_a_certificate_there_is_no_connection(
    tls: str, certificates: Path
) -> None:
    for options in ("", f"&ca={certificates / 'ca.pem'}"):
        with pytest.raises(MetadataUnavailable):
            await open_metadata(f"{tls}?session_timeout_s=2{options}")


async def test_files_that_are_not_there_are_reported(tls: str) -> None:
    with pytest.raises(MetadataUnavailable, match="cannot set up TLS"):
        await open_metadata(f"{tls}?ca=/nowhere.pem")


async def test_a_server_that_the_authority_does_not_vouch_for_is_none(
    tls: str, certificates: Path
) -> None:
    options = f"ca={certificates / 'client.pem'}"
    files = f"cert={certificates / 'client.pem'}&key={certificates / 'client.key'}"
    with pytest.raises(MetadataUnavailable):
        await open_metadata(f"{tls}?session_timeout_s=2&{options}&{files}")


@pytest.fixture
async def guarded_etcd(tmp_path: Path) -> AsyncIterator[Servers]:
    """An etcd that requires authentication."""
    try:
        servers = etcd_servers.start(tmp_path)
    except CannotStart as error:
        pytest.skip(str(error))
    root = etcd_servers.Administration(servers)
    root.add_user("root", "root", "root")
    root.add_role(USER, "/tms/", "/tms0")
    root.add_role(USER, "/tms%", "/tms&")
    root.add_user(USER, PASSWORD, USER)
    root.enable()
    yield servers
    servers.stop()


async def test_etcd_takes_a_user_with_the_password(guarded_etcd: Servers) -> None:
    hosts = guarded_etcd.addresses
    store = await open_metadata(f"etcd://{USER}:{QUOTED}@{hosts}/tms")
    assert (await store.put("/seq", b"", sequential=True)).version == 0
    assert await works(store)

    for who in ("", f"{USER}:wrong@"):
        with pytest.raises(MetadataUnavailable) as caught:
            await open_metadata(f"etcd://{who}{hosts}/tms?session_timeout_s=2")
        assert PASSWORD not in str(caught.value)


async def test_zookeeper_lets_only_its_user_see_the_values(zookeeper: Servers) -> None:
    hosts = zookeeper.addresses
    store = await open_metadata(f"zk://{USER}:{QUOTED}@{hosts}/guarded")
    await store.put("/k", b"v")
    for who in ("", f"{USER}:wrong@"):
        with pytest.raises(MetadataUnavailable, match="NoAuth"):
            await open_metadata(f"zk://{who}{hosts}/guarded?session_timeout_s=5")

    assert await works(store)
