"""Connection test of systems that only take copies: DuckDB files and folders of Delta tables."""

import os
from pathlib import Path

from loader.contract.refusals import Refusal
from loader.services.sources.specs import copy_place
from loader.sources.page_limits import SECONDS, local, within
from loader.sources.results import ConnectionResult, Listing
from metadata.models import System


def reach_target(system: System) -> ConnectionResult:
    """Return the result of a test whether a copy can be written. Raise Refusal NOT_WRITABLE with the reason if not."""
    path = local(copy_place(system))
    return within(SECONDS, str(path), lambda: _reach(path, is_file=system.kind == System.Kind.DUCKDB))


def _reach(path: Path, *, is_file: bool) -> ConnectionResult:
    folder = path.parent if is_file else path
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise Refusal("NOT_WRITABLE", f"{nearest} is no folder that can be written to", hint="Correct the location.")
    what = "file" if is_file else "folder"
    message = f"The {what} is there." if path.exists() else f"The {what} does not exist yet; the first copy creates it."
    return ConnectionResult(message, ((what.capitalize(), str(path)),))


def list_nothing(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Raise Refusal NO_SOURCES: nothing is read from such a system."""
    raise Refusal(
        "NO_SOURCES",
        f"{system} takes copies of datasets; nothing is loaded from it",
        hint="Add a copy on the page of a dataset.",
    )
