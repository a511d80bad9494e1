"""Programs that tests start: search and installation."""

import os
import re
import shutil
from pathlib import Path

from elevata.bootstrap import system

# Name in messages -> Debian's package.
PROGRAMS = {"PostgreSQL": "postgresql", "Redis": "redis-server", "Chromium": "chromium"}

_CLUSTERS = Path("/usr/lib/postgresql")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def postgres_bin() -> Path | None:
    """Return the folder with initdb and postgres: the one on PATH, else Debian's newest."""
    on_path = shutil.which("initdb")
    if on_path and shutil.which("postgres"):
        return Path(on_path).parent
    folders = [path.parent for path in _CLUSTERS.glob("*/bin/postgres") if (path.parent / "initdb").exists()]
    newest = sorted(folders, key=lambda folder: [int(n) for n in re.findall(r"\d+", folder.parent.name)])
    return newest[-1] if newest else None


def redis_server() -> Path | None:
    """Return the Redis server program."""
    program = shutil.which("redis-server")
    return Path(program) if program else None


def chromium() -> Path | None:
    """Return the browser: CHROMIUM_PATH if set, else one on PATH."""
    configured = os.environ.get("CHROMIUM_PATH")
    if configured:
        return Path(configured) if Path(configured).exists() else None
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return Path(program) if program else None


def mariadb() -> str:
    """Install MariaDB, a source of tests, if it is not there."""
    if shutil.which("mariadbd") or Path("/usr/sbin/mariadbd").exists():
        return "there"
    system.install(["mariadb-server"], why="the tests need MariaDB", otherwise="install MariaDB")
    return "installed"


def missing() -> list[str]:
    """Return the names of the programs that are not installed."""
    programs = {"PostgreSQL": postgres_bin(), "Redis": redis_server(), "Chromium": chromium()}
    return [name for name in PROGRAMS if programs[name] is None]


def test_servers() -> str:
    """Install the missing programs."""
    needed = missing()
    if needed:
        system.install(
            [PROGRAMS[name] for name in needed],
            why=f"the tests need {', '.join(needed)}",
            otherwise=f"install {', '.join(needed)}",
        )
        return f"installed {', '.join(needed)}"
    return "all there"
