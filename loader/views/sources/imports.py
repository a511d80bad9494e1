"""Import pages of a system: a file or table as a new contract, or its differences from an existing one."""

import json
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from elevata.web.requests import htmx_of
from elevata.web.views import REFUSED
from loader.contract.refusals import Refusal
from loader.domain.sources.contract_comparison import SAME, lines_as_text, lines_from_text
from loader.domain.sources.file_detection.questions import AskedQuestion, asked_questions
from loader.domain.sources.sampling import contradiction
from loader.forms.imports import (
    Row,
    all_valid,
    compared_lines,
    contract_changes,
    proposed_names,
    retyped,
    rows_of,
    with_current_contract,
)
from loader.forms.source_drafts import SourceDraft
from loader.selectors.source_state import known_columns
from loader.services.reads.source_samples import Place, readable_sample
from loader.sources.results import Sample
from loader.views.sources.source_steps import step_address, steps_of
from loader.views.sources.systems import SourcesPage
from metadata.domain.sources.formats import FILE_FORMATS, KAFKA, REST, TABLE, format_of
from metadata.domain.sources.value_formats import ValueFormats
from metadata.forms.imports import ColumnChoiceForm, EndpointForm, ReadingForm, answered_options
from metadata.forms.sources import NewSourceForm
from metadata.models import SourceDataset, System
from metadata.services.datasets.generation_preview import preview_import
from metadata.services.source_contracts import ContractChanges, change_contract
from metadata.views.base import SourceDatasetPage, SourceEditing

STALE = 409
# Beginning of the names of fields that answer a question about a file.
_ANSWER = "answer-"


class SourceImport(SourcesPage):
    """Columns of one file or table with inferred types: the user decides on them, and goes on to the load type."""

    template_name, part_template = "loader/sources/source_import.html", "loader/sources/import_part.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"steps": steps_of("Columns", self.row)}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        system = self.row
        place, reading = _place(request, system)
        if not place.location:
            return redirect("system_discover", system.short_name)
        draft = SourceDraft.of(request.session, system, place.location) if "draft" in request.GET else None
        if draft is not None:
            return self.show(draft)
        context = _import_context(system, place)
        if reading is not None and reading.errors:
            context |= {"reading": reading, "misread": True}
        elif htmx_of(request) or "show" in request.GET:
            context |= _sampled_part(request, system, place)
        return self.render(**context)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Check the decisions as if the dataset were created now, and keep them for the next steps."""
        draft = SourceDraft.sent(self.row, request.POST)
        if not draft.is_valid or _contradicted(request, self.row, draft.place, draft.rows):
            return self.show(draft, wrong=True)
        before = SourceDraft.of(request.session, self.row, draft.place.location)
        try:
            preview_import(**draft.described())
        except MetadataError as error:
            where = f"{self.row}.{draft.form.cleaned_data['name']}"
            if _by_its_line(error, draft.rows, where):
                draft.form.add_problem(error)
            return self.show(draft, wrong=True)
        if before is not None:
            draft = draft.with_load_type(before.load_type_data)
        step = "source_load_type"
        if "summary" in request.POST:
            draft, step = draft.with_default_load_type(), "source_summary"
        draft.keep(request.session)
        return redirect(step_address(step, self.row, draft.place.location))

    def show(self, draft: SourceDraft, *, wrong: bool = False) -> HttpResponse:
        """Show the decisions as they were sent."""
        context = _import_context(self.row, draft.place) | _lines_part(draft.rows, draft.facts)
        context |= {"form": draft.form, "options": json.dumps(draft.place.options), "wrong": wrong}
        return self.render(status=REFUSED if wrong else 200, **context)


def _place(request: HttpRequest, system: System) -> tuple[Place, ReadingForm | EndpointForm | None]:
    """Return the place of the delivery, and the form with its reading options, where one was sent."""
    location = request.GET.get("location", "").strip()[:1000]
    match system.kind:
        case System.Kind.JDBC:
            return Place(location, TABLE, {}), None
        case System.Kind.KAFKA:
            return Place(location, KAFKA, None), None
        case System.Kind.REST:
            endpoint = EndpointForm(request.GET) if "paging" in request.GET else None
            return Place(location, REST, endpoint.options() if endpoint is not None else {}), endpoint
    form = ReadingForm(request.GET) if "delimiter" in request.GET else None
    kind = request.GET.get("format", "")
    if kind not in FILE_FORMATS:
        kind = format_of(location) or "csv"
    if "options" in request.GET:
        answers = [str(text) for name, text in request.GET.items() if name.startswith(_ANSWER)]
        try:
            return Place(location, kind, answered_options(kind, request.GET["options"], answers)), None
        except ValueError:
            raise BadRequest("The form is invalid. Reload the page.") from None
    return Place(location, kind, form.options() if form is not None else None), form


def _known(system: System, location: str) -> SourceDataset | None:
    """Return the source dataset of a location; PostgreSQL keeps no text with a NUL, so none has one."""
    if "\0" in location:
        return None
    return SourceDataset.objects.filter(system=system, location=location).first()


def _import_context(system: System, place: Place) -> dict[str, Any]:
    return {
        "place": place,
        "known": _known(system, place.location),
        "reading": _filled(place, place.options or {}),
    }


def _filled(place: Place, options: dict[str, Any]) -> ReadingForm | EndpointForm | None:
    """Return the form with the reading options of a place, None for a table or topic."""
    if place.format in (TABLE, KAFKA):
        return None
    kind = EndpointForm if place.format == REST else ReadingForm
    return kind.filled(place.location, place.format, options)


def _sampled_part(request: HttpRequest, system: System, place: Place) -> dict[str, Any]:
    """Return the sample, with a form filled with proposals; or the refusal if nothing could be read."""
    try:
        result, masked = readable_sample(request.user, system, place)
    except Refusal as refusal:
        return {"refused": refusal.as_json()}
    names = proposed_names(place.location, place.format)
    rows = rows_of(compared_lines(result, [], masked), system=system.short_name, dataset=names["short_name"])
    form = NewSourceForm(initial=names)
    reading = _filled(place, result.options)
    return {
        "form": form,
        "reading": reading,
        "options": json.dumps(result.options),
        "questions": [_question(asked) for asked in asked_questions(result.questions)],
        **_lines_part(rows, _facts(result)),
    }


def _question(asked: AskedQuestion) -> dict[str, Any]:
    """Return a question with its choices, each with the value that the form sends."""
    choices = [(json.dumps(dict(choice.options)), choice) for choice in asked.choices]
    name, reason = f"{_ANSWER}{asked.option}", as_sentence(asked.reason)
    return {"name": name, "text": asked.text, "reason": reason, "choices": choices}


def _contradicted(request: HttpRequest, system: System, place: Place, rows: list[Row]) -> bool:
    """Add an error to each row with a type that does not hold all sampled values; return True if there is one.

    The sample is read again if a type was changed, because pages do not send its values.
    """
    changed = retyped(rows)
    if not changed:
        return False
    try:
        result, masked = readable_sample(request.user, system, place)
    except Refusal as refusal:
        for row in changed:
            _add_type_error(row, f"The sample cannot be read to check this type: {refusal.one_line()}")
        return True
    values = dict(zip([column.name for column in result.columns], result.values, strict=False))
    formats = ValueFormats.of(result.options)
    for row in changed:
        assert row.form is not None  # of a row whose type was changed
        name, wanted = row.line.name, row.form.cleaned_data["type"]
        problem = contradiction(wanted, values.get(name, ()), formats, masked=name.lower() in masked)
        if problem:
            _add_type_error(row, as_sentence(f"{problem}; a load would refuse them"))
    return not all_valid(changed)


def _add_type_error(row: Row, message: str) -> None:
    if row.form is not None:
        row.form.add_error("type", message)


def _facts(result: Sample) -> dict[str, Any]:
    return {"extent": result.extent, "notes": list(result.all_notes)}


def _lines_part(rows: list[Row], facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "rows": rows,
        "decided": [row for row in rows if row.form is not None],
        "same": [row for row in rows if row.line.status == SAME],
        "clashing": [row for row in rows if row.form is None and row.line.status != SAME],
        "lines": lines_as_text([row.line for row in rows]),
        "source_facts": facts,
        "source_facts_json": json.dumps(facts),
        "known_types": ColumnChoiceForm.known_types,
        "help": ColumnChoiceForm(prefix="help"),
    }


class SourceColumns(SourceEditing, SourceDatasetPage):
    """The system's columns beside the contract's; only the lines that the user ticks are changed."""

    template_name, part_template = "loader/sources/source_columns.html", "loader/sources/columns_part.html"

    def rows(self) -> QuerySet[SourceDataset]:
        return super().rows().prefetch_related("columns")

    def context(self) -> dict[str, Any]:
        return super().context() | {"back": self.address(self.row)}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.render(**_compared_part(request, self.row) if htmx_of(request) or "show" in request.GET else {})

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Take the ticked lines, all or nothing."""
        try:
            lines = lines_from_text(request.POST.get("lines", ""))
            facts = json.loads(request.POST.get("source_facts") or "{}")
        except ValueError:
            raise BadRequest("The form is invalid. Reload the page.") from None
        source, names, problem = self.row, _names(self.row), ""
        rows = rows_of(lines, **names, data=request.POST)
        place = Place(source.location, source.format, dict(source.options))
        if all_valid(rows) and not _contradicted(request, source.system, place, rows):
            changes = contract_changes(rows, **names)
            try:
                change_contract(source_dataset=source, changes=changes)
            except StaleVersion:
                rows = rows_of(with_current_contract(lines, self.find()), **names, data=request.POST)
                return self.render(status=STALE, **_lines_part(rows, facts), stale=True)
            except MetadataError as error:
                problem = _by_its_line(error, rows, str(source))
            else:
                messages.success(request, _summary(changes))
                return redirect("source_generate" if changes else "source_page", source.key)
        return self.render(status=REFUSED, **_lines_part(rows, facts), wrong=True, problem=problem)


def _compared_part(request: HttpRequest, source: SourceDataset) -> dict[str, Any]:
    try:
        place = Place(source.location, source.format, dict(source.options))
        result, masked = readable_sample(request.user, source.system, place)
    except Refusal as refusal:
        return {"refused": refusal.as_json()}
    lines = compared_lines(result, known_columns(source), masked)
    return _lines_part(rows_of(lines, **_names(source)), _facts(result))


def _names(source: SourceDataset) -> dict[str, str]:
    return {"system": source.system.short_name, "dataset": source.short_name}


def _by_its_line(error: MetadataError, rows: list[Row], source: str) -> str:
    """Add the error to the form of its line; return it as a sentence if it belongs to none."""
    for row in rows:
        if row.form is not None and error.where in (row.line.name, f"{source}.{row.line.name}"):
            row.form.add_problem(error)
            return ""
    return as_sentence(error.one_line())


def _summary(changes: ContractChanges) -> str:
    if not changes:
        return "No columns were selected. Nothing was changed."
    parts = [
        (len(changes.add), "added"),
        (len(changes.change), "changed"),
        (len(changes.bring_back), "restored"),
        (len(changes.retire), "retired"),
    ]
    summary = ", ".join(f"{count} {label}" for count, label in parts if count)
    return f"Contract changed: {summary}. Review its targets."
