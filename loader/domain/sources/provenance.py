"""Names of a delivery's files in the provenance columns of raw."""

import re

from metadata.domain.sources.locations import parse_location

# Columns of a delivery's rows beside those of its contract; no delivered column has these names.
SOURCE_FILE, SOURCE_ROW = "\ue000source_file", "\ue000source_row"

_LOCAL = "file:"
# Paths that are the same in a URI.
_SAME_IN_URI = re.compile(r"[A-Za-z0-9_\-./:=]*", re.ASCII)


def folder_of(location: str) -> str:
    """Return the part of a source's location before its first pattern, as its files' paths begin."""
    fixed = parse_location(location, folder="/").fixed
    return f"{_LOCAL}{fixed}" if fixed.is_local else str(fixed)


def name_below(path: str, folder: str) -> str:
    """Return a file's path below the folder, its name if ``folder`` is the file, its whole path if it is elsewhere."""
    if path == folder:
        return path.rpartition("/")[2]
    inside = folder.rstrip("/") + "/"
    return path.removeprefix(inside) if path.startswith(inside) else path.removeprefix(_LOCAL)


def is_same_in_uri(path: str) -> bool:
    """Return True if no character of a path is escaped in a URI."""
    return _SAME_IN_URI.fullmatch(path) is not None
