"""Private PostgreSQL cluster of a test session: fast because it need not survive a crash."""

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from elevata.bootstrap.programs import postgres_bin
from tests.services.process import Server, ServerProblem, as_user

DATABASE = "elevata"
_UNPRIVILEGED = "postgres"
_QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "100",
    "listen_addresses": "127.0.0.1",
}


def start_postgres(folder: Path) -> tuple[Server, str]:
    """Start a cluster in ``folder``; return it and the URL of an empty database in it."""
    programs = postgres_bin()
    if programs is None:
        raise ServerProblem("PostgreSQL is not installed")
    user = _user()
    folder.mkdir()
    if user:
        shutil.chown(folder, user, user)
        folder.parent.chmod(0o711)  # so that this user can reach its own folder
    _call(
        [programs / "initdb", "--pgdata", folder / "data", "--username", DATABASE, "--auth", "trust"]
        + ["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"],
        user,
    )
    options = [f"--{name}={value}" for name, value in _QUICK.items()]
    server = Server(
        "PostgreSQL",
        lambda port: [
            str(programs / "postgres"),
            *("-D", f"{folder}/data", "-p", str(port), "-k", str(folder)),
            *options,
        ],
        _answers,
        log=folder.parent / "postgres.log",
        stop_signal=signal.SIGINT,  # fast shutdown: does not wait for open connections
        user=user,
    )
    with _connect(server.port) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return server, f"postgres://{DATABASE}@127.0.0.1:{server.port}/{DATABASE}"


def _user() -> str | None:
    """Return the operating-system user of the server: Debian's under root, which PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_UNPRIVILEGED).pw_name
    except KeyError as error:
        why = f"PostgreSQL does not run as root, and there is no user {_UNPRIVILEGED}"
        raise ServerProblem(why) from error


def _connect(port: int) -> psycopg.Connection:
    where = {"host": "127.0.0.1", "port": port, "user": DATABASE, "dbname": "postgres"}
    return psycopg.connect(**where, autocommit=True, connect_timeout=5)


def _answers(port: int) -> bool:
    try:
        _connect(port).close()
    except psycopg.OperationalError:
        return False
    return True


def _call(command: list, user: str | None) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        **as_user(user),
    )
    if done.returncode != 0:
        raise ServerProblem(f"{Path(command[0]).name}: {done.stderr.strip()}")
