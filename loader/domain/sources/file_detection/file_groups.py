"""Groups of files that one source can read by a pattern."""

import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.domain.sources.file_detection.file_names import dated_name

# Letters that the names of files share at least, so that their pattern does not match any file.
_LEAST_IN_COMMON = 3
_PATTERN_SIGNS = re.compile(r"[*?\[\]{}]")


@dataclass(frozen=True)
class ReadFile:
    """File that was read: its location, and the format, options and column names by which it is."""

    location: str
    format: str
    options: Mapping[str, Any]
    names: tuple[str, ...]


@dataclass(frozen=True)
class FileGroup:
    """Files with one header; ``pattern`` is empty unless one source can read them all, with these options."""

    files: tuple[ReadFile, ...]
    pattern: str = ""
    options: Mapping[str, Any] | None = None

    @property
    def locations(self) -> list[str]:
        return [file.location for file in self.files]


def group_files(files: Sequence[ReadFile]) -> list[FileGroup]:
    """Return the files in groups of one format and header whose names have a pattern in common."""
    alike: dict[tuple[str, str, tuple[str, ...], str], list[ReadFile]] = {}
    for file in files:
        # Files of different names are apart, unless dates in them are all that differs.
        folder, dated = os.path.dirname(file.location), dated_name(file.location)[0]
        alike.setdefault((folder, file.format, file.names, dated), []).append(file)
    groups: list[FileGroup] = []
    undated: dict[tuple[str, str, tuple[str, ...]], list[ReadFile]] = {}
    for (folder, format_name, names, dated), members in alike.items():
        if dated:
            groups.append(_group(members, dated))
        else:
            undated.setdefault((folder, format_name, names), []).extend(members)
    groups += [_group(members, _common_pattern([file.location for file in members])) for members in undated.values()]
    places = {file.location: place for place, file in enumerate(files)}
    return sorted(groups, key=lambda group: places[group.files[0].location])


def _group(files: Sequence[ReadFile], pattern: str) -> FileGroup:
    options = _shared_options(files)
    is_one = len(files) > 1 and pattern and options is not None
    return FileGroup(tuple(files), pattern if is_one else "", options if is_one else None)


def _shared_options(files: Sequence[ReadFile]) -> Mapping[str, Any] | None:
    """Return options that are those of every file; one that a file does not show may be that of another one.

    None if the options of files contradict each other.
    """
    most = max((file.options for file in files), key=len)
    is_shared = all(most.get(name, value) == value for file in files for name, value in file.options.items())
    return most if is_shared and all(set(file.options) <= set(most) for file in files) else None


def _common_pattern(locations: Sequence[str]) -> str:
    """Return the pattern of the names' common beginning and end; empty if they have too little in common."""
    if len(locations) < 2 or any(_PATTERN_SIGNS.search(location) for location in locations):
        return ""
    folder = os.path.dirname(locations[0])
    names = [os.path.basename(location) for location in locations]
    start = os.path.commonprefix(names)
    end = os.path.commonprefix([name[len(start) :][::-1] for name in names])[::-1]
    if len(re.sub(r"[\W_]", "", start)) < _LEAST_IN_COMMON or "." not in end:
        return ""
    pattern = f"{start}*{end}"
    return f"{folder}/{pattern}" if folder else pattern
