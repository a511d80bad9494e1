"""Detection of how the files of a system are read, for users who may read its data."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied

from elevata.accounts.roles import Permission, needed_role
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.detect import target_names
from loader.domain.sources.file_detection.model import Detected
from loader.services.reads.classified_places import ClassifiedPlace, renamed
from loader.services.reads.read_permissions import may_read, may_read_sensitive
from loader.services.reads.source_samples import record_sensitive_sample
from loader.services.sources.specs import source_roots
from loader.sources.file_detection import detect_file
from loader.sources.files import files_at
from loader.sources.page_limits import SECONDS, folder_of, local, outside_roots, place_in, too_slow, within
from metadata.domain.sources.locations import OutsideRoots
from metadata.models import System

# Rows that a detection reads are not counted.
_NO_ROWS = 0


def detect_locations(user: Any, system: System, locations: Sequence[str]) -> list[Detected | Refusal]:
    """Return how the first file at each location of a system is read, or its refusal.

    All files together take ``SECONDS`` at most. If a source with sensitive columns reads a file, names and reasons
    have no values for a user who may not read these; for others the read is recorded. Raise PermissionDenied without
    the permission to read data.
    """
    if not may_read(user, system):
        raise PermissionDenied(f"Detection in {system}: {needed_role(Permission.READ_DATA)}.")
    end = time.monotonic() + SECONDS
    results: list[Detected | Refusal] = []
    for location in locations:
        try:
            results.append(_detect(user, system, location, end - time.monotonic()))
        except Refusal as refusal:
            results.append(refusal)
    return results


def _detect(user: Any, system: System, location: str, seconds: float) -> Detected:
    classified = ClassifiedPlace.of(system, location)
    is_reader = may_read_sensitive(user, system)
    try:
        detected = _detected(system, location, seconds)
    except Refusal as refusal:
        # Detection may take a record for the header.
        raise classified.without_values(refusal, as_described=is_reader or not classified.is_sensitive) from None
    if not classified.is_sensitive:
        return detected
    names = [column.name for column in detected.columns]
    if is_reader:
        as_described = classified.is_read_as_described(detected.format, dict(detected.options))
        hidden = classified.hidden(names, as_described=as_described)
        record_sensitive_sample(classified, "file detection", names, hidden, rows=_NO_ROWS)
        return detected
    shown = classified.shown_names(names, as_described=False)
    columns = tuple(
        replace(column, name=name, target_name=target, personal="")
        for column, name, target in zip(detected.columns, shown, target_names(shown), strict=True)
    )
    questions = tuple(question.without_values() for question in detected.questions)
    unread = renamed(detected.unread_columns, names, shown)
    return replace(detected, columns=columns, questions=questions, unread_columns=unread)


def _detected(system: System, location: str, seconds: float) -> Detected:
    if seconds <= 0:
        raise too_slow(location, SECONDS)
    path, folder = local(place_in(system, location)), folder_of(system)
    if not path.is_relative_to(folder):
        raise _outside(system, location)
    try:
        return within(seconds, location, partial(_first_file, system, path, folder, location))
    except OutsideRoots:
        raise outside_roots(location) from None


def _first_file(system: System, path: Path, folder: Path, location: str) -> Detected:
    roots = source_roots()
    file = files_at(path, roots, shown=location)[0]
    if not file.resolve().is_relative_to(folder):
        raise _outside(system, location)
    return detect_file(file, roots, name=location)


def _outside(system: System, location: str) -> Refusal:
    return Refusal(
        "OUTSIDE_ROOTS",
        f"{location} is outside of the folder of {system}",
        file=location,
        hint="Name a file in the system's folder.",
    )
