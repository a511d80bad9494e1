"""Links of the rows of an answer: to versions, deliveries and pages about a cell; links that sort and page the rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from architecture.domain.tables import TableSpec
from loader.domain.queries.query_results import Cell, Grid, Heading, delivered_rows, entity_keys
from loader.domain.queries.row_selection import MOST_OFFSET, RowSelection
from metadata.domain.sensitivity import is_mask
from metadata.models import TargetDataset, TargetSchema

RAWCORE = TargetSchema.Layer.RAWCORE
MODELLED = (TargetSchema.Layer.BIZCORE, TargetSchema.Layer.SERVING)
# Entity key in addresses of rows that have none.
NO_KEY = "-"


@dataclass(frozen=True)
class LinkedCell:
    """Cell with the address of the page about its value; empty without such a page."""

    cell: Cell
    why: str = ""


@dataclass(frozen=True)
class LinkedRow:
    """Row with links, as label and address."""

    cells: tuple[LinkedCell, ...]
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SortedHeading:
    """Heading with the query that sorts by its column, empty if it cannot be sorted by; ``order`` is its direction."""

    heading: Heading
    query: str = ""
    order: str = ""


def linked_rows(
    dataset: TargetDataset, answer: Mapping[str, Any], table: TableSpec, grid: Grid, *, at: str = ""
) -> list[LinkedRow]:
    """Return the rows of a grid with their links; ``at`` is the time at which they were valid."""
    identities = list(_identities(dataset, answer, table, at))
    places = delivered_rows(answer, table) if table.kind == "raw" else [{} for _ in grid.rows]
    is_keyless = any(own.name in answer.get("masked", ()) for own in table.of_purpose("business_key"))
    rows = []
    for (key, query), place, cells in zip(identities, places, grid.rows, strict=True):
        why = reverse("dataset_why", args=[dataset.key, key or NO_KEY]) if key or query is not None else ""
        links: tuple[tuple[str, str], ...]
        if place:
            address = f"{reverse('dataset_descendants', args=[dataset.key])}?{urlencode(place)}"
            links = (("Follow row", address),)
        elif key:
            links = _links_of_key(dataset, key, _address(why, query or []), named=not is_keyless)
        else:
            links = ()
        about = [
            "" if heading.technical else _address(why, [("column", heading.name), *(query or [])])
            for heading in grid.headings
        ]
        rows.append(LinkedRow(tuple(LinkedCell(*pair) for pair in zip(cells, about, strict=True)), links))
    return rows


def _links_of_key(dataset: TargetDataset, key: str, why: str, *, named: bool) -> tuple[tuple[str, str], ...]:
    """Return the links of a row; if its key is masked (not ``named``), a label has the beginning of the hash."""
    if not (dataset.historize or dataset.history_of_id):
        return (("Origin", why),)
    label = "Versions" if named else f"Versions of {key[:12]}"
    return ((label, reverse("dataset_versions", args=[dataset.key, key])), ("Origin", why))


def _identities(
    dataset: TargetDataset, answer: Mapping[str, Any], table: TableSpec, at: str
) -> Iterator[tuple[str, list[tuple[str, str]] | None]]:
    """Yield the entity key of each row and the query of pages about it; None for a row without such pages."""
    columns, rows = list(answer["columns"]), answer["rows"]
    has_key = dataset.schema.layer in (RAWCORE, *MODELLED)
    keys = (entity_keys(answer, table) if has_key else []) or [""] * len(rows)
    is_model = dataset.schema.layer in MODELLED
    start = [columns.index(own.name) for own in table.of_purpose("started_at") if own.name in columns]
    parts = [columns.index(own.name) for own in table.of_purpose("business_key") if own.name in columns]
    for key, row in zip(keys, rows, strict=True):
        query = []
        valid = at or (row[start[0]] if start else "")
        if valid and not is_mask(valid):
            query.append(("at", valid))
        values = [row[part] for part in parts]
        if is_model and None not in values and not any(map(is_mask, values)):
            query += [("key", value) for value in values]
        yield key, query if key or is_model else None


def _address(page: str, query: list[tuple[str, str]]) -> str:
    return f"{page}?{urlencode(query)}" if page and query else page


def sorted_headings(grid: Grid, scope: Mapping[str, Any], selection: RowSelection) -> list[SortedHeading]:
    """Return the headings of a grid with queries that sort its rows; ``scope`` are the page's other fields."""
    headings = []
    for heading in grid.headings:
        own = selection.sort == heading.name
        sort = replace(selection, sort=heading.name, descending=own and not selection.descending, offset=0)
        order = ("descending" if selection.descending else "ascending") if own else ""
        query = "" if heading.masked else urlencode({**scope, **sort.as_arguments()})
        headings.append(SortedHeading(heading, query, order))
    return headings


def page_links(scope: Mapping[str, Any], selection: RowSelection, size: int, *, more: bool) -> dict[str, Any]:
    """Return the place of a page of rows in its table, and the queries of the pages before and after it."""

    def at(offset: int) -> str:
        return urlencode({**scope, **replace(selection, offset=offset).as_arguments()})

    following = selection.offset + size
    return {
        "offset": selection.offset,
        "first": selection.offset + 1,
        "chosen": bool(selection.as_arguments()),
        "previous": at(max(0, selection.offset - size)) if selection.offset else None,
        "next": at(following) if more and size and following <= MOST_OFFSET else "",
    }
