"""Source locations: parsing, normalization, checks.

A location is the path or URI (one of ``SCHEMES``) of the files of a system or source dataset. The web process checks
it when it is saved and when a page reads it; the worker checks it again, with the same functions, when it loads.
Syntax that Hadoop would interpret (escapes, braces, percent signs, ``..``) is refused, so that the location that is
read is the one that was checked.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from urllib.parse import unquote

from elevata.core.errors import MetadataError

LOCAL = "file"
SCHEMES = (LOCAL, "s3a", "s3", "gs", "abfss", "abfs", "wasbs", "wasb", "hdfs")
MAX_LENGTH = 1000
MAX_SEGMENT_BYTES = 255
# The folder with the log of a Delta table, which is no delivery.
DELTA_LOG = "_delta_log"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+(?::\d{1,5})?", re.ASCII)
_DATA_DIR = re.compile(r"\{\{\s*data_dir\s*\}\}")
_DATE = re.compile(r"\{(?:run_date|date:([^{}]+))\}")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_DIRECTIVES = "YmdHMjGV"
_CLASS = re.compile(r"\[[A-Za-z0-9_](?:-?[A-Za-z0-9_])*\]", re.ASCII)
_PATTERN = re.compile(r"[*?\[]")
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
# The separator of roots: a colon that belongs to neither a scheme nor a port.
_BETWEEN_ROOTS = re.compile(r":(?!//|\d+/)")


class BadLocation(MetadataError):
    """Error for a text that is not a source location."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_location", message, "location")


class OutsideRoots(MetadataError):
    """Error for a location, or the target of a link, outside of the allowed roots."""

    def __init__(self, message: str) -> None:
        super().__init__("outside_roots", message, "location")


@dataclass(frozen=True)
class Location:
    """Normalized location: scheme, bucket or host (empty for local files), and the segments of the path."""

    scheme: str
    authority: str
    segments: tuple[str, ...]

    def __str__(self) -> str:
        """Return the local path or the URI in Hadoop's form, without escapes."""
        return self.path if self.is_local else f"{self.scheme}://{self.authority}{self.path}"

    @property
    def is_local(self) -> bool:
        return self.scheme == LOCAL

    @property
    def path(self) -> str:
        return "/" + "/".join(self.segments)

    @property
    def fixed(self) -> "Location":
        """Return the part before the first segment with a pattern."""
        count = next((n for n, text in enumerate(self.segments) if _PATTERN.search(text)), len(self.segments))
        return replace(self, segments=self.segments[:count])

    def may_share_files(self, other: "Location") -> bool:
        """Return False if no file can belong to both: files, folders of files, or patterns of them."""
        same_host = (self.scheme, self.authority) == (other.scheme, other.authority)
        return same_host and all(map(_may_match, self.segments, other.segments))

    def is_below(self, other: "Location") -> bool:
        """Return True if ``other`` is this location or a folder above it."""
        same_host = (self.scheme, self.authority) == (other.scheme, other.authority)
        return same_host and self.segments[: len(other.segments)] == other.segments


def joined(own: str, base: str, *, data_dir: str, at: datetime) -> str:
    """Return a dataset's location below its system's; an absolute path or a URI is returned unchanged.

    ``{{ data_dir }}`` is replaced by ``data_dir``, ``{run_date}`` and ``{date:%Y/%m/%d}`` by the time ``at`` in UTC.
    Raises BadLocation for another directive of a date.
    """
    own, base = (dated(_DATA_DIR.sub(lambda _: data_dir, text.strip()), at) for text in (own, base))
    if not base or own.startswith("/") or _SCHEME.match(own):
        return own
    return f"{base.removesuffix('/')}/{own}"


def undated(text: str) -> str:
    """Return a location with patterns in the places of its dates."""
    return _DATE.sub(lambda match: "/".join("*" for _ in (match[1] or "").split("/")), text)


def dated(text: str, at: datetime) -> str:
    """Return a location with its dates filled in: digits only, whatever the machine's language is."""
    return _DATE.sub(lambda match: _date(match[1] or "%Y-%m-%d", at.astimezone(UTC)), text)


def _date(shape: str, at: datetime) -> str:
    wrong = next((name for name in _DIRECTIVE.findall(shape) if name not in _DIRECTIVES or not name), None)
    if wrong is not None:
        known = ", ".join(f"%{name}" for name in _DIRECTIVES)
        raise BadLocation(f"holds %{wrong} in a date; those are {known}")
    return at.strftime(shape)


def parse_location(text: str, *, folder: str) -> Location:
    """Return the parsed location; a relative path is below ``folder``. Raise BadLocation with the reason."""
    text = text.strip()
    if len(text) > MAX_LENGTH + len(folder):
        raise BadLocation(f"is longer than {MAX_LENGTH} characters")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else LOCAL
    if scheme not in SCHEMES:
        raise BadLocation(f"{scheme}: is no scheme that sources may have; those are {', '.join(SCHEMES)}")
    rest = text[match.end() :] if match else text
    authority = ""
    if match:
        authority, rest = _authority(scheme, rest)
    elif not rest.startswith("/"):
        rest = f"{folder.rstrip('/')}/{rest}"
    parts = rest.removeprefix("/").removesuffix("/").split("/") if rest.strip("/") or "//" in rest else []
    if match and scheme == LOCAL:
        parts = [_decode(part) for part in parts]
    for part in parts:
        _check_segment(part)
    return Location(scheme, authority, tuple(parts))


def check_location(text: str) -> None:
    """Raise BadLocation for a text that is not a location, relative or absolute."""
    parse_location(joined(text, "", data_dir="/data", at=datetime(2000, 12, 31, tzinfo=UTC)), folder="/folder")


def split_roots(text: str) -> list[str]:
    """Return the roots in a variable: folders and prefixes of object stores, separated by colons."""
    return [root.strip() for root in _BETWEEN_ROOTS.split(text) if root.strip()]


@dataclass(frozen=True)
class Roots:
    """Folders and prefixes that sources must be below.

    ``closed`` are folders of the product itself. A root that is, or contains, a closed folder does not permit the
    files in it; a root inside of a closed folder does.
    """

    places: tuple[Location, ...]
    closed: tuple[str, ...] = ()
    # For files that the product itself wrote.
    anywhere: bool = False

    @classmethod
    def of(cls, roots: Iterable[str], closed: Iterable[str] = (), *, folder: str) -> "Roots":
        """Return the roots listed in settings. Raise BadLocation for an invalid location or one with a pattern."""
        places = tuple(parse_location(root, folder=folder) for root in roots)
        for place in places:
            if place != place.fixed:
                raise BadLocation(f"{place} is no root: it has a pattern")
        return cls(places, tuple(closed))

    def with_asked(self, location: Location) -> "Roots":
        """Return the roots with a local location added, whose links were followed when a user entered it.

        If its path contains a link since then, the roots are returned unchanged.
        """
        fixed = location.fixed
        if not location.is_local or os.path.realpath(fixed.path) != fixed.path:
            return self
        return replace(self, places=(*self.places, fixed))

    def check(self, location: Location) -> Location:
        """Return the location with all links followed. Raise OutsideRoots if it is outside of the roots.

        Of a location with a pattern, only the part before the pattern is resolved; the matching files are checked
        one by one.
        """
        if not location.is_local:
            if any(location.is_below(place) for place in self.places):
                return location
            raise self._outside(str(location))
        fixed = location.fixed
        real = os.path.realpath(fixed.path)
        if not self._permits(real):
            raise self._outside(location.path)
        rest = location.segments[len(fixed.segments) :]
        return replace(location, segments=(*PurePosixPath(real).parts[1:], *rest))

    def check_file(self, path: str) -> str:
        """Return the path by which to read a local file. Raise OutsideRoots if it links outside of the roots.

        The result is the real path, so that a later change of the link has no effect. If the link's extension
        differs from the file's, the link is returned, because the extension selects the decompression.
        """
        real = os.path.realpath(path)
        if not self._permits(real):
            raise self._outside(path)
        return real if os.path.splitext(real)[1] == os.path.splitext(path)[1] else path

    def check_key(self, uri: str) -> str:
        """Return the URI of a listed file in an object store. Raise OutsideRoots if it is not below a root."""
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/(.*)", uri, re.DOTALL)
        segments = tuple(match[3].split("/")) if match else ()
        key = Location(match[1].lower(), match[2], segments) if match else None
        if key is None or {"", ".", ".."} & set(segments) or not any(key.is_below(place) for place in self.places):
            raise self._outside(uri)
        return uri

    def _permits(self, real: str) -> bool:
        if self.anywhere:
            return True
        closed = [folder for folder in map(os.path.realpath, self.closed) if _is_below(real, folder)]
        for place in self.places:
            root = os.path.realpath(place.path) if place.is_local else ""
            if root and _is_below(real, root) and all(root != folder and _is_below(root, folder) for folder in closed):
                return True
        return False

    def _outside(self, path: str) -> OutsideRoots:
        return OutsideRoots(f"{path} is outside the places that sources may be read from")


ANYWHERE = Roots((), anywhere=True)


def _may_match(first: str, second: str) -> bool:
    """Return True if a name may match both segments; two patterns may have names in common."""
    first_is_pattern, second_is_pattern = bool(_PATTERN.search(first)), bool(_PATTERN.search(second))
    if first_is_pattern and second_is_pattern:
        return True
    return first == second or fnmatchcase(first, second) or fnmatchcase(second, first)


def _is_below(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def _authority(scheme: str, rest: str) -> tuple[str, str]:
    """Return the bucket or host and the path in ``rest``, the part of a URI after its scheme."""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    else:
        authority = ""
    if scheme == LOCAL:
        if authority or not rest.startswith("/"):
            raise BadLocation("is no location of a file; write file:///folder/file or the path alone")
    elif not _AUTHORITY.fullmatch(authority):
        raise BadLocation(f"names no bucket or host; write {scheme}://bucket/folder, without credentials")
    return authority, rest


def _decode(segment: str) -> str:
    """Return a decoded segment of a file URI; refuse a segment that contains a slash when decoded."""
    try:
        name = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadLocation(f"{segment!r} holds percent signs that are no UTF-8") from None
    if "/" in name:
        raise BadLocation(f"{segment!r} is another path when it is decoded; write it plainly")
    return name


def _check_segment(segment: str) -> None:
    """Refuse a segment that a file system, Hadoop or a URI parser would split or interpret differently."""
    if segment in ("", ".", ".."):
        raise BadLocation(f"holds the segment {segment!r}; write the whole path, without //, . and ..")
    if len(segment.encode(errors="replace")) > MAX_SEGMENT_BYTES:
        raise BadLocation(f"holds a name of more than {MAX_SEGMENT_BYTES} bytes: {segment[:50]!r}…")
    if segment.lower() == DELTA_LOG:
        raise BadLocation(f"leads into the log of a Delta table ({DELTA_LOG})")
    odd = next((sign for sign in segment if sign in "\\{}" or unicodedata.category(sign) in _INVISIBLE), None)
    if odd is not None:
        raise BadLocation(f"holds {odd!r}; patterns are written with *, ? and [abc] only")
    if any(sign in _CLASS.sub("", segment) for sign in "[]"):
        raise BadLocation(f"{segment!r} is no pattern; patterns are written with *, ? and [abc] only")
    for other in (unquote(segment, errors="replace"), unicodedata.normalize("NFKC", segment)):
        if other in ("", ".", "..", DELTA_LOG) or any(sign in other and sign not in segment for sign in "/\\{}\0"):
            raise BadLocation(f"{segment!r} is another path when it is decoded; write it plainly")
