"""The credentials of a client: their sources, where they may go, and that nothing shows them."""

import asyncio
import base64
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tms
import tms.aio
from tests.servers.guard import Guard, guarding
from tests.servers.server_process import ServerProcess
from tests.waiting import turns
from tms.client.remote.access import ANYBODY, Access, access_of
from tms.client.remote.credentials import Credentials, credentials_of

CANARY = "tms_aaaaaaaaaaaa_CANARYCANARY"
OTHER = "tms_bbbbbbbbbbbb_another"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set up an empty home folder, and an environment without credentials."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TOKEN", "TOKEN_FILE", "CA", "CERTIFICATE", "ALLOW_PLAINTEXT"):
        monkeypatch.delenv(f"TMS_{name}", raising=False)
    return tmp_path


@pytest.fixture
def guard(server: ServerProcess) -> Iterator[Guard]:
    with guarding(server.port) as guard:
        guard.accepted = {f"Bearer {CANARY}"}
        yield guard


def test_a_token_is_sent_with_each_request(guard: Guard, namespace: str) -> None:
    with tms.connect(guard.url, namespace, auth=CANARY) as client:
        client.topic("t").create()
        client.topic("t").publish(b"x")
        assert [each.payload for each in client.topic("t").poll()] == [b"x"]

    assert set(guard.seen) == {f"Bearer {CANARY}"}


def test_a_user_and_a_password_are_sent_as_basic(guard: Guard, namespace: str) -> None:
    said = "Basic " + base64.b64encode("jürg:p:w".encode()).decode()
    guard.accepted = {said}

    with tms.connect(guard.url, namespace, auth=("jürg", "p:w")) as client:
        assert client.topics() == []

    assert guard.seen == [said]


def test_a_wrong_token_is_reported_and_tried_once(guard: Guard) -> None:
    with tms.connect(guard.url, auth=OTHER) as client, pytest.raises(tms.NotAuthenticated):
        client.topics()

    assert guard.seen == [f"Bearer {OTHER}"]


def test_a_function_is_asked_again_once_a_token_is_refused(guard: Guard, namespace: str) -> None:
    given = iter((OTHER, CANARY))

    with tms.connect(guard.url, namespace, auth=lambda: next(given)) as client:
        client.topic("t").create()
        client.topic("t").publish(b"x")
        assert [each.payload for each in client.topic("t").poll()] == [b"x"]

    assert guard.seen == [f"Bearer {OTHER}", *[f"Bearer {CANARY}"] * 3]


def test_a_publish_whose_token_has_ended_is_made_once(guard: Guard, namespace: str) -> None:
    tokens = [CANARY, CANARY.lower()]
    with tms.connect(guard.url, namespace, auth=lambda: tokens.pop(0)) as client:
        topic = client.topic("t")
        topic.create()
        guard.accepted = {f"Bearer {CANARY.lower()}"}

        topic.publish(b"x")

        assert [each.payload for each in topic.poll()] == [b"x"]
        assert tokens == []


def test_it_is_not_tried_for_ever(guard: Guard) -> None:
    guard.accepted = set()
    asked: list[str] = []

    def another() -> str:
        asked.append(f"tms_{len(asked)}")
        return asked[-1]

    with tms.connect(guard.url, auth=another) as client, pytest.raises(tms.NotAuthenticated):
        client.topics()

    assert guard.seen == ["Bearer tms_0", "Bearer tms_1"]


@pytest.mark.anyio
async def test_many_refused_at_once_ask_for_one_token(guard: Guard) -> None:
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        await turns()
        return OTHER if asked == 1 else CANARY

    async with await tms.aio.connect(guard.url, "nobody", auth=token) as client:
        await asyncio.gather(*(client.topics() for _ in range(10)))

    assert asked == 2


def test_a_token_file_is_read_again_once_it_is_refused(
    guard: Guard, home: Path, namespace: str
) -> None:
    file = home / "token"
    file.write_text(f"{OTHER}\n")
    with tms.connect(guard.url, namespace, auth=file) as client:
        with pytest.raises(tms.NotAuthenticated):
            client.topics()
        file.write_text(f"{CANARY}\n")

        assert client.topics() == []

    assert guard.seen == [f"Bearer {OTHER}"] * 2 + [f"Bearer {CANARY}"]


def test_a_token_file_that_is_gone_leaves_the_last_token(
    guard: Guard, home: Path, namespace: str
) -> None:
    file = home / "token"
    file.write_text(CANARY)
    with tms.connect(guard.url, namespace, auth=file) as client:
        file.unlink()
        assert client.topics() == []
        guard.accepted = set()
        with pytest.raises(tms.NotAuthenticated):
            client.topics()


def test_the_environment_names_the_caller_if_nothing_else_does(
    guard: Guard, home: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, own = home / "named", home / ".config/tms/token"
    own.parent.mkdir(parents=True)
    own.write_text("own")
    own.chmod(0o600)
    file.write_text("named")
    guard.accepted = {f"Bearer {each}" for each in ("own", "named", "env", "given")}

    def ask(**auth: Any) -> None:
        with tms.connect(guard.url, namespace, **auth) as client:
            client.topics()

    ask()
    monkeypatch.setenv("TMS_TOKEN_FILE", str(file))
    ask()
    monkeypatch.setenv("TMS_TOKEN", "env")
    ask()
    ask(auth="given")
    with pytest.raises(tms.NotAuthenticated):
        ask(auth="")

    assert guard.seen == ["Bearer own", "Bearer named", "Bearer env", "Bearer given", None]


def test_the_own_token_file_is_not_read_if_others_may(home: Path) -> None:
    file = home / ".config/tms/token"
    file.parent.mkdir(parents=True)
    file.write_text(CANARY)
    file.chmod(0o640)

    with pytest.raises(ValueError, match="chmod 600") as raised:
        tms.connect("http://127.0.0.1:1")

    assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://tms.example:1", "https://a:1,http://10.0.0.1:2"])
@pytest.mark.parametrize("auth", [CANARY, ("user", "CANARY"), lambda: CANARY])
def test_credentials_do_not_go_unencrypted_to_another_machine(url: str, auth: Any) -> None:
    with pytest.raises(tms.InvalidRequest, match="use https://") as raised:
        tms.connect(url, auth=auth)

    assert raised.value.problem.code == "plaintext_credentials"
    assert "CANARY" not in str(raised.value)
    tms.connect(url, auth=auth, allow_plaintext=True).close()
    tms.connect(url, auth="").close()


def test_a_user_in_the_url_does_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://user:CANARY@tms.example:1"
    with pytest.raises(tms.InvalidRequest) as raised:
        tms.connect(url)

    assert "CANARY" not in str(raised.value)
    with pytest.raises(ValueError, match="either auth"):
        tms.connect(url, auth=OTHER)
    monkeypatch.setenv("TMS_ALLOW_PLAINTEXT", "1")
    tms.connect(url).close()


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"])
def test_this_machine_may_be_told_in_plain_text(url: str) -> None:
    tms.connect(url, auth=CANARY).close()


def test_a_proxy_of_the_environment_sees_no_credentials(
    guard: Guard, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    with tms.connect(guard.url, namespace, auth=CANARY) as client:
        assert client.topics() == []


def test_a_redirect_is_not_followed(server: ServerProcess, guard: Guard) -> None:
    guard.redirects_to = server.url

    with tms.connect(guard.url, auth=CANARY) as client, pytest.raises(tms.NotTms):
        client.topics()


@pytest.mark.parametrize("auth", ["a b", "a\nb", "ü", " ", ("a:b", "c"), ("a", "b\n"), 7, ("a",)])
def test_what_cannot_be_sent_is_reported_at_once(auth: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        tms.connect("http://127.0.0.1:1", auth=auth)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "is not a valid token"), (b"a\nb", "is not a valid token"), ("ü".encode(), "more than")],
)
def test_a_file_without_a_token_is_reported(home: Path, content: bytes, told: str) -> None:
    file = home / "token"
    file.write_bytes(content)

    with pytest.raises(ValueError, match=told):
        tms.connect("http://127.0.0.1:1", auth=file)
    with pytest.raises(ValueError, match="cannot be read"):
        tms.connect("http://127.0.0.1:1", auth=home / "gone")


def test_what_a_function_gives_is_checked(guard: Guard) -> None:
    def wrong() -> Any:
        return b"CANARY"

    with (
        tms.connect(guard.url, auth=wrong) as client,
        pytest.raises(TypeError, match="a token is a str") as raised,
    ):
        client.topics()
    assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda _: CANARY,
        lambda _: ("user", CANARY),
        lambda _: lambda: CANARY,
        lambda file: file,
    ],
    ids=["token", "password", "function", "file"],
)
def test_credentials_are_shown_nowhere(
    server: ServerProcess,
    guard: Guard,
    home: Path,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Path], Any],
) -> None:
    file = home / "token"
    file.write_text(CANARY)
    caplog.set_level(logging.DEBUG)
    shown: list[object] = []
    guard.accepted = set()
    auth = make(file)
    for url in (guard.url, "http://127.0.0.1:1"):
        with tms.connect(url, auth=auth, retry_for_s=0) as client:
            with pytest.raises(tms.TmsError) as raised:
                client.topics()
            shown += [client, raised.value, raised.value.detail, raised.value.__cause__]
    access = access_of(server.url, auth=auth)
    shown += [access, access.credentials]

    told = "".join(f"{each!r} {each}" for each in shown) + caplog.text
    encoded = base64.b64encode(f"user:{CANARY}".encode()).decode()
    assert CANARY not in told
    assert encoded not in told
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(access)


@given(st.text(min_size=1), st.text())
def test_basic_is_what_it_stands_for_or_is_refused(user: str, password: str) -> None:
    try:
        credentials = credentials_of((user, password))
    except ValueError:
        return
    assert isinstance(credentials, Credentials)
    said = asyncio.run(credentials.header()).removeprefix("Basic ")
    assert base64.b64decode(said).decode().split(":", 1) == [user, password]


def test_nobody_has_no_credentials() -> None:
    assert Access() == ANYBODY == access_of("http://127.0.0.1:1", auth="")
