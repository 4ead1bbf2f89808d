"""URLs of stores on servers: their meaning, and errors that say what is wrong and what is valid."""

import pytest

from tms.metadata.address import Address, parse


def test_a_url_says_hosts_base_credentials_and_options() -> None:
    url = "zk://u:p%40%2F@h1,h2:99,[::1]:7/a/b?session_timeout_s=5&ca=/c.pem&cert=/x&key=/y"

    assert parse(url) == Address(
        "zk",
        ("h1:2181", "h2:99", "[::1]:7"),
        "/a/b",
        5.0,
        "u",
        "p@/",
        "/c.pem",
        "/x",
        "/y",
    )
    assert parse("etcd://h/p").hosts == ("h:2379",)


def test_what_is_logged_has_no_credentials() -> None:
    address = parse("etcd://user:secret@h/p?ca=/c.pem")

    assert str(address) == "etcd://h:2379/p"
    assert "secret" not in repr(address)


@pytest.mark.parametrize("url", ["zk://me:sec/secret@h/p", "zk://sec?secret@h/p", "zk://:/sec@h/p"])
def test_what_is_said_of_a_wrong_one_has_none_either(url: str) -> None:
    with pytest.raises(ValueError, match=r"%2F|PATH") as refused:
        parse(url)
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "zk://h",
        "zk://h/",
        "zk:///p",
        "zk://h:x/p",
        "zk://h,,i/p",
        "redis://h/p",
        "etcd://h/p//q",
        "etcd://h/p?unknown=1",
        "etcd://h/p?ca=",
        "etcd://h/p?cert=/x",
        "etcd://h/p?cert=/x&key=/y",
        "etcd://h/p?session_timeout_s=0",
        "etcd://h/p?session_timeout_s=nan",
        "etcd://h/p?session_timeout_s=soon",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(url)
