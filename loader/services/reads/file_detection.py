"""Detection of how the files of a system are read, for users who may read its data."""

from dataclasses import replace
from typing import Any

from django.core.exceptions import PermissionDenied

from elevata.accounts.roles import Permission, needed_role
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.model import Detected
from loader.services.reads.read_permissions import may_read, may_read_sensitive
from loader.services.sources.specs import source_roots
from loader.sources.file_detection import detect_file
from loader.sources.files import files_at
from loader.sources.limits import SECONDS, local, place_in, within
from metadata.domain.sources.locations import OutsideRoots
from metadata.models import SourceDataset, System
from metadata.selectors.classification import source_classification


def detect_location(user: Any, system: System, location: str) -> Detected:
    """Return how the first file at a location of a system is read, named by the location.

    Reasons do not repeat values if the location is that of a source with sensitive columns that the user may not read.
    Raise PermissionDenied without the permission to read data, or Refusal.
    """
    if not may_read(user, system):
        raise PermissionDenied(f"Samples of {system}: {needed_role(Permission.READ_DATA)}.")
    path, roots = local(place_in(system, location)), source_roots()
    try:
        detected = within(
            SECONDS, str(path), lambda: detect_file(files_at(path, roots)[0], roots, name=location)
        )
    except OutsideRoots as problem:
        raise Refusal("OUTSIDE_ROOTS", problem.message) from None
    if _hides_values(user, system, location):
        questions = tuple(replace(question, reason="the values leave it open") for question in detected.questions)
        return replace(detected, questions=questions)
    return detected


def _hides_values(user: Any, system: System, location: str) -> bool:
    source = SourceDataset.objects.filter(system=system, location=location).first()
    is_sensitive = source is not None and bool(source_classification(source).sensitive)
    return is_sensitive and not may_read_sensitive(user, system)
