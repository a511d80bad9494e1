"""Product commands in separate processes with their own data folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from django.conf import settings

PUT_ASIDE = ("DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of an embedded installation in ``folder``."""
    kept = {name: value for name, value in os.environ.items() if name not in PUT_ASIDE}
    return kept | {"ELEVATA_DATA_DIR": str(folder)}


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


def below(pid: int) -> set[int]:
    """Return the ids of the descendants of a process."""
    from loader.management.peak_memory import _descendants

    return set(_descendants(pid))
