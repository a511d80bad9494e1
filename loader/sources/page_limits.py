"""Limits for source systems: permitted places, time limit, secrets by reference.

An editor may type any location. Without these limits a page would read the product's own secrets, or
probe any host of its network.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from elevata.core.errors import MetadataError, as_sentence
from elevata.core.secrets import NoSecret, secret_named
from loader.contract.refusals import Refusal
from loader.domain.sources.hosts import check_host
from loader.services.sources.specs import (
    absolute_place,
    check_secret_of,
    copy_place,
    database_place,
    place_of,
    source_roots,
)
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.sources.locations import Location, parse_location
from metadata.models import System

T = TypeVar("T")

SECONDS = 8.0  # after which a page no longer waits for a source system
CONNECT_SECONDS = 4
STATEMENT_SECONDS = 5
MAX_COLUMNS = 2_000
LONGEST_VALUE = 2_000  # characters of a sampled value
# Unpacked bytes of a file that is read record by record, or of a block of it: values in memory take many times more.
LARGEST_READ = 32 << 20
# Readings of this process that have not ended; abandoned ones count, so that slow files cannot take all its threads.
_MOST_READINGS = 8
_readings = threading.BoundedSemaphore(_MOST_READINGS)


def within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """Return the result of ``work``. Raise Refusal TOO_SLOW after ``seconds``; its message begins with ``what``.

    A file system that hangs cannot be interrupted, so the work goes on in an abandoned thread. While too many go on,
    further work is refused with the same code.
    """
    if not _readings.acquire(blocking=False):
        raise Refusal(
            "TOO_SLOW",
            f"{what} was not read: {_MOST_READINGS} other readings have not ended",
            hint="Try again, or contact the administrator of the systems that give no answer.",
        )
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again by the caller
            errors.append(error)
        finally:
            _readings.release()

    thread = threading.Thread(target=run, name="outside", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _readings.release()
        raise
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise too_slow(what, seconds)
    return results[0]


def too_slow(what: str, seconds: float) -> Refusal:
    """Return the refusal of work that took longer than ``seconds``."""
    return Refusal(
        "TOO_SLOW",
        f"{what} gave no answer within {seconds:.0f} seconds",
        hint="Try again, or contact the administrator of that system.",
    )


def folder_of(system: System) -> Path:
    """Return a system's folder of files. Raise Refusal NO_LOCATION, BAD_LOCATION, NOT_FROM_HERE, OUTSIDE_ROOTS."""
    if not system.location.strip():
        raise Refusal(
            "NO_LOCATION",
            f"{system} names no folder",
            hint="Edit the system and say where its files are.",
        )
    return local(allowed(system.location))


def place_in(system: System, location: str) -> Location:
    """Return the place of a file or folder; ``location`` is absolute or relative to the system's location.

    Raise Refusal BAD_LOCATION or OUTSIDE_ROOTS.
    """
    return _check_roots(place_of(location, system.location, shown=location), location)


def allowed(location: str) -> Location:
    """Return the place of a location with links followed, even if nothing is there. Raise Refusal OUTSIDE_ROOTS."""
    return _check_roots(absolute_place(location), location)


def must_be_allowed(system: System, locations: Iterable[str] = ()) -> None:
    """Raise MetadataError ``place_not_allowed`` if a system's folder, or a location in it, is outside of the roots.

    A load reads whatever is there, so the editor of a location must not be able to choose any. The same holds for
    copies, which are written there.
    """
    if system.kind in (System.Kind.DUCKDB, System.Kind.DELTA) and system.location:
        _must(lambda: copy_place(system))
    if system.kind != System.Kind.FILES:
        return
    if system.location:
        _must(lambda: allowed(system.location))
    for location in locations:
        _must(partial(place_in, system, location))


def _must(check: Callable[[], object]) -> None:
    """Raise MetadataError ``place_not_allowed`` if a check of a location raises a Refusal."""
    try:
        check()
    except Refusal as refusal:
        message = f"{as_sentence(refusal.message)} {refusal.hint}".strip()
        raise MetadataError("place_not_allowed", message, "location") from None


def source_places(*sources: Mapping[str, Any]) -> set[str]:
    """Return the locations of source datasets, given by their fields: of their rows, and of their key lists."""
    intakes = [source.get("intake") for source in sources]
    key_lists = [intake.get("key_list") for intake in intakes if isinstance(intake, Mapping)]
    locations = [source.get("location") for source in sources]
    return {place for place in (*locations, *key_lists) if isinstance(place, str) and place}


def local(place: Location) -> Path:
    """Return the path of a place on this machine. Raise Refusal NOT_FROM_HERE for one of an object store."""
    if not place.is_local:
        raise Refusal(
            "NOT_FROM_HERE",
            f"{place} is a place that only the runner can reach ({place.scheme}:)",
            hint="Only folders of this machine can be browsed. Import the source from YAML; loads can read it.",
        )
    return Path(place.path)


def _check_roots(place: str, shown: str) -> Location:
    roots = source_roots()
    try:
        return roots.check(parse_location(place, folder="/"))
    except MetadataError:
        raise outside_roots(shown) from None


def outside_roots(shown: str) -> Refusal:
    """Return the refusal of a location, or of a link in it, that leads outside of the roots."""
    return Refusal(
        "OUTSIDE_ROOTS",
        f"{shown} is outside the folders that sources may be read from",
        hint=f"Allowed are {', '.join(map(str, source_roots().places))}. "
        "An administrator sets them in ELEVATA_SOURCE_ROOTS.",
    )


def database_of(system: System, kinds: Collection[str] = ("postgresql",)) -> DatabasePlace:
    """Return the database of a system, of a kind among ``kinds``.

    Raise Refusal BAD_LOCATION, NOT_FROM_HERE or HOST_NOT_ALLOWED.
    """
    place = database_place(system)
    if place.kind not in kinds:
        raise Refusal(
            "NOT_FROM_HERE",
            f"{system}: pages can ask {', '.join(kinds)} only, not {place.kind}",
            hint="Import its sources from YAML; loads can read them.",
        )
    check_host(place.host, place.port, settings.SOURCE_HOSTS)
    return place


def password_of(system: System) -> str:
    """Return the password that the system names (``secret_named``); empty if it names none. Never shown, never logged.

    Raise Refusal BAD_LOCATION or SECRET_NOT_SET.
    """
    if not system.secret:
        return ""
    check_secret_of(system)
    try:
        return secret_named(system.secret)
    except NoSecret as problem:
        raise Refusal(
            "SECRET_NOT_SET",
            f"{problem}, where the web pages run",
            hint="Set it for the web process and start that again, or correct the variable's name in the system.",
        ) from None
