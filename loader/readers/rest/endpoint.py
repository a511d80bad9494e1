"""Pages of one endpoint, asked for through dlt's RESTClient."""

import time
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass

from dlt.common.configuration.specs.runtime_configuration import RuntimeConfiguration
from dlt.common.jsonpath import Root
from dlt.sources.helpers.rest_client import RESTClient
from requests import Request

from loader.contract.manifest.sources import ApiSpec, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.completeness import Completeness
from loader.domain.sources.options import check_source_options
from loader.readers.rest.authentication import authentication_of, credential_headers, forms_of_secret
from loader.readers.rest.paging import Pager, endpoint_options
from loader.readers.rest.refusals import RequestContext
from loader.readers.rest.session import Limits, SourceSession
from metadata.domain.sources.formats import REST
from metadata.domain.sources.rest_addresses import headers_of, parameters_of
from metadata.domain.sources.system_options import OAUTH2, system_options


@dataclass(frozen=True)
class Page:
    """One page: its number from 1, and the document as delivered."""

    number: int
    content: bytes


def endpoint_api(source: SourceSpec) -> ApiSpec:
    assert source.api is not None, f"{source.name} is no endpoint"
    return source.api


def session_of(
    source: SourceSpec,
    context: RequestContext,
    *,
    hosts: Collection[str],
    limits: Limits,
    pause: Callable[[float], None] = time.sleep,
) -> SourceSession:
    """Return the session of a source. Raise Refusal SECRET_NOT_SET."""
    source.check_password()
    api = endpoint_api(source)
    options = system_options(api.options)
    return SourceSession(
        context,
        hosts=hosts,
        limits=limits,
        credentials=credential_headers(api),
        origin=api.place.origin,
        per_minute=options["requests_per_minute"],
        token_url=options["token_url"] if options["authentication"] == OAUTH2 else None,
        pause=pause,
    )


def context_of(source: SourceSpec) -> RequestContext:
    api = endpoint_api(source)
    url = api.place.url(source.location)
    return RequestContext(source.name, source.location, url, secrets=forms_of_secret(api))


def status_of(source: SourceSpec, *, hosts: Collection[str], limits: Limits) -> int:
    """Return the status of the answer to a request of the source's address. Raise Refusal if it cannot be used."""
    context = context_of(source)
    with session_of(source, context, hosts=hosts, limits=limits) as session:
        authentication = authentication_of(endpoint_api(source), session, context)
        return session.status_of(Request("GET", context.url, auth=authentication))


def pages_of(
    source: SourceSpec,
    *,
    hosts: Collection[str],
    limits: Limits | None = None,
    since: str | None = None,
    pause: Callable[[float], None] = time.sleep,
    progress: Callable[[int], None] = lambda page: None,
    completeness: Completeness | None = None,
) -> Generator[Page, None, None]:
    """Yield the pages of an endpoint in their order; an answer without content is none.

    ``since`` is the mark of the last load, None for a full one. ``progress`` is called before each request with the
    page's number. ``completeness`` counts the pages. Raise Refusal: see ``loader.readers.rest.landing``.
    """
    check_source_options(source.name, REST, source.options)
    options, context = endpoint_options(source.options), context_of(source)
    completeness = completeness or Completeness(options)
    limits = limits or Limits(seconds=options["timeout"])
    with session_of(source, context, hosts=hosts, limits=limits, pause=pause) as session:
        client = RESTClient(
            str(endpoint_api(source).place),
            auth=authentication_of(endpoint_api(source), session, context),
            data_selector=Root(),
            session=session,
            config=RuntimeConfiguration(),  # else dlt would read configuration files
        )
        context.page = 1
        progress(1)
        pages = client.paginate(
            endpoint_api(source).place.url(source.location),
            params=_parameters(options, since),
            headers=dict(headers_of(options["headers"]) or ()),
            hooks={"response": []},  # the session refuses by status
            paginator=Pager(options, completeness),  # a paginator of the client would be copied
        )
        for data in _checked(pages, context):
            if data.response.status_code != 204:
                yield Page(context.page, data.response.content)
            if not data.paginator.has_next_page:
                return
            if context.page >= options["max_pages"]:
                hint = "Give the option max_pages, or ask for larger pages or fewer records."
                raise context.refusal("TOO_MANY_PAGES", "is the last page that a run may request", hint)
            context.page += 1
            progress(context.page)


def _parameters(options: dict, since: str | None) -> dict[str, str | list[str]]:
    """Return the query parameters of the first page, without the paginator's own."""
    parameters: dict[str, list[str]] = {}
    for name, value in parameters_of(options["parameters"]) or ():
        parameters.setdefault(name, []).append(value)
    if options["page_size"] and options["paging"] != "offset":
        parameters[options["page_size_parameter"]] = [str(options["page_size"])]
    if since is not None and options["incremental_parameter"]:
        parameters[options["incremental_parameter"]] = [since]
    return dict(parameters)


def _checked(pages: Iterator, context: RequestContext) -> Iterator:
    """Yield the pages; a refusal of a page names its request."""
    try:
        yield from pages
    except Refusal as refusal:
        if not refusal.file:
            raise context.refusal(refusal.code, refusal.message, refusal.hint) from None
        raise
