"""Files of exports: their folder, which worker and web process share, and the removal of old ones."""

import time
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from loader.contract.refusals import Refusal
from loader.domain.queries.answers import EXPORT
from loader.models import ReadRequest


def export_file(read: ReadRequest) -> Path:
    """Return the path of the file that an export writes."""
    return Path(settings.EXPORT_FOLDER) / f"{read.pk}.csv"


def has_export(read: ReadRequest) -> bool:
    """Return True if the rows of an answered read are in a file: of an export, or of more differences than it has."""
    return read.kind == EXPORT or "exported" in ((read.answer or {}).get("difference") or {})


def open_export(read: ReadRequest) -> BinaryIO:
    """Return the file of an export. Raise Refusal EXPORT_GONE if it does not exist."""
    try:
        return export_file(read).open("rb")
    except FileNotFoundError:
        hint = "Export the rows again. Web and worker need the same ELEVATA_EXPORT_FOLDER."
        raise Refusal("EXPORT_GONE", "the file of the export does not exist any more", hint=hint) from None


def remove_old_exports(kept_for: timedelta) -> None:
    """Remove the files of exports that are older than that."""
    oldest = time.time() - kept_for.total_seconds()
    for path in Path(settings.EXPORT_FOLDER).glob("*.*"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
