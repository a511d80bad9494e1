"""Paging of an endpoint: dlt's paginators by the options of the source."""

from typing import Any

from dlt.common.jsonpath import JSONPathFields, Root, TJsonPath
from dlt.sources.helpers.rest_client.paginators import (
    BasePaginator,
    HeaderLinkPaginator,
    JSONLinkPaginator,
    JSONResponseCursorPaginator,
    OffsetPaginator,
    PageNumberPaginator,
    SinglePagePaginator,
)
from requests import Response

from loader.domain.refusals import Refusal
from metadata.domain.sources.formats import REST
from metadata.domain.sources.reading_options import options_of


def endpoint_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an endpoint, with the defaults of those that are not given."""
    return {name: given.get(name, option.default_of(REST)) for name, option in options_of(REST).items()}


def json_path(path: str | None) -> TJsonPath:
    """Return dlt's form of an option like ``result.items``: names, whatever their characters; the document for none."""
    place = Root()
    for name in path.split(".") if path else ():
        place = place.child(JSONPathFields(name))
    return place


class NextUrl(JSONLinkPaginator):
    """URL of the next page in the document; an empty text ends the pages like none."""

    def update_state(self, response: Response, data: list[Any] | None = None) -> None:
        super().update_state(response, data)
        self._next_reference = _reference(self._next_reference, "URL")


class Cursor(JSONResponseCursorPaginator):
    """Cursor of the next page in the document."""

    def update_state(self, response: Response, data: list[Any] | None = None) -> None:
        super().update_state(response, data)
        self._next_reference = _reference(self._next_reference, "cursor")


def _reference(value: Any, kind: str) -> str | None:
    """Return the reference to the next page, None for the last. Raise Refusal BAD_PAGE for lists and objects."""
    if value is None or value == "":
        return None
    if isinstance(value, str) or (kind == "cursor" and isinstance(value, int | float) and not isinstance(value, bool)):
        return str(value)
    hint = "Correct the option next_path of the source."
    raise Refusal("BAD_PAGE", f"has no {kind} at next_path, but a value of type {type(value).__name__}", hint=hint)


def paginator_of(given: dict[str, Any]) -> BasePaginator:
    """Return the paginator for the options of an endpoint."""
    options = endpoint_options(given)
    parameter, size = options["page_parameter"], options["page_size"]
    total = json_path(options["total_path"]) if options["total_path"] else None
    match options["paging"]:
        case "page":
            return PageNumberPaginator(
                base_page=options["first_page"], page_param=parameter or "page", total_path=total
            )
        case "offset":
            return OffsetPaginator(
                limit=size,
                offset_param=parameter or "offset",
                limit_param=options["page_size_parameter"],
                total_path=total,
            )
        case "cursor":
            return Cursor(json_path(options["next_path"]), parameter or "cursor")
        case "next_url":
            return NextUrl(json_path(options["next_path"]))
        case "link":
            return HeaderLinkPaginator()
    return SinglePagePaginator()
