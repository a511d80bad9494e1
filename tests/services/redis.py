"""Private Redis of a test session that writes nothing to disk."""

import signal
import socket
from pathlib import Path

from elevata.bootstrap.programs import redis_server
from tests.services.process import Server, ServerProblem


def start_redis(folder: Path) -> tuple[Server, str]:
    """Start a server in ``folder``; return it and its URL."""
    program = redis_server()
    if program is None:
        raise ServerProblem("Redis is not installed")
    folder.mkdir()
    server = Server(
        "Redis",
        lambda port: [
            str(program),
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)),
            *("--save", "", "--appendonly", "no", "--daemonize", "no"),
        ],
        _answers,
        log=folder.parent / "redis.log",
        stop_signal=signal.SIGTERM,
    )
    return server, f"redis://127.0.0.1:{server.port}/0"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
