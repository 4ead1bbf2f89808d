"""What is shown of a URL has no password, however it was written, and is else as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.credentials import without_credentials
from tms.core.errors import ServerUnreachable, StoreLocked

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
    ],
)
def test_user_and_password_are_left_out(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
    assert without_credentials(text, "***@").count("***@") == text.count("@") - shown.count("@")


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
