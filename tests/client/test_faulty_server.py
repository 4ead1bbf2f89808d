"""The faulty server ends with its test, and serves its answers in order."""

import socket

from tests.client.faulty_server import FaultyServer, answer

ASKS = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n"


def test_it_ends_beside_a_client_that_sends_nothing() -> None:
    server = FaultyServer(b"")
    with socket.create_connection(("127.0.0.1", server.port)), server:
        pass
    assert server.requests == []


def test_a_client_that_leaves_takes_no_answer_from_the_next() -> None:
    said = answer(200, b"said")
    with FaultyServer(said) as server:
        for sent in (b"", ASKS, ASKS + b"a"):
            with socket.create_connection(("127.0.0.1", server.port)) as leaving:
                leaving.sendall(sent)
        with socket.create_connection(("127.0.0.1", server.port)) as asking:
            asking.sendall(ASKS + b"ab")
            assert asking.makefile("rb").read() == said
    assert [request.body for request in server.requests] == [b"ab"]
