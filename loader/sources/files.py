"""Deliveries in a folder of files: connection test, listing and sample."""

import glob
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from loader.contract.refusals import Refusal
from loader.domain.sources.folders import without_values
from loader.sources.results import ConnectionResult, Delivery, ListedItem, Listing
from metadata.domain.sources.formats import format_of
from metadata.domain.sources.locations import OutsideRoots, Roots

# A delivery is one file, or a folder of ``part-`` files that another program wrote.


MAX_FILES = 5_000
MAX_DEPTH = 6
HIDDEN = ("_", ".")  # a load does not read these either
# Folder that Spark and Hadoop keep beside their files until these are complete.
_TEMPORARY = "_temporary"


def reach_folder(folder: Path, roots: Roots) -> ConnectionResult:
    """Return the result of a test of the folder, and its contents. Raise Refusal if it is missing or unreadable."""
    deliveries, cut = _deliveries(folder, roots)
    count = f"{'more than ' if cut else ''}{sum(delivery.files for delivery in deliveries):,}"
    facts = [("Folder", str(folder)), ("Files that can be read", count)]
    dated = [delivery for delivery in deliveries if delivery.modified is not None]
    if dated:
        newest = max(dated, key=lambda delivery: delivery.modified or datetime.min.replace(tzinfo=UTC))
        facts.append(("Newest", f"{newest.location}, {newest.modified:%Y-%m-%d %H:%M} UTC"))
    message = "can be read" if deliveries else "holds no file that ends like a delivery"
    return ConnectionResult(f"The folder is there and {message}.", tuple(facts))


def list_folder(folder: Path, roots: Roots, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return deliveries below the folder whose location has ``search`` in it, sorted by location."""
    deliveries, cut = _deliveries(folder, roots)
    wanted = search.strip().lower()
    matches = [delivery for delivery in deliveries if wanted in delivery.location.lower()]
    matches.sort(key=lambda delivery: delivery.location)
    return Listing(tuple(matches[start : start + count]), len(matches), cut)


def delivery_at(path: Path, roots: Roots, *, shown: str = "") -> Delivery:
    """Return the delivery that a load of this location would read now. Raise the refusals of ``files_at``."""
    statuses = [(file, file.stat()) for file in files_at(path, roots, shown=shown)]
    newest, status = max(statuses, key=lambda each: (each[1].st_mtime, str(each[0])))
    return Delivery(
        files=len(statuses),
        size=sum(each.st_size for _, each in statuses),
        newest=newest.name,
        modified=datetime.fromtimestamp(status.st_mtime, tz=UTC),
        format=format_of(newest.name),
    )


def files_at(path: Path, roots: Roots, *, shown: str = "") -> list[Path]:
    """Return the files that a load of this location would read, sorted: the file, all below a folder, or the matches.

    ``shown`` is the location in messages, by default the path. Raise Refusal MISSING_FILE, UNREADABLE_FOLDER or
    UNFINISHED_FOLDER, or OutsideRoots for a file that a link leads out of the roots.
    """
    shown = shown or str(path)
    if path.is_file():
        return [Path(roots.check_file(str(path)))]
    # A name is a pattern only if no file has it.
    matches = [path] if path.is_dir() else [Path(match) for match in sorted(glob.glob(str(path)))]
    if not matches:
        problem = "matches no file" if glob.has_magic(str(path)) else "is not there"
        raise Refusal(
            "MISSING_FILE",
            f"{shown} {problem}",
            file=shown,
            hint="Put the delivery there, or correct the name.",
        )
    files = [file for match in matches for file in _files_below(match, roots, shown)]
    if not files:
        raise Refusal("MISSING_FILE", f"{shown} holds no file that is read", file=shown)
    return files


def _files_below(path: Path, roots: Roots, shown: str) -> list[Path]:
    """Return a matching file unless its name is hidden, or all files below a matching folder."""
    if path.is_file():
        return [] if path.name.startswith(HIDDEN) else [Path(roots.check_file(str(path)))]
    if (path / _TEMPORARY).is_dir():
        raise Refusal(
            "UNFINISHED_FOLDER",
            f"{shown} holds a folder {_TEMPORARY}: its writer has not finished, or died",
            file=shown,
            hint="Wait until the writer is done.",
        )
    return sorted(Path(roots.check_file(entry.path)) for entry, _ in _walk(path) if _is_allowed(entry, roots))


def _deliveries(folder: Path, roots: Roots) -> tuple[list[ListedItem], bool]:
    """Return the deliveries, and True if not all files were examined. Raise Refusal MISSING_FOLDER."""
    if not folder.is_dir():
        problem = "is a file, not a folder" if folder.exists() else "is not there"
        raise Refusal(
            "MISSING_FOLDER",
            f"{folder} {problem}",
            file=str(folder),
            hint="Make the folder, or correct the system's location.",
        )
    parts: dict[str, list[tuple[str, os.stat_result]]] = {}
    deliveries: list[ListedItem] = []
    count = 0
    for entry, relative in _walk(folder, MAX_DEPTH):
        count += 1
        if count > MAX_FILES:
            break
        kind = format_of(entry.name)
        if not kind or not _is_allowed(entry, roots):
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue  # it was removed meanwhile
        above, _, name = relative.rpartition("/")
        if whole := without_values(above):
            above = whole
        if above and (name.startswith("part-") or relative != f"{above}/{name}"):
            parts.setdefault(above, []).append((name, status))
        else:
            deliveries.append(_delivery(relative, kind, [status]))
    for above, files in parts.items():
        deliveries.append(_delivery(above, format_of(files[0][0]), [status for _, status in files], folder=True))
    return deliveries, count > MAX_FILES


def _is_allowed(entry: os.DirEntry, roots: Roots) -> bool:
    """Return False for a link out of the roots, and for a file in one of the product's own folders."""
    try:
        roots.check_file(entry.path)
    except OutsideRoots:
        return False
    return True


def _delivery(location: str, kind: str, statuses: list[os.stat_result], *, folder: bool = False) -> ListedItem:
    name = location.rpartition("/")[2]
    return ListedItem(
        name=name if folder else name.partition(".")[0] or name,
        location=location,
        format=kind,
        size=sum(status.st_size for status in statuses),
        modified=datetime.fromtimestamp(max(status.st_mtime for status in statuses), tz=UTC),
        files=len(statuses),
        note=f"a folder of {len(statuses):,} files" if folder else "",
    )


def _walk(folder: Path, depth: float = math.inf, above: str = "") -> Iterator[tuple[os.DirEntry, str]]:
    """Yield every file that is not hidden, with its relative path, in the folder and ``depth`` levels below.

    Raise Refusal UNREADABLE_FOLDER.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise Refusal(
            "UNREADABLE_FOLDER",
            f"{folder} cannot be read: {error.strerror or error}",
            file=str(folder),
            hint="The user that the web pages run as needs to be allowed to list it.",
        ) from error
    for entry in entries:
        if entry.name.startswith(HIDDEN):
            continue
        if entry.is_file():
            yield entry, f"{above}{entry.name}"
        elif entry.is_dir(follow_symlinks=False) and depth > 0:
            yield from _walk(Path(entry.path), depth - 1, f"{above}{entry.name}/")
