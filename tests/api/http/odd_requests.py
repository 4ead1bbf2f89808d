"""Malformed and odd requests, and the answer that each must get at every position.

`t` is a topic of the namespace `ns`; `PUBLISH` publishes one message to it.
"""

from typing import NamedTuple

TOPIC = b"/v1/namespaces/ns/topics/t"
JSON = b"content-type: application/json\r\n"
HOST = b"host: localhost\r\n"
ONE = b'{"messages":["m"]}'
DELETE = b"DELETE " + TOPIC + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Odd(NamedTuple):
    """A request, and its answers."""

    sent: bytes
    statuses: tuple[int, ...]
    is_last: bool = False
    """Whether the server must close the connection after it."""
    published: int = 0
    """How many messages it publishes."""
    is_early: bool = False
    """Whether its head alone decides: if its body is not there by then, the connection ends."""


def request(
    method: bytes = b"GET",
    target: bytes = b"/ping",
    fields: bytes = HOST,
    body: bytes = b"",
    version: bytes = b"HTTP/1.1",
) -> bytes:
    return b"%s %s %s\r\n%s\r\n%s" % (method, target, version, fields, body)


def publish(more: bytes = b"", body: bytes = ONE, fields: bytes = HOST + JSON) -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return request(b"POST", TOPIC + b"/publish", fields + length + more, body)


def chunked(chunks: bytes, more: bytes = b"") -> bytes:
    fields = HOST + JSON + b"transfer-encoding: chunked\r\n" + more
    return request(b"POST", TOPIC + b"/publish", fields, chunks)


PING = request()
PUBLISH = publish()
_ALL = b"12\r\n" + ONE + b"\r\n0\r\n\r\n"


def _taken(sent: bytes, status: int = 200, published: int = 0) -> Odd:
    return Odd(sent, (status,), published=published)


def _refused(sent: bytes, status: int = 400) -> Odd:
    return Odd(sent, (status,), is_last=True)


def _last(sent: bytes, status: int = 200) -> Odd:
    return Odd(sent, (status,), is_last=True)


def _early(sent: bytes, status: int) -> Odd:
    return Odd(sent, (status,), is_early=True)


ODD = {
    "ping": _taken(PING),
    "publish": _taken(PUBLISH, published=1),
    "head of ping": _taken(request(b"HEAD")),
    "empty lines before": _taken(b"\r\n\r\n" + PING),
    "no path": _taken(request(target=b"/none"), 404),
    "root without slash": _taken(request(target=b"http://localhost")),
    "two spaces before the target": _taken(request(b"GET ", b"/ping")),
    "an encoded letter": _taken(request(target=b"/p%69ng")),
    "an encoded slash": _refused(request(target=b"%2Fping")),
    "an encoded slash in a name": _taken(publish().replace(b"/t/publish", b"/a%2Fb/publish"), 400),
    "a broken escape": _taken(publish().replace(b"/t/publish", b"/%zz/publish"), 400),
    "bytes that are no UTF-8": _early(publish().replace(b"/t/publish", b"/%ff/publish"), 400),
    "dots": _taken(request(target=b"/v1/../ping"), 404),
    "two slashes": _taken(request(target=b"//ping"), 404),
    "a slash behind": _taken(request(target=b"/ping/")),
    "an unknown query of ping": _taken(request(target=b"/ping?")),
    "another method": _taken(request(b"PATCH"), 405),
    "options": _taken(request(b"OPTIONS"), 405),
    "options of all": _taken(request(b"OPTIONS", b"*"), 404),
    "trace": _taken(request(b"TRACE"), 405),
    "absolute form": _taken(request(target=b"http://localhost/ping")),
    "absolute form of https": _taken(request(target=b"HTTPS://LOCALHOST/ping")),
    "absolute form of another host": _taken(request(target=b"http://example.com/ping"), 421),
    "absolute form with a user": _taken(request(target=b"http://u@localhost/ping")),
    "another scheme": _refused(request(target=b"ftp://localhost/ping")),
    "connect": _refused(request(b"CONNECT", b"localhost:80")),
    "a fragment": _refused(request(target=b"/ping#a")),
    "a control in the target": _refused(request(target=b"/pi\x01ng")),
    "a byte over 127 in the target": _refused(request(target=b"/pi\xffng")),
    "a space in the target": _refused(request(target=b"/pi ng")),
    "no target": _refused(b"GET  HTTP/1.1\r\n" + HOST + b"\r\n"),
    "no version": _refused(b"GET /ping\r\n" + HOST + b"\r\n"),
    "only a method": _refused(b"GET\r\n\r\n"),
    "version 0.9": _refused(request(version=b"HTTP/0.9")),
    "version 1.2": _refused(request(version=b"HTTP/1.2")),
    "version 2": _refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "version 9.9": _refused(request(version=b"HTTP/9.9")),
    "another protocol": _refused(request(version=b"RTSP/1.0")),
    "lower case version": _refused(request(version=b"http/1.1")),
    "a space behind the version": _refused(request(version=b"HTTP/1.1 ")),
    "an unknown method": _refused(request(b"FETCH")),
    "a lower case method": _refused(request(b"get")),
    "TLS": _refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20)),
    "zeros": _refused(bytes(100)),
    "only line feeds": _refused(b"GET /ping HTTP/1.1\nhost: localhost\n\n"),
    "HTTP/1.0": Odd(request(version=b"HTTP/1.0"), (200,), is_last=True),
    "HTTP/1.0 without a host": Odd(request(fields=b"", version=b"HTTP/1.0"), (200,), is_last=True),
    "HTTP/1.0 kept alive": Odd(
        request(fields=HOST + b"connection: keep-alive\r\n", version=b"HTTP/1.0"),
        (200,),
        is_last=True,
    ),
    "HTTP/1.0 in chunks": _refused(
        chunked(_ALL).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ),
    "no host": _refused(request(fields=b"")),
    "two hosts": _refused(request(fields=HOST + HOST)),
    "two hosts in one": _taken(request(fields=b"host: localhost, localhost\r\n"), 421),
    "an empty host": _taken(request(fields=b"host:\r\n"), 421),
    "a host with a port": _taken(request(fields=b"host: localhost:11015\r\n")),
    "a host in capitals": _taken(request(fields=b"HOST: LOCALHOST:1\r\n")),
    "an address": _taken(request(fields=b"host: 10.1.2.3:11015\r\n")),
    "an IPv6 address": _taken(request(fields=b"host: [::1]:11015\r\n")),
    "a foreign host": _early(publish(fields=b"host: evil.example\r\n" + JSON), 421),
    "a name that looks like an address": _taken(
        request(fields=b"host: 127.0.0.1.evil.example\r\n"), 421
    ),
    "a foreign origin": _early(publish(b"origin: http://evil.example\r\n"), 403),
    "no origin": _early(publish(b"origin: null\r\n"), 403),
    "its own origin": _taken(publish(b"origin: http://localhost\r\n"), published=1),
    "its own origin at another port": _early(publish(b"origin: http://localhost:81\r\n"), 403),
    "another site": _early(publish(b"sec-fetch-site: cross-site\r\n"), 403),
    "the same site": _early(publish(b"sec-fetch-site: same-site\r\n"), 403),
    "the same origin": _taken(publish(b"sec-fetch-site: same-origin\r\n"), published=1),
    "typed by a person": _taken(publish(b"sec-fetch-site: none\r\n"), published=1),
    "a form of another site": _early(
        publish(b"sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n"), 403
    ),
    "a link of another site to no page": _taken(
        request(fields=HOST + b"sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n"), 403
    ),
    "a link of another site to a page": _taken(
        request(
            target=b"/",
            fields=HOST + b"sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n",
        )
    ),
    "a space before the colon": _refused(request(fields=b"host : localhost\r\n")),
    "a folded field": _refused(request(fields=HOST + b"a: b\r\n c\r\n")),
    "a field without a colon": _refused(request(fields=HOST + b"field\r\n")),
    "a field without a name": _refused(request(fields=HOST + b": a\r\n")),
    "a space within a name": _refused(request(fields=HOST + b"a b: c\r\n")),
    "a zero in a value": _refused(request(fields=HOST + b"a: b\x00\r\n")),
    "a carriage return in a value": _refused(request(fields=HOST + b"a: b\rc\r\n")),
    "bytes over 127 in a value": _taken(request(fields=HOST + b"a: \xc3\xa4\r\n")),
    "spaces around a value": _taken(publish(b"content-encoding: \t identity \r\n"), published=1),
    "an empty value": _taken(request(fields=HOST + b"a:\r\n")),
    "upgrade to h2c": _taken(
        publish(b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"),
        published=1,
    ),
    "upgrade of what hides another request": _taken(
        publish(b"connection: upgrade\r\nupgrade: websocket\r\n", DELETE), 400
    ),
    "upgrade of ping": _taken(
        request(fields=HOST + b"connection: upgrade\r\nupgrade: websocket\r\n")
    ),
    "upgrade in chunks": _taken(
        chunked(_ALL, b"connection: upgrade\r\nupgrade: h2c\r\n"), published=1
    ),
    "two types": _refused(publish(JSON)),
    "expect": Odd(publish(b"expect: 100-continue\r\n"), (200,), published=1),
    "expect something else": _refused(publish(b"expect: coffee\r\n"), 417),
    "close without a body": _last(request(fields=HOST + b"connection: close\r\n")),
    "close in capitals": _last(request(fields=HOST + b"CONNECTION: CLOSE\r\n")),
    "close in a list": _last(request(fields=HOST + b"connection: te ,\tClose , x\r\n")),
    "close in two fields": _last(
        request(fields=HOST + b"connection: keep-alive\r\nconnection: close\r\n")
    ),
    "close of HEAD's kin": _last(request(b"OPTIONS", fields=HOST + b"connection: close\r\n"), 405),
    "close with an empty body": _last(
        request(fields=HOST + b"connection: close\r\ncontent-length: 0\r\n")
    ),
    "close of what is not there": _last(
        request(target=b"/none", fields=HOST + b"connection: close\r\n"), 404
    ),
    "close and upgrade": _last(
        request(fields=HOST + b"connection: upgrade, close\r\nupgrade: h2c\r\n")
    ),
    "closed in a word": _taken(request(fields=HOST + b"connection: closed, close-not\r\n")),
    "keep-alive": _taken(request(fields=HOST + b"connection: keep-alive\r\n")),
    "as many fields as may be": _taken(request(fields=HOST + b"x:\r\n" * 99)),
    "one field more": _refused(request(fields=HOST + b"x:\r\n" * 100), 431),
    "as many trailers as may be": _taken(
        chunked(_ALL[:-2] + b"a: b\r\n" * 100 + b"\r\n"), published=1
    ),
    "one trailer more": _refused(chunked(_ALL[:-2] + b"a: b\r\n" * 101 + b"\r\n")),
    "close": Odd(publish(b"connection: close\r\n"), (200,), is_last=True, published=1),
    "two lengths": _refused(publish(b"content-length: 18\r\n")),
    "a length with a sign": _refused(publish().replace(b"length: 18", b"length: +18")),
    "a length in hexadecimal": _refused(publish().replace(b"length: 18", b"length: 0x12")),
    "a list of lengths": _refused(publish().replace(b"length: 18", b"length: 18, 18")),
    "no length": _refused(publish().replace(b"length: 18", b"length:")),
    "a length beyond all numbers": _refused(
        publish().replace(b"length: 18", b"length: 99999999999999999999")
    ),
    "a negative length": _refused(publish().replace(b"length: 18", b"length: -1")),
    "zeros before a length": _taken(publish().replace(b"length: 18", b"length: 0018"), published=1),
    "length and chunks": _refused(publish(b"transfer-encoding: chunked\r\n")),
    "a body of a GET": _early(request(fields=HOST + b"content-length: 3\r\n", body=b"abc"), 200),
    "another encoding": _refused(chunked(_ALL).replace(b": chunked", b": gzip, chunked")),
    "identity": _refused(chunked(_ALL).replace(b": chunked", b": identity")),
    "chunked twice": _refused(chunked(_ALL).replace(b": chunked", b": chunked, chunked")),
    "chunked and then something": _refused(chunked(_ALL).replace(b": chunked", b": chunked, x")),
    "encodings in two fields": _refused(chunked(_ALL, b"transfer-encoding: gzip\r\n")),
    "in a chunk": _taken(chunked(_ALL), published=1),
    "in chunks of one byte": _taken(
        chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in ONE) + b"0\r\n\r\n"), published=1
    ),
    "a chunk's extension": _taken(chunked(_ALL.replace(b"12\r", b'12;a="b"\r')), published=1),
    "a chunk's size in capitals": _taken(
        chunked(b"A\r\n" + ONE[:10] + b"\r\n8\r\n" + ONE[10:] + b"\r\n0\r\n\r\n"), published=1
    ),
    "zeros before a chunk's size": _taken(chunked(b"000" + _ALL), published=1),
    "trailers": _taken(chunked(_ALL[:-2] + b"a: b\r\nc:\r\n\r\n"), published=1),
    "a trailer without a colon": _refused(chunked(_ALL[:-2] + b"a\r\n\r\n")),
    "a chunk without a size": _refused(chunked(b"\r\n" + _ALL)),
    "a chunk's size with a sign": _refused(chunked(b"+" + _ALL)),
    "a chunk's size behind 0x": _refused(chunked(b"0x" + _ALL)),
    "a space before a chunk's size": _refused(chunked(b" " + _ALL)),
    "a chunk that is longer": _refused(chunked(b"11" + _ALL[2:])),
    "a chunk that ends in a line feed": _refused(chunked(b"12\r\n" + ONE + b"\n0\r\n\r\n")),
    "a chunk's size that ends in a line feed": _refused(chunked(b"12\n" + _ALL[4:])),
    "a chunk's size beyond all numbers": _refused(chunked(b"1" * 17 + b"\r\n" + _ALL)),
    "a broken body": _taken(publish(body=b"{"), 400),
    "a body that looks like a request": _taken(publish(body=DELETE), 400),
    "a deletion within a message": _taken(
        publish(body=b'{"messages":["' + DELETE.replace(b"\r\n", b"\\r\\n") + b'"]}'), published=1
    ),
    "no type": _taken(publish(fields=HOST), 415),
    "a form": _taken(
        publish(fields=HOST + b"content-type: application/x-www-form-urlencoded\r\n"), 415
    ),
}
