"""URLs are parsed strictly: a URL that does not clearly name one place is refused."""

from base64 import b64encode

import pytest

from tms.core.text.hosts import is_loopback
from tms.outgoing.url import InvalidUrl, parse_url

ODD = [
    *(
        "",
        "h",
        "http:",
        "http:h",
        "http:/h",
        "http://",
        "http:///x",
        "http://:1",
        "http://u@",
        "ftp://h",
    ),
    *("http://h:0", "http://h:65536", "http://h:-1", "http://h:+1", "http://h:1_0", "http://h:b"),
    *("http://h: 80", "http://h:8 0", "http://h:\N{FULLWIDTH DIGIT EIGHT}", "http://h:0x50"),
    *(
        "http://[::1",
        "http://::1",
        "http://[::1]x",
        "http://[v1.x]",
        "http://[h]",
        "http://[::1%a b]",
    ),
    *(
        "http://a b",
        "http://a;b",
        "http://a,b",
        "http://h\\x",
        "http://%41bc",
        "http://a%2fb",
        "http://a<b",
    ),
    *(
        "http://h\r\nx: y",
        "http://h/\r\n",
        "http://h\t",
        "http://h\n",
        "http://h\x00",
        "http://u\r@h",
    ),
    *("http://0x7f.1", "http://127.1", "http://2130706433", "http://1.2.3.4.5", "http://a.0x7f"),
    *("http://127.0.0.1.", "http://0177.0.0.1", "http://256.1.1.1"),
    *("http://fa\N{LATIN SMALL LETTER SHARP S}.de", "http://\N{FULLWIDTH LATIN SMALL LETTER H}"),
    *("http://h\N{IDEOGRAPHIC FULL STOP}evil", "http://h\N{ZERO WIDTH JOINER}", "http://h\ud800"),
]
"""Texts that programs read in different ways, or that name nothing."""


@pytest.mark.parametrize(
    ("text", "netloc", "target", "again"),
    [
        ("http://h", "h", b"/", "http://h"),
        ("HTTP://H:80/", "h", b"/", "http://h/"),
        ("https://h:443", "h", b"/", "https://h"),
        ("http://h:443/x?y=%20&z", "h:443", b"/x?y=%20&z", "http://h:443/x?y=%20&z"),
        ("http://h:00080#x", "h", b"/", "http://h"),
        ("http://h:", "h", b"/", "http://h"),
        ("http://h?x", "h", b"/?x", "http://h?x"),
        ("http://h/a b/\N{SNOWMAN}", "h", b"/a%20b/%E2%98%83", "http://h/a%20b/%E2%98%83"),
        ("http://[::1]:1", "[::1]:1", b"/", "http://[::1]:1"),
        ("http://[0:0::1]", "[::1]", b"/", "http://[::1]"),
        ("http://[fe80::1%25eth0]:1", "[fe80::1]:1", b"/", "http://[fe80::1%eth0]:1"),
        ("http://[fe80::1%eth0]:1", "[fe80::1]:1", b"/", "http://[fe80::1%eth0]:1"),
        ("http://bücher.example", "xn--bcher-kva.example", b"/", "http://xn--bcher-kva.example"),
        ("http://h_x.-y", "h_x.-y", b"/", "http://h_x.-y"),
        ("http://127.0.0.1", "127.0.0.1", b"/", "http://127.0.0.1"),
    ],
)
def test_the_parts(text: str, netloc: str, target: bytes, again: str) -> None:
    url = parse_url(text)

    assert (url.netloc, url.target, str(url)) == (netloc, target, again)
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("userinfo", "user", "password"),
    [
        ("u:p", b"u", b"p"),
        ("u", b"u", b""),
        (":p", b"", b"p"),
        ("u:p:q", b"u", b"p:q"),
        ("u%3Ap:%40%0d%0a", b"u:p", b"@\r\n"),
        ("a:b@c", b"a", b"b@c"),
    ],
)
def test_the_user_and_the_password_are_decoded(userinfo: str, user: bytes, password: bytes) -> None:
    url = parse_url(f"http://{userinfo}@h")

    assert url.host == "h"
    assert url.basic == b"Basic " + b64encode(user + b":" + password)
    assert url.without_user() == parse_url("http://h")
    assert parse_url("http://@h").basic == b""


@pytest.mark.parametrize("text", ODD)
def test_an_odd_one_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_url(text)


@pytest.mark.parametrize("host", ["localhost.", "a.LOCALHOST.", "127.1.2.3", "[::1]", "[::1%lo]"])
def test_this_machine_is_known_by_all_its_names(host: str) -> None:
    assert is_loopback(parse_url(f"http://{host}").host)
