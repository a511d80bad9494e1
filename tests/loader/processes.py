"""Product commands in separate processes with their own data folder."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

from django.conf import settings

PUT_ASIDE = ("DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of an embedded installation in ``folder``."""
    variables = {name: value for name, value in os.environ.items() if name not in PUT_ASIDE}
    return variables | {"ELEVATA_DATA_DIR": str(folder)}


def start(folder: Path, *arguments: str, output=subprocess.PIPE) -> subprocess.Popen:
    """Start ``manage.py`` with these arguments in its own process group."""
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=environment(folder),
        stdout=output,
        stderr=subprocess.STDOUT if output is not subprocess.PIPE else subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def manage(folder: Path, *arguments: str, seconds: float = 180) -> subprocess.CompletedProcess:
    """Run a command to its end."""
    process = start(folder, *arguments)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@cache
def _migrated() -> Path:
    """Return a data folder with an empty control database, made once a session."""
    session = Path(os.environ["ELEVATA_DATA_DIR"]).parent
    folder = Path(tempfile.mkdtemp(prefix="migrated-", dir=session))
    done = manage(folder, "migrate", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    return folder


def make_folder(folder: Path) -> None:
    """Make a data folder with an empty control database, as ``migrate`` leaves it."""
    shutil.copytree(_migrated(), folder, dirs_exist_ok=True)


class CommandServer:
    """A process that runs commands one after another in one data folder."""

    def __init__(self, folder: Path, **variables: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "commands.log").open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("command_server.py"))],
                cwd=settings.BASE_DIR,
                env=environment(folder) | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._log = folder / "commands.log"

    def run(self, *arguments: str, token: str = "", seconds: float) -> subprocess.CompletedProcess:
        """Run a command to its end."""
        self._process.stdin.write(json.dumps([arguments, token]) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired(arguments, seconds)
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        return subprocess.CompletedProcess(arguments, *json.loads(line))

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return as soon as the condition is true; fail after so many seconds."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(f"the condition did not hold within {seconds:g} s")


def lives(pid: int) -> bool:
    """Return True if the process runs and is no zombie."""
    try:
        # The process can end between opening and reading the file; the read then raises this error.
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def below(pid: int) -> set[int]:
    """Return the ids of the descendants of a process."""
    from loader.management.peak_memory import _descendants

    return set(_descendants(pid))
