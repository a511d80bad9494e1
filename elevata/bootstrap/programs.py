"""Programs that tests start: search and installation."""

import os
import re
import shutil
from glob import glob
from pathlib import Path

from elevata.bootstrap import system
from elevata.bootstrap.system import Package

_VERSIONS = (18, 17, 16, 15)  # of PostgreSQL, where a package's name has one
# Name in messages -> its packages. Valkey is Redis under another licence, and some releases have only one of them.
PROGRAMS = {
    "PostgreSQL": Package(
        apt=("postgresql",),
        dnf=("postgresql-server",),
        apk=tuple(f"postgresql{version}" for version in _VERSIONS),
        brew=tuple(f"postgresql@{version}" for version in _VERSIONS),
    ),
    "Redis": Package(
        apt=("redis-server", "valkey-server"),
        dnf=("redis", "valkey"),
        apk=("redis", "valkey"),
        brew=("redis", "valkey"),
    ),
    "Chromium": Package(
        apt=("chromium", "chromium-browser"), dnf=("chromium",), apk=("chromium",), brew=("chromium", "google-chrome")
    ),
    # tests/services/moved_clock.py compiles a library. Packages of the compiler alone have no headers on Debian and
    # Alpine.
    "C compiler": Package(apt=("build-essential",), dnf=("gcc",), apk=("build-base",), brew=("gcc",)),
}
MARIADB = Package(
    apt=("mariadb-server", "default-mysql-server"), dnf=("mariadb-server",), apk=("mariadb",), brew=("mariadb",)
)

_CLUSTERS = Path("/usr/lib/postgresql")
# Programs of PostgreSQL that are not on PATH: those of Fedora's, Alpine's and Homebrew's packages.
_OTHER_CLUSTERS = (
    "/usr/pgsql-*/bin/postgres",
    "/usr/libexec/postgresql*/postgres",
    "/opt/homebrew/opt/postgresql@*/bin/postgres",
    "/usr/local/opt/postgresql@*/bin/postgres",
)
_REDIS = ("redis-server", "valkey-server")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def postgres_bin() -> Path | None:
    """Return the folder with initdb and postgres: the one on PATH, else the newest one that a package has."""
    on_path = shutil.which("initdb")
    if on_path and shutil.which("postgres"):
        return Path(on_path).parent
    others = (Path(path) for pattern in _OTHER_CLUSTERS for path in glob(pattern))
    programs = [*_CLUSTERS.glob("*/bin/postgres"), *others]
    folders = [path.parent for path in programs if (path.parent / "initdb").exists()]
    newest = sorted(folders, key=lambda folder: [int(n) for n in re.findall(r"\d+", str(folder))][-1:])
    return newest[-1] if newest else None


def redis_server() -> Path | None:
    """Return the server program of Redis or Valkey."""
    program = next(filter(None, map(shutil.which, _REDIS)), None)
    return Path(program) if program else None


def chromium() -> Path | None:
    """Return the browser: CHROMIUM_PATH if set, else one on PATH."""
    configured = os.environ.get("CHROMIUM_PATH")
    if configured:
        return Path(configured) if Path(configured).exists() else None
    program = next(filter(None, map(shutil.which, (*_BROWSERS, *_APPLICATIONS))), None)
    return Path(program) if program else None


def c_compiler() -> Path | None:
    """Return the C compiler on PATH."""
    program = shutil.which("cc")
    return Path(program) if program else None


def mariadb() -> str:
    """Install MariaDB, a source of tests, if it is not there."""
    if shutil.which("mariadbd") or Path("/usr/sbin/mariadbd").exists():
        return "there"
    system.install([MARIADB], why="the tests need MariaDB", otherwise="install MariaDB")
    return "installed"


def missing() -> list[str]:
    """Return the names of the programs that are not installed."""
    programs = {
        "PostgreSQL": postgres_bin(),
        "Redis": redis_server(),
        "Chromium": chromium(),
        "C compiler": c_compiler(),
    }
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
