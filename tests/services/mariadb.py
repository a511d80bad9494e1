"""Private MariaDB server for tests of sources, and the JDBC drivers that Spark needs to read it."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from elevata.bootstrap.places import DATABASE_DRIVERS as JARS
from tests.services.process import Server, ServerProblem, as_user

__all__ = ["JARS", "start_mariadb"]

_USER = "mysql"


def start_mariadb(folder: Path, statements: Iterable[str]) -> Server:
    """Start a server in ``folder`` that runs ``statements`` first; it listens on the loopback address only."""
    program, install = shutil.which("mariadbd") or "/usr/sbin/mariadbd", shutil.which("mariadb-install-db")
    if install is None or not Path(program).exists():
        raise ServerProblem("MariaDB is not installed")
    user = _user()
    folder.mkdir()
    # The server expects one statement per line.
    lines = "".join(" ".join(statement.split()) + ";\n" for statement in statements)
    begin = folder / "begin.sql"
    begin.write_text(lines, encoding="utf-8")
    if user:
        for path in (folder, begin):
            shutil.chown(path, user, user)
        for parent in folder.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(0o711)
    data = ["--no-defaults", f"--datadir={folder}/data", f"--tmpdir={folder}"]
    _run([install, *data, "--auth-root-authentication-method=normal", "--skip-test-db"], user)
    return Server(
        "MariaDB",
        lambda port: [
            program,
            *data,
            *(
                "--bind-address=127.0.0.1",
                f"--port={port}",
                f"--socket={folder}/socket",
                f"--init-file={begin}",
            ),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--default-time-zone=+05:00"),
        ],
        _answers,
        log=folder.parent / "mariadb.log",
        stop_signal=signal.SIGTERM,
        user=user,
    )


def _user() -> str | None:
    """Return the operating-system user of the server: Debian's under root, because MariaDB refuses root; else None."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError as error:
        raise ServerProblem(f"MariaDB does not run as root, and there is no user {_USER}") from error


def _answers(port: int) -> bool:
    """Return True when the server greets; by then it has run its first statements."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return len(connection.recv(5)) == 5
    except OSError:
        return False


def _run(command: list[str], user: str | None) -> None:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", **as_user(user))
    if result.returncode != 0:
        raise ServerProblem(f"{Path(command[0]).name}: {result.stderr.strip() or result.stdout.strip()}")
