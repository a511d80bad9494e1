"""Landing of an endpoint's pages as files, before a load reads them.

A folder per dataset and run holds each page as delivered, ``page-00001.json`` …, and a marker. Pages are written into a
folder with a hidden name, which is renamed when it is whole. So a folder of the run's name is complete, and a load that
is started again under the same run id reads it without a request, unless the request itself was changed.

Refusals beside those of every delivery (``loader.engine.sources.deliveries``):

=====================  =====================================================================
HOST_NOT_ALLOWED       the host, its address, or the host of a redirect or next page is not in ELEVATA_SOURCE_HOSTS
SECRET_NOT_SET         the system names a secret that the worker does not have
BAD_SECRET             the secret has characters that no header can hold
NOT_REACHED            no such host, no connection, no valid certificate
SIGN_IN_REFUSED        401, or no token from the token URL
NOT_ALLOWED            403
NO_SUCH_ENDPOINT       404 or 410
RATE_LIMITED           429 after the last try, or a wait beyond the option timeout
SOURCE_FAILED          5xx after the last try, any other status, too many redirects
SOURCE_GONE            the connection broke off within an answer, after the last try
TOO_SLOW               no whole answer within a minute, or all pages within the option timeout
NOT_JSON               a page that is no JSON document: HTML, NaN, a repeated name, nothing
NO_SUCH_PATH           a page without the option path
BAD_PAGE               a next cursor, total or has_more that is none; errors instead of records
BAD_LOCATION           a redirect or next page that is no URL of HTTP
CURSOR_REPEATS         a page that was asked for before, or the same page twice
INCOMPLETE             pages that contradict what the API claims of its size
TOO_LARGE              a page beyond 64 MB unpacked
TOO_MANY_PAGES         more pages than the option max_pages
=====================  =====================================================================
"""

import json
import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from elevata.core.canonical_json import canonical_json
from loader.contract.manifest.sources import SourceSpec
from loader.domain.sources.completeness import Completeness
from loader.readers.rest.endpoint import Page, endpoint_api, pages_of
from loader.readers.rest.paging import endpoint_options

MARKER = "_complete.json"
_UNFINISHED = "."
# A colon of a run id, which Hadoop does not take in a name; run ids have no tilde.
_COLON = "~"
# A document without rows, for a run in which the endpoint delivers no content.
_NO_ROWS = b"[]"


@dataclass(frozen=True)
class Landing:
    """Landed pages of a run. ``is_repeated``: an earlier attempt landed them. ``is_empty``: there was no content.

    ``doubt`` is the reason why the pages may not be all, ``problem`` the contradiction that the source's option
    ``complete`` let pass; both are empty for pages that are proven complete.
    """

    folder: Path
    pages: int
    is_empty: bool
    is_repeated: bool
    doubt: str = ""
    problem: str = ""


def land(
    source: SourceSpec,
    place: Path,
    *,
    dataset: str,
    run_id: str,
    runs_kept: int,
    hosts: Collection[str],
    since: str | None = None,
    **request: Any,
) -> Landing:
    """Land the pages of an endpoint for one run below ``place``, and remove those of older runs. Raise Refusal.

    ``since`` is the mark for the option incremental_parameter; ``request`` are further arguments of ``pages_of``.
    """
    folder = place / dataset / run_id.replace(":", _COLON)
    digest = _digest(source, since)
    landed = _complete(folder, digest)
    if landed is not None:
        return landed
    unfinished = folder.with_name(f"{_UNFINISHED}{folder.name}")
    for left in (folder, unfinished):
        shutil.rmtree(left, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    completeness = Completeness(endpoint_options(source.options))
    with closing(pages_of(source, hosts=hosts, since=since, completeness=completeness, **request)) as pages:
        count = _write_pages(unfinished, pages)
    is_empty = not count
    if is_empty:
        _write(unfinished / _name_of(1), _NO_ROWS)
    doubt, problem = completeness.doubt(), completeness.problem
    marker = {"request": digest, "pages": count, "doubt": doubt, "problem": problem}
    _write(unfinished / MARKER, json.dumps(marker).encode())
    unfinished.rename(folder)
    _sync(folder.parent)
    _remove_older(folder, runs_kept)
    return Landing(folder, count, is_empty, False, doubt, problem)


def _write_pages(folder: Path, pages: Iterable[Page]) -> int:
    """Write each page into a file of its own; return the number of pages."""
    count = 0
    for page in pages:
        _write(folder / _name_of(page.number), page.content)
        count += 1
    return count


def _name_of(number: int) -> str:
    return f"page-{number:05}.json"


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it is whole under its name, and on the disk."""
    hidden = path.with_name(f"{_UNFINISHED}{path.name}")
    with hidden.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    hidden.rename(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _complete(folder: Path, digest: str) -> Landing | None:
    """Return a run's landed pages, None if there are none for this request."""
    try:
        marker = json.loads((folder / MARKER).read_bytes())
    except FileNotFoundError:
        return None
    if marker["request"] != digest or "doubt" not in marker:
        return None
    return Landing(folder, marker["pages"], not marker["pages"], True, marker["doubt"], marker["problem"])


def _digest(source: SourceSpec, since: str | None) -> str:
    """Return a digest of all that decides on the delivered pages, so of no reading option."""
    ways = ("empty_is_null", "null_string", "timezone", "timeout", "max_pages")
    options = {name: value for name, value in source.options.items() if name not in ways}
    described = {"url": endpoint_api(source).place.url(source.location), "options": options, "since": since}
    return sha256(canonical_json(described)).hexdigest()


def _remove_older(folder: Path, runs_kept: int) -> None:
    """Remove unfinished landings of the dataset, and complete ones but the newest, ``folder`` among them."""
    others = [other for other in folder.parent.iterdir() if other != folder]
    complete = [other for other in others if not other.name.startswith(_UNFINISHED)]
    complete.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    kept = complete[: max(0, runs_kept - 1)]
    for other in others:
        if other not in kept:
            shutil.rmtree(other)
