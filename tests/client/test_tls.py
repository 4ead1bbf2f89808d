"""A client over TLS, and a server in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
import tms.aio
from tests.cli.conftest import run_command
from tests.servers.authority import Authority, Issued
from tests.servers.server_process import ServerProcess


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("server")


@pytest.fixture(scope="module")
def secured(authority: Authority, issued: Issued) -> Iterator[ServerProcess]:
    cert, key = issued.pair
    with ServerProcess(
        "memory:", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", str(authority.ca)
    ) as server:
        yield server
        assert server.stop() == 0


def test_all_goes_over_tls(secured: ServerProcess, authority: Authority, namespace: str) -> None:
    alice = authority.issue("alice", "")
    for name, certificate in (("nobody", None), ("alice", alice.pair)):
        with tms.connect(
            secured.url, namespace, ca=authority.ca, certificate=certificate
        ) as client:
            topic = client.topic(name)
            topic.create()
            topic.publish([b"x" * 100_000] * 20)
            assert sum(len(each.payload) for each in topic.poll()) == 2_000_000


def test_the_environment_names_the_authority(
    secured: ServerProcess,
    authority: Authority,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    alice = authority.issue("alice", "")
    monkeypatch.setenv("TMS_CA", str(authority.ca))
    monkeypatch.setenv("TMS_CERTIFICATE", str(alice.cert))
    monkeypatch.setenv("TMS_CERTIFICATE_KEY", str(alice.key))

    with tms.connect(secured.url, namespace) as client:
        assert client.topics() == []
    monkeypatch.setenv("TMS_CERTIFICATE_KEY", str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"TMS_CERTIFICATE_KEY: .*gone cannot be read"):
        tms.connect(secured.url)


@pytest.mark.anyio
async def test_asyncio_speaks_it_too(
    secured: ServerProcess, authority: Authority, namespace: str
) -> None:
    async with await tms.aio.connect(secured.url, namespace, ca=authority.ca) as client:
        assert await client.topics() == []


def test_a_server_that_is_not_trusted_is_reported_at_once(secured: ServerProcess) -> None:
    with tms.connect(secured.url) as client, pytest.raises(tms.NotTms, match="TMS_CA") as raised:
        client.topics()

    assert "is not trusted" in raised.value.detail["reason"]


def test_https_if_there_is_no_tls_is_reported(server: ServerProcess, authority: Authority) -> None:
    url = server.url.replace("http:", "https:")
    with tms.connect(url, ca=authority.ca) as client, pytest.raises(tms.NotTms, match="http://"):
        client.topics()


@pytest.mark.parametrize("made", ["with", "without"])
def test_a_server_does_not_start_by_files_that_it_cannot_use(
    authority: Authority, issued: Issued, made: str, tmp_path: Path
) -> None:
    other = authority.issue("other").key if made == "with" else tmp_path / "gone.pem"
    files = ("--tls-cert", str(issued.cert), "--tls-key", str(other))
    code, _, err = run_command("serve", "--store", "memory:", *files)

    assert code == 1
    assert err.startswith("Cannot serve memory:: tls_key: ")
    assert "Traceback" not in err


def test_a_key_that_others_may_read_is_warned_of(authority: Authority) -> None:
    issued = authority.issue("server")
    issued.key.chmod(0o644)
    cert, key = issued.pair
    with ServerProcess("memory:", "--tls-cert", cert, "--tls-key", key) as server:
        assert server.url
        assert server.stop() == 0

    assert f"other users of this machine can read {key}: run chmod 600 on it" in server.log


def test_a_url_without_tls_is_reported_as_what_it_is(secured: ServerProcess) -> None:
    url = secured.url.replace("https://", "http://")
    reason = "it speaks TLS: write https://"
    with tms.connect(url) as client:
        for call in (client.topics, client.topic("t").create):
            with pytest.raises(tms.NotTms) as wrong:
                call()
            assert wrong.value.detail == {"url": url, "reason": reason}

    told = f"{url} answers, but it is not TMS: {reason}. Check --url or TMS_URL.\n"
    assert run_command("--url", url, "topic", "list") == (1, "", told)
    assert run_command("--url", url, "publish", "t", "x") == (1, "", told)
