"""Tests that the live server stops only after its requests have been answered."""

import socket
from collections.abc import Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread, Timer

import pytest
from django.dispatch import Signal

from tests.fixtures.live_server import RequestsOfServer

STARTED, FINISHED = Signal(), Signal()
SECONDS = 10


class Served(BaseRequestHandler):
    """Connection whose only request, if any, begins and ends when the server's events are set."""

    server: "Server"

    def handle(self) -> None:
        self.server.connected.set()
        assert self.server.begin.wait(SECONDS)
        if self.server.has_request:
            STARTED.send(sender=Served)
            self.server.begun.set()
            assert self.server.end.wait(SECONDS)
            FINISHED.send(sender=Served)


class Server(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, *, has_request: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Served)
        self.has_request = has_request
        self.connected, self.begin, self.begun, self.end = Event(), Event(), Event(), Event()

    def __enter__(self) -> "Server":
        Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.begin.set()
        self.end.set()
        self.shutdown()
        self.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def connect(server: Server) -> socket.socket:
    connection = socket.create_connection(server.server_address, SECONDS)
    assert server.connected.wait(SECONDS)
    return connection


def test_request_that_a_thread_answers_is_waited_for(server):
    with RequestsOfServer(server, STARTED, FINISHED) as requests, connect(server):
        server.begin.set()
        assert server.begun.wait(SECONDS)
        assert not requests.wait(0)
        server.end.set()
        assert requests.wait(SECONDS)


def test_first_request_of_an_accepted_connection_is_waited_for(server):
    with RequestsOfServer(server, STARTED, FINISHED) as requests, connect(server):
        Timer(0.05, server.begin.set).start()
        assert not requests.wait(0, first_request=SECONDS)
        server.end.set()
        assert requests.wait(SECONDS)


def test_connection_without_a_request_is_not_waited_for_long(server):
    with RequestsOfServer(server, STARTED, FINISHED) as requests, connect(server):
        assert requests.wait(0, first_request=0)


def test_connection_that_ends_without_a_request_is_counted_no_longer():
    with Server(has_request=False) as server, RequestsOfServer(server, STARTED, FINISHED) as requests, connect(server):
        server.begin.set()
        assert requests.wait(0, first_request=SECONDS)
        assert requests._accepted == 0


def test_request_of_a_test_client_is_not_waited_for(server):
    with RequestsOfServer(server, STARTED, FINISHED) as requests:
        STARTED.send(sender=RequestsOfServer)
        assert requests.wait(0)
