"""Connections to permitted hosts only: a name is resolved, its addresses are checked, and one of them is connected.

The check is where a socket is opened, so it holds for each request, redirect and next page.
"""

import os
import socket
import ssl
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError, NewConnectionError

from elevata.core.permitted_addresses import AddressRefused, NotResolved, permitted_addresses
from loader.contract.refusals import Refusal
from loader.domain.sources.hosts import SETTING, check_host, networks_of

CONNECT_SECONDS = 10.0


class Gate:
    """Permitted hosts, and the open sockets of one thread's requests, which ``shut`` ends from another thread.

    A duplicate of each socket is kept, because TLS takes the socket itself over.
    """

    def __init__(self, hosts: Collection[str]):
        self._hosts = hosts
        self._open: list[socket.socket] = []
        self._released: list[socket.socket] = []

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Context that trusts the system's certificates, which are read for the first connection with TLS."""
        return ssl.create_default_context()

    def connect(self, host: str, port: int, *, tls: bool) -> socket.socket:
        """Return a socket to a checked address. Raise Refusal HOST_NOT_ALLOWED, OSError or NotResolved."""
        self._close_released()
        check_host(host, port, self._hosts)
        allowed = networks_of(self._hosts, port)
        try:
            addresses = permitted_addresses(host, port, allowed=allowed, plain=not tls, setting=SETTING)
        except AddressRefused as refused:
            hint = f"An administrator allows addresses and networks in {SETTING}, like 10.20.0.0/16."
            raise Refusal("HOST_NOT_ALLOWED", str(refused), hint=hint) from None
        error: OSError = NotResolved(f"{host} has no address")
        for address in addresses:
            try:
                return socket.create_connection((address, port), timeout=CONNECT_SECONDS)
            except OSError as failure:
                error = failure
        raise error

    def watch(self, opened: socket.socket) -> socket.socket:
        """Return the duplicate of a socket by which ``shut`` ends its connection."""
        duplicate = socket.socket(fileno=os.dup(opened.fileno()))
        self._open.append(duplicate)
        return duplicate

    def release(self, duplicate: socket.socket) -> None:
        """Close a duplicate at the next connection: until then the rest of an answer may be read."""
        if duplicate in self._open:
            self._released.append(duplicate)

    def _close_released(self) -> None:
        for duplicate in self._released:
            self._open.remove(duplicate)
            duplicate.close()
        self._released.clear()

    def shut(self) -> None:
        """Shut every connection down, which ends the reads that wait for them."""
        for duplicate in list(self._open):
            with suppress(OSError):  # it is closed already
                duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._released[:] = self._open
        self._close_released()


class GateAdapter(HTTPAdapter):
    """Adapter of requests whose connections all pass a gate."""

    def __init__(self, gate: Gate):
        self._gate = gate
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, _connection(HTTPConnection, self._gate, tls=False)),
            "https": _pool(HTTPSConnectionPool, _connection(HTTPSConnection, self._gate, tls=True)),
        }


def _connection(base: Any, gate: Gate, *, tls: bool) -> type:
    def new_connection(self: Any) -> socket.socket:
        try:
            opened = gate.connect(self.host, self.port, tls=tls)
            self.duplicate = gate.watch(opened)
            if tls:
                self.ssl_context = gate.tls
            return opened
        except NotResolved as error:
            raise NameResolutionError(self.host, self, socket.gaierror(f"{error}")) from error
        except OSError as error:
            raise NewConnectionError(self, f"{error}") from error

    def close(self: Any) -> None:
        if self.duplicate is not None:
            gate.release(self.duplicate)
            self.duplicate = None
        base.close(self)

    return type(base.__name__, (base,), {"_new_conn": new_connection, "close": close, "duplicate": None})


def _pool(base: type, connection: type) -> type:
    return type(base.__name__, (base,), {"ConnectionCls": connection})
