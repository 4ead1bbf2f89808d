"""A client uses the proxy that the environment names, except to a server on the same machine."""

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(params=["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def no_such_proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(request.param, NOBODY)


@pytest.mark.usefixtures("no_such_proxy")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_asked_without_a_proxy(host: str) -> None:
    with FaultyServer(answer(200, b"[]"), answer(200, b"[]")) as server:
        url = f"http://{host}:{server.port}"
        for urls in (url, f"{url},http://tms.example:11015"):
            with tms.connect(urls) as client:
                assert client.topics() == []


@pytest.mark.parametrize("allow_plaintext", [False, True])
def test_another_machine_is_asked_by_the_proxy(
    monkeypatch: pytest.MonkeyPatch, *, allow_plaintext: bool
) -> None:
    with FaultyServer(answer(200, b"[]"), answer(200, b"[]")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        others = "http://tms.example:11015"
        with tms.connect(others, allow_plaintext=allow_plaintext) as client:
            assert client.topics() == []
        with tms.connect(f"{NOBODY},{others}", allow_plaintext=allow_plaintext) as client:
            assert client.topics() == []

        assert [each.line.split()[1] for each in proxy.requests] == [
            f"{others}/v1/namespaces/default/topics"
        ] * 2


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_reported(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with FaultyServer(answer(200, b"[]")) as server, tms.connect(server.url) as client:
        assert client.topics() == []
    with (
        tms.connect("http://tms.example:11015", retry_for_s=0) as client,
        pytest.raises(tms.ServerUnreachable, match="the proxy that the environment names"),
    ):
        client.topics()
