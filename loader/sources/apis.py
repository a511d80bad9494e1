"""REST APIs from the web process: connection test, endpoints that are described, sample of an endpoint's first page."""

from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.utils import timezone

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.services.sources.specs import api_of, endpoint_at
from loader.sources.file_samples import sample_files
from loader.sources.page_limits import LARGEST_READ, SECONDS, password_of
from loader.sources.results import ConnectionResult, ListedItem, Listing, Sample
from metadata.domain.sources.formats import JSON, REST
from metadata.domain.sources.locations import ANYWHERE
from metadata.domain.sources.reading_options import options_of
from metadata.domain.sources.system_options import NO_SIGN_IN, system_options
from metadata.models import System


def reach_api(system: System) -> ConnectionResult:
    """Return the result of a connection test: the answer at the base URL, which few APIs serve."""
    with packages_of("rest"):
        from loader.readers.rest.endpoint import status_of

    source = _source(system, "/", {})
    status = status_of(source, **_limited())
    authentication = system_options(system.options)["authentication"] if system.secret else NO_SIGN_IN
    facts = (
        ("Base URL", str(api_of(system).place)),
        ("Answer", f"{status} {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else str(status)),
        ("Authentication", authentication),
    )
    return ConnectionResult("The API answers.", facts)


def list_endpoints(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the endpoints that source datasets describe; an API has no list of its own."""
    rows = system.datasets.filter(location__icontains=search.strip()).order_by("location")
    items = (ListedItem(row.name, row.location, REST) for row in rows[start : start + count])
    return Listing(tuple(items), rows.count())


def sample_endpoint(system: System, location: str, options: dict[str, Any]) -> Sample:
    """Return the columns and first rows of an endpoint's first page. Raise Refusal."""
    with packages_of("rest"):
        from loader.readers.rest.endpoint import pages_of

    with closing(pages_of(_source(system, location, options), **_limited())) as pages:
        page = next(pages, None)
    if page is None:
        raise Refusal("EMPTY_FILE", f"{location} has no content", hint="Try again when the endpoint has records.")
    known = options_of(JSON)
    with TemporaryDirectory() as folder:
        path = Path(folder, "page.json")
        path.write_bytes(page.content)
        reading = {name: value for name, value in options.items() if name in known}
        sample = sample_files(path, JSON, reading, roots=ANYWHERE)
    is_whole = sample.whole and options.get("paging", "none") == "none"
    return replace(
        sample, extent=f"{sample.rows:,} rows of the first page of {location}", options=options, whole=is_whole
    )


def _source(system: System, location: str, options: dict[str, Any]) -> SourceSpec:
    name = f"{system}.{location}" if location.strip("/") else str(system)
    path, filled = endpoint_at(location, options, source=name, at=timezone.now())
    api = replace(api_of(system), password=password_of(system))
    return SourceSpec(name, path, REST, (), filled, api=api)


def _limited() -> dict[str, Any]:
    """Return hosts and limits of a page's requests: one try, and little time."""
    from loader.readers.rest.session import Limits

    return {"hosts": settings.SOURCE_HOSTS, "limits": Limits(SECONDS, tries=1, page_bytes=LARGEST_READ)}
