"""Import pages of a system: a file or table as a new contract, or its differences from an existing one."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from loader.domain.historization.contracts import SAME, Line, compare_contract
from loader.domain.queries.masking import without_values
from loader.domain.runs.refusals import Refusal
from loader.services.queries.read_work import may_read, may_read_sensitive, record_sensitive_read
from loader.sources.listing import format_of
from loader.sources.permitted_places import place_in
from loader.sources.results import Sample
from loader.sources.systems import sample
from loader.views.sources.import_forms import (
    Row,
    chosen,
    contract_changes,
    known_columns,
    packed,
    rows_of,
    seen_again,
    unpacked,
)
from metadata.classification import Classification, source_classification
from metadata.domain import naming
from metadata.domain.roles import Permission
from metadata.domain.sensitivity import MASK
from metadata.forms.sources import ColumnChoiceForm, NewSourceForm, ReadingForm, options_of
from metadata.models import SourceDataset, System
from metadata.permissions import permitted
from metadata.services.source_import import change_contract, import_source_dataset

REFUSED, STALE = 422, 409
TABLE = SourceDataset.Format.TABLE
FILE_FORMATS = [name for name in SourceDataset.Format.values if name != TABLE]


@dataclass(frozen=True)
class Place:
    """Location, format and reading options of a delivery; ``options`` None: to be guessed."""

    location: str
    format: str
    options: dict[str, Any] | None


# --- a new source dataset ----------------------------------------------------------------------


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def source_import(request: HttpRequest, short_name: str) -> HttpResponse:
    """Import one file or table: show its columns with inferred types, let the user decide, then write them."""
    system = get_object_or_404(System, short_name=short_name)
    if request.method == "POST":
        return _import(request, system)
    place, reading = _place(request, system)
    if not place.location:
        return redirect("system_discover", short_name)
    context = _import_context(system, place)
    if reading is not None and reading.errors:
        context |= {"reading": reading, "misread": True}
    elif request.htmx or "show" in request.GET:
        context |= _sampled_part(request, system, place, context["known"])
    return _import_page(request, context)


def _place(request: HttpRequest, system: System) -> tuple[Place, ReadingForm | None]:
    """Return the place of the delivery, and the form with its reading options, where one was sent."""
    location = request.GET.get("location", "").strip()[:1000]
    if system.kind != System.Kind.FILES:
        return Place(location, TABLE, {}), None
    form = ReadingForm(request.GET) if "delimiter" in request.GET else None
    kind = request.GET.get("format", "")
    if kind not in FILE_FORMATS:
        kind = format_of(location) or "csv"
    return Place(location, kind, form.options() if form is not None else None), form


def _known(system: System, location: str) -> SourceDataset | None:
    """Return the source dataset of a location; PostgreSQL keeps no text with a NUL, so none has one."""
    if "\0" in location:
        return None
    return SourceDataset.objects.filter(system=system, location=location).first()


def _import_context(system: System, place: Place) -> dict[str, Any]:
    return {
        "system": system,
        "place": place,
        "known": _known(system, place.location),
        "reading": ReadingForm.filled(place.location, place.format, place.options or {})
        if place.format != TABLE
        else None,
    }


def _sampled_part(request: HttpRequest, system: System, place: Place, known: SourceDataset | None) -> dict[str, Any]:
    """Return the sample, with a form filled with proposals; or the refusal if nothing could be read."""
    try:
        found, masked = _readable_sample(request, system, place, known)
    except Refusal as refusal:
        return {"refused": refusal.as_json()}
    name = PurePosixPath(place.location).name if place.format != TABLE else place.location
    stem = name if place.format == TABLE else name.partition(".")[0] or name
    short = naming.safe_table_part(stem.removeprefix("public.") if place.format == TABLE else stem)
    rows = rows_of(_compared(found, [], masked), system=system.short_name, dataset=short)
    form = NewSourceForm(initial={"name": stem, "short_name": short, "historize": _has_key(rows)})
    reading = ReadingForm.filled(place.location, place.format, found.options) if place.format != TABLE else None
    return {
        "form": form,
        "reading": reading,
        "options": json.dumps(found.options),
        **_lines_part(rows, _said(found)),
    }


def _readable_sample(
    request: HttpRequest, system: System, place: Place, source: SourceDataset | None
) -> tuple[Sample, frozenset[str]]:
    """Return a sample as the user may see it, and the names in lower case of columns whose values are masked.

    Of a source with sensitive columns all are masked but those that are described as harmless, and all where it is
    read with other options than described. Raise PermissionDenied without the permission to read data. A sample that
    shows sensitive values is recorded.
    """
    if not may_read(request.user, system):
        raise PermissionDenied(f"Samples of {system} need the permission {Permission.READ_DATA}.")
    classified = source_classification(source) if source is not None else Classification()
    try:
        found = sample(system, place.location, place.format, place.options)
    except Refusal as refusal:
        raise without_values(refusal, classified.sensitive_names) from None
    if source is None or not classified.sensitive:
        return found, frozenset()
    # Read with other options, a column may hold something else than described.
    is_alike = (place.format, found.options) == (source.format, source.options)
    harmless = _names_of(source) - classified.sensitive_present if is_alike else frozenset()
    hidden = frozenset(column.name.lower() for column in found.columns) - harmless
    shown = [column.name for column in found.columns if column.name.lower() in hidden]
    if not shown:
        return found, frozenset()
    if may_read_sensitive(request.user, system):
        told = {"kind": "source sample", "columns": shown, "found_by": [], "rows": found.rows}
        record_sensitive_read(name=str(source), key=str(source.key), **told)
        return found, frozenset()
    columns = (replace(one, sample=(MASK,)) if one.name in shown else one for one in found.columns)
    return replace(found, columns=tuple(columns)), hidden


def _names_of(source: SourceDataset) -> frozenset[str]:
    return frozenset(column.name.lower() for column in source.columns.all())


def _compared(found: Sample, known: list, masked: Collection[str]) -> list[Line]:
    values = dict(zip([column.name for column in found.columns], found.values, strict=False))
    return compare_contract(known, found.columns, values, typed=found.typed, masked=masked)


def _has_key(rows: list[Row]) -> bool:
    return any(row.line.found and row.line.found.key_ordinal for row in rows)


def _said(found: Sample) -> dict[str, Any]:
    return {"said": found.said, "notes": list(found.notes)}


def _lines_part(rows: list[Row], said: dict[str, Any]) -> dict[str, Any]:
    return {
        "rows": rows,
        "decided": [row for row in rows if row.form is not None],
        "same": [row for row in rows if row.line.status == SAME],
        "clashing": [row for row in rows if row.form is None and row.line.status != SAME],
        "lines": packed([row.line for row in rows]),
        "said": said,
        "said_json": json.dumps(said),
        "known_types": ColumnChoiceForm.known_types,
        "help": ColumnChoiceForm(prefix="help"),
    }


def _import_page(request: HttpRequest, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    template = "loader/import_part.html" if request.htmx else "loader/source_import.html"
    return render(request, template, context, status=status)


def _import(request: HttpRequest, system: System) -> HttpResponse:
    """Write the user's decisions, all or nothing."""
    place, lines, said = _posted(request, system)
    form = NewSourceForm(request.POST)
    dataset = request.POST.get("short_name", "")
    rows = rows_of(lines, system=system.short_name, dataset=dataset, data=request.POST)
    lines_valid = _all_valid(rows)
    made = form.attempt(lambda: _write(system, place, form, rows)) if lines_valid or not form.is_valid() else None
    if made is None:
        context = _import_context(system, place) | {
            "form": form,
            "options": json.dumps(place.options),
            **_lines_part(rows, said),
            "wrong": True,
        }
        return _import_page(request, context, status=REFUSED)
    messages.success(request, f"{made} is described. Look what would be generated from it.")
    return redirect("source_generate", made.key)


def _write(system: System, place: Place, form: NewSourceForm, rows: list[Row]) -> SourceDataset | None:
    """Return the new dataset; None if one of the lines was refused, whose form then has the reason."""
    given = form.cleaned_data
    columns = chosen(rows, system=system.short_name, dataset=given["short_name"])
    try:
        return import_source_dataset(
            system=system, location=place.location, format=place.format, options=place.options, columns=columns, **given
        )
    except MetadataError as error:
        if _by_its_line(error, rows, f"{system}.{given['name']}"):
            raise
        return None


def _posted(request: HttpRequest, system: System) -> tuple[Place, list[Line], dict[str, Any]]:
    """Return what the page sent: place, lines and facts. Raise BadRequest (400) for a form of no page of ours."""
    posted = request.POST
    try:
        options = options_of(posted.get("options", ""))
        lines = unpacked(posted.get("lines", ""))
        said = json.loads(posted.get("said") or "{}")
        said = {"said": str(said.get("said", "")), "notes": [str(note) for note in said.get("notes", [])]}
    except (ValueError, AttributeError, TypeError):
        raise BadRequest("This form was not made by the page. Load it again.") from None
    kind, location = posted.get("format", ""), posted.get("location", "").strip()
    if (kind == TABLE) != (system.kind != System.Kind.FILES) or not location:
        raise BadRequest("This form was not made for this system. Load the page again.")
    if kind != TABLE:
        if kind not in FILE_FORMATS:
            raise BadRequest(f"There is no format {kind!r}.")
        try:
            place_in(system, location)
        except Refusal as refusal:
            raise BadRequest(refusal.message) from None
    return Place(location, kind, options), lines, said


def _all_valid(rows: list[Row]) -> bool:
    # Every form is validated, so that every line shows its errors.
    found = [row.form.is_valid() for row in rows if row.form is not None]
    return all(found)


# --- a contract that is there ------------------------------------------------------------------


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def source_columns(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the system's columns beside the contract's; nothing is changed but the lines that the user takes."""
    source = get_object_or_404(_sources(), key=key)
    if request.method == "POST":
        return _take(request, source)
    context: dict[str, Any] = {"source": source, "back": reverse("source_page", args=[key])}
    if request.htmx or "show" in request.GET:
        context |= _compared_part(request, source)
    return _columns_page(request, context)


def _sources() -> QuerySet[SourceDataset]:
    return SourceDataset.objects.select_related("system").prefetch_related("columns")


def _compared_part(request: HttpRequest, source: SourceDataset) -> dict[str, Any]:
    try:
        place = Place(source.location, source.format, dict(source.options))
        found, masked = _readable_sample(request, source.system, place, source)
    except Refusal as refusal:
        return {"refused": refusal.as_json()}
    lines = _compared(found, known_columns(source), masked)
    return _lines_part(rows_of(lines, **_names(source)), _said(found))


def _names(source: SourceDataset) -> dict[str, str]:
    return {"system": source.system.short_name, "dataset": source.short_name}


def _columns_page(request: HttpRequest, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    template = "loader/columns_part.html" if request.htmx else "loader/source_columns.html"
    return render(request, template, context, status=status)


def _take(request: HttpRequest, source: SourceDataset) -> HttpResponse:
    """Take the ticked lines, all or nothing."""
    try:
        lines = unpacked(request.POST.get("lines", ""))
        said = json.loads(request.POST.get("said") or "{}")
    except ValueError:
        raise BadRequest("This form was not made by the page. Load it again.") from None
    rows = rows_of(lines, **_names(source), data=request.POST)
    context: dict[str, Any] = {"source": source, "back": reverse("source_page", args=[source.key])}
    problem = ""
    if _all_valid(rows):
        changes = contract_changes(rows, **_names(source))
        try:
            change_contract(source_dataset=source, changes=changes)
        except StaleVersion:
            fresh = _sources().get(pk=source.pk)
            rows = rows_of(seen_again(lines, fresh), **_names(source), data=request.POST)
            return _columns_page(request, context | _lines_part(rows, said) | {"stale": True}, status=STALE)
        except MetadataError as error:
            problem = _by_its_line(error, rows, str(source))
        else:
            messages.success(request, _taken(changes) if changes else "Nothing was ticked, so nothing was changed.")
            return redirect("source_generate" if changes else "source_page", source.key)
    context |= _lines_part(rows, said) | {"wrong": True, "problem": problem}
    return _columns_page(request, context, status=REFUSED)


def _by_its_line(error: MetadataError, rows: list[Row], source: str) -> str:
    """Add the error to the form of its line; return it as a sentence if it belongs to none."""
    for row in rows:
        if row.form is not None and error.where in (row.line.name, f"{source}.{row.line.name}"):
            row.form.add_problem(error)
            return ""
    return as_sentence(error.one_line())


def _taken(changes: Any) -> str:
    parts = [
        (len(changes.add), "added"),
        (len(changes.change), "changed"),
        (len(changes.bring_back), "brought back"),
        (len(changes.retire), "put out of use"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in parts if count)
    return f"The contract is changed: {said}. Look what follows for its targets."
