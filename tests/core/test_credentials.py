"""A URL is shown without its password, however it was written, and otherwise unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import ServerUnreachable, StoreLocked
from tms.core.text.credentials import shortened, without_credentials
from tms.security.tokens import new_token

SECRETS = st.text(st.characters(codec="ascii", exclude_characters=" ,@"), min_size=8).filter(
    lambda text: not any(character.isspace() for character in text)
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory:",
        "leveldb:/var/lib/me@home",
        "hbase://gw:9090/tms?buckets=4",
        "write to me@home, or see https://a:1/b",
    ],
)
def test_what_has_none_is_as_it_was(text: str) -> None:
    assert without_credentials(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zk://me:secret@a:1,b:2/tms", "zk://a:1,b:2/tms"),
        ("http://me:secret@a:1,me:secret@b:2", "http://a:1,b:2"),
        ("cannot reach etcd://me:secret@a:1/p, or so", "cannot reach etcd://a:1/p, or so"),
        ("https://secret@a:1/?x=@", "https://a:1/?x=@"),
        ("zk://me:sec/secret?#@a:1/tms", "zk://a:1/tms"),
        ("zk://me:sec,secret@a:1,b:2/tms", "zk://a:1,b:2/tms"),
        ("zk://me:sec://@a:1/tms", "zk://a:1/tms"),
        ("zk://me:sec@ret@a:1/tms", "zk://a:1/tms"),
        ("/x/zk%3A%2f%2Fme%3Asecret%40a%2fb", "/x/zk://a/b"),
        ("zk%3A//me:secret@a/b%20c", "zk://a/b c"),
        ("http://me:secret@a/b%20c", "http://a/b%20c"),
        ("zk://me:sec/r@et@a:1/tms", "zk://a:1/tms"),
        ("zk://me:s@ec://ret@a:1/tms", "zk://a:1/tms"),
        ("http://me:secret@a:1,http://me:secret@b:2", "http://a:1,http://b:2"),
        ("of http://me:secret@a:1, then http://me:sec/ret@b:2", "of http://a:1, then http://b:2"),
    ],
)
def test_user_and_password_are_left_out(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
    hidden = without_credentials(text, "***@")
    assert hidden.replace("***@", "") == shown
    assert hidden != shown


@given(
    SECRETS, st.sampled_from(["zk://me:{}@a:1/tms", "at http://me:{}@a:1", "etcd://me:{}@a,b/p"])
)
def test_no_password_is_shown(secret: str, form: str) -> None:
    assert secret not in without_credentials(form.format(secret))


def test_an_error_has_none_in_its_text_and_detail() -> None:
    error = ServerUnreachable(url="http://me:secret@a:1", reason="of http://me:secret@a:1")

    assert "secret" not in str(error)
    assert error.detail == {"url": "http://a:1", "reason": "of http://a:1"}
    assert StoreLocked(folder="a@b").detail == {"folder": "a@b"}


def test_what_an_error_holds_in_lists_and_by_name_has_none_either() -> None:
    url, shown = "http://me:secret@a:1", "http://a:1"
    error = ServerUnreachable(tried=[url, (url, 1)], reasons={url: {"of": url}})

    assert error.detail == {"tried": [shown, [shown, 1]], "reasons": {shown: {"of": shown}}}


@given(st.integers(0, 80), st.sampled_from(["", "at ", "zk://b:1/x,"]))
def test_what_is_cut_shows_no_password_wherever_it_is_cut(chars_max: int, before: str) -> None:
    text = f"{before}zk://me:secret@a:1/tms and so on and on"

    shown = shortened(text, chars_max)

    assert len(shown) <= chars_max
    assert "me" not in shown
    assert "://me" not in shortened(text[:chars_max] + " " * 100, chars_max)


def test_what_is_cut_keeps_all_before_its_last_url() -> None:
    assert shortened("a" * 100, 80) == "a" * 80
    assert shortened("to http://a:1 and http://b:2 go", 80) == "to http://a:1 and http://b:2 go"
    assert shortened("to http://a:1 and http://b:2 go", 30) == "to http://a:1 and http"
    assert shortened("://" + "x" * 100, 80) == ""


def test_of_very_many_at_signs_nothing_between_is_shown() -> None:
    assert without_credentials("zk://" + "secret@" * 1000 + "a:1") == "zk://a:1"


def test_a_token_is_left_out_but_for_its_id() -> None:
    token, kept = new_token("ann")

    shown = without_credentials(f"the token file {token} cannot be read")

    assert shown == f"the token file tms_{kept.id}_*** cannot be read"
    assert without_credentials("a topic tms_orders_of_today") == "a topic tms_orders_of_today"
