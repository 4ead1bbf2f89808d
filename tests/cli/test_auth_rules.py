"""A server as `tms auth init` sets it up, its rules by commands, and each way to say who one is.

One process serves all of this. Everything that it shows is searched for secrets.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import jwt
import pytest

import tms
from tests.cli.conftest import run_command
from tests.security.web_keys import ALL, RSA
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until
from tms.core.runtime.tls import client_context
from tms.security.passwords import hash_password

PASSWORD = "correct-horse-battery"


def more(folder: Path) -> list[str]:
    """Return the flags that the server gets in addition to the settings of `init`."""
    return [
        *("--auth-passwords", str(folder / "passwords"), "--auth-jwks", str(folder / "keys.json")),
        *("--auth-issuer", "issuer", "--auth-audience", "tms"),
        *("--tls-client-ca", str(folder / "ca.pem")),
        *("--audit-file", str(folder / "audit"), "--audit-topic"),
        *("--principal-requests-per-s", "40", "--principal-topics-per-hour", "3"),
    ]


@dataclass
class Set:
    """A server, its folder, and how commands and clients reach it."""

    folder: Path
    server: ServerProcess
    secrets: list[str] = field(default_factory=list)

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    def run(self, *arguments: str, token: str = "token") -> tuple[int, str, str]:
        where = ("--url", self.server.url, "--ca", self.ca)
        return run_command(*arguments, *where, "--token-file", str(self.folder / token))

    def told(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert code == 0, err
        return out.strip()

    def token(self, principal: str, *more: str) -> str:
        """Create a token, and return the name of its file."""
        made = self.told("auth", "token", principal, *more)
        self.secrets.append(made.split("_", 2)[2])
        (self.folder / f"{principal}.token").write_text(made)
        return f"{principal}.token"

    def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        with httpx.Client(verify=client_context(self.ca), trust_env=False) as http:
            return http.request(method, f"{self.server.url}{path}", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Set]:
    folder = tmp_path_factory.mktemp("auth") / "own"
    assert run_command("auth", "init", str(folder))[0] == 0
    certificate = run_command("auth", "certificate", str(folder), "cert-user")
    assert certificate[0] == 0, certificate
    (folder / "passwords").write_text(f"carol:{hash_password(PASSWORD)}:staff\n")
    (folder / "keys.json").write_bytes(ALL)
    data = f"leveldb:{folder.parent / 'data'}"
    flags = ("--config", str(folder / "tms.toml"), *more(folder))
    with ServerProcess(data, *flags, forked=False) as server:  # a test reads its command line
        yield Set(folder, server, [(folder / "token").read_text().strip().split("_", 2)[2]])


@pytest.fixture(scope="module")
def topic(served: Set) -> str:
    served.told("topic", "create", "orders")
    return "/v1/namespaces/default/topics/orders"


def test_rules_are_granted_explained_listed_and_revoked(served: Set, topic: str) -> None:
    shop = served.token("shop", "--expires", "90d")
    assert served.run("publish", "orders", "a", token=shop)[0] != 0
    granted = served.told("auth", "grant", "shop", "publish", "default:ord*")
    rule = granted.split()[1].rstrip(":")
    assert served.told("auth", "grant", "shop", "publish", "default:ord*") == granted
    assert served.run("publish", "orders", "a", token=shop)[0] == 0
    assert "by rule" in served.told("auth", "explain", "shop", "publish", "default:orders")
    assert "no rule" in served.told("auth", "explain", "shop", "consume", "default:orders")
    assert "superuser" in served.told("auth", "explain", "admin", "grant", "server")
    assert rule in served.told("auth", "list", "--who", "shop")
    assert served.told("auth", "list", "--who", "nobody") == "No rules."
    assert served.run("auth", "whoami", token=shop)[1].startswith("shop, by token")
    code, _, err = served.run("auth", "list", token=shop)
    assert (code, "grant" in err) == (5, True)
    served.told("auth", "revoke", rule)
    assert served.run("publish", "orders", "a", token=shop)[0] != 0
    [token_id] = [
        each["id"]
        for each in json.loads(served.told("auth", "tokens", "--json"))
        if each["principal"] == "shop"
    ]
    served.told("auth", "revoke", token_id)
    code, _, err = served.run("topic", "list", token=shop)
    assert (code, "revoked" in err) == (5, True)


def test_who_may_grant_makes_no_superuser(served: Set) -> None:
    clerk = served.token("clerk")
    served.told("auth", "grant", "clerk", "grant", "server")
    assert served.run("auth", "token", "anybody", token=clerk)[0] == 0
    code, out, err = served.run("auth", "token", "admin", token=clerk)
    assert (code, out, "may not do this" in err) == (5, "", True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("grant", "x", "publsh", "a:b"), "do you mean publish? The actions are "),
        (("grant", "x", "operate", "a:b"), "not an action on a topic"),
        (("grant", "x", "publish", "orders"), "NAMESPACE:TOPIC"),
        (("grant", "x", "publish", "a:b*c"), "expected"),
        (("grant", "server:1", "publish", "a:b"), "cannot be principals"),
        (("token", "anonymous"), "cannot be principals"),
        (("token", "a", "--expires", "-1"), "DURATION"),
        (("revoke", "0123456789ab"), "no token with this id"),
        (("revoke", "../x"), "not a valid id"),
    ],
)
def test_what_is_wrong_is_reported(served: Set, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = served.run("auth", *arguments)
    assert code != 0
    assert told in out + err or told == "DURATION"


def test_each_way_to_say_who_one_is(served: Set, topic: str) -> None:
    for who in ("carol", "web-user", "cert-user", "group:staff"):
        served.told("auth", "grant", who, "describe", "default:orders")
    now = int(time.time())
    claims = {"iss": "issuer", "aud": "tms", "sub": "web-user", "nbf": now, "exp": now + 300}
    good = jwt.encode(claims, RSA, "RS256", headers={"kid": "RS256"})
    served.secrets += [good, PASSWORD]
    assert served.ask("GET", topic, auth=("carol", PASSWORD)).status_code == 200
    assert served.ask("GET", topic, auth=("carol", "wrong")).status_code == 401
    assert served.ask("GET", topic, headers={"authorization": f"Bearer {good}"}).status_code == 200
    for wrong in (
        jwt.encode({**claims, "aud": "other"}, RSA, "RS256", headers={"kid": "RS256"}),
        jwt.encode({**claims, "exp": now - 300}, RSA, "RS256", headers={"kid": "RS256"}),
        jwt.encode(claims, "", "none"),
        f"{good[:-4]}AAAA",
    ):
        refused = served.ask("GET", topic, headers={"authorization": f"Bearer {wrong}"})
        assert refused.status_code == 401
        assert wrong not in refused.text
    pair = served.folder / "cert-user.pem", served.folder / "cert-user-key.pem"
    with tms.connect(served.server.url, auth="", ca=served.ca, certificate=pair) as client:
        assert client.topic("orders").properties() is not None
        with pytest.raises(tms.NotPermitted):
            client.topic("orders").publish(b"x")
    bad = tms.connect(served.server.url, auth="tms_bad", ca=served.ca, certificate=pair)
    with bad, pytest.raises(tms.NotAuthenticated):
        bad.topic("orders").properties()


def test_one_principal_has_so_much_and_others_are_not_harmed(served: Set, topic: str) -> None:
    greedy, other = (served.token(name) for name in ("greedy", "modest"))
    for who in ("greedy", "modest"):
        served.told("auth", "grant", who, "consume,manage,publish", "default:*")
    by_greedy = {
        "authorization": f"Bearer {(served.folder / greedy).read_text()}",
        "content-type": "application/json",
    }
    topics = "/v1/namespaces/default/topics"
    made = [served.ask("PUT", f"{topics}/t{n}", headers=by_greedy) for n in range(4)]
    assert [each.status_code for each in made] == [200, 200, 200, 429]
    assert int(made[3].headers["retry-after"]) > 1
    assert made[3].json()["error"]["detail"]["setting"] == "principal_topics_per_hour"
    with httpx.Client(verify=client_context(served.ca), trust_env=False) as http:
        url = f"{served.server.url}{topic}"
        answers = (http.get(url, headers=by_greedy).status_code for _ in range(2_000))
        assert 429 in answers
    assert served.run("publish", "orders", "a", token=other)[0] == 0


def test_what_was_refused_and_done_is_reported(served: Set, topic: str) -> None:
    def lines() -> list[dict[str, object]]:
        return [json.loads(line) for line in (served.folder / "audit").read_text().splitlines()]

    served.ask("GET", topic)
    nobody = served.token("nobody")
    served.run("publish", "orders", "x", token=nobody)

    def has(**wanted: object) -> bool:
        return any(wanted.items() <= each.items() for each in lines())

    wait_until(lambda: has(action="authenticate", effect="deny", status=401))
    wait_until(lambda: has(principal="nobody", action="publish", effect="deny", status=404))
    wait_until(lambda: has(principal="admin", action="grant", effect="allow"))
    assert (served.folder / "audit").stat().st_mode & 0o777 == 0o600
    with tms.connect(
        served.server.url, "system", auth=served.folder / "token", ca=served.ca
    ) as client:
        wait_until(lambda: b"nobody" in b"".join(m.payload for m in client.topic("_audit").poll()))


def test_no_secret_is_shown_anywhere(served: Set) -> None:
    """This test comes last, after everything that the others did."""
    own = ("--config", str(served.folder / "tms.toml"))
    shown = [
        served.server.log,
        (served.folder / "audit").read_text(),
        served.told("auth", "tokens"),
        served.told("auth", "tokens", "--json"),
        run_command("config", *own)[1],
        Path(f"/proc/{served.server.pid}/cmdline").read_text(),
    ]
    admin = {"authorization": f"Bearer {(served.folder / 'token').read_text().strip()}"}
    for path in (
        "/metrics",
        "/openapi.json",
        "/v1/auth/rules",
        "/v1/auth/tokens",
        "/v1/transactions",
    ):
        answer = served.ask("GET", path, headers=admin)
        assert answer.status_code == 200, answer.text
        shown.append(answer.text)
    data = served.folder.parent / "data"
    kept = b"".join(each.read_bytes() for each in data.rglob("*") if each.is_file())
    assert b"/auth/tokens" in kept, "what was written is looked at"
    for secret in served.secrets:
        assert secret.encode() not in kept
        assert all(secret not in text for text in shown)
