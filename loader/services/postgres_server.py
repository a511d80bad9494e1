"""Temporary PostgreSQL server, for the replay of cases: reachable by a Unix socket only, deleted at the end."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elevata.bootstrap.programs import postgres_bin
from loader.contract.refusals import Refusal

_USER = "postgres"  # PostgreSQL does not run as root; packages create this user
_SECONDS = 600  # initdb takes a second, or minutes on a busy machine


@contextmanager
def temporary_postgres() -> Iterator[str]:
    """Yield the URL of an empty database. Raise Refusal NO_POSTGRES if the programs are missing or do not start."""
    programs = postgres_bin()
    if programs is None:
        raise _refusal("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="replay-postgres-"))
    user = _USER if os.geteuid() == 0 else None
    try:
        if user:
            _check_user(user)
            shutil.chown(folder, user, user)
        data, log = folder / "data", folder / "log"
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        _call([programs / "initdb", "-D", data, "-U", _USER, "--auth", "trust", "-E", "UTF8", "--locale", "C"], user)
        _call([programs / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start"], user)
        try:
            yield f"postgresql://{_USER}@/postgres?host={folder}"
        finally:
            _call([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_user(user: str) -> None:
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise _refusal(f"PostgreSQL does not run as root, and there is no user {user}") from None


def _call(command: list, user: str | None) -> None:
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            user=user,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _refusal(str(problem)) from problem
    if done.returncode != 0:
        raise _refusal(f"{Path(command[0]).name}: {done.stderr.strip()}")


def _refusal(message: str) -> Refusal:
    return Refusal("NO_POSTGRES", message, hint="Install PostgreSQL, or name a server with --url.")
