"""Drafts of new source datasets: the sent forms of the guided path, kept in the session until the last step.

Every step can therefore be opened again, and nothing is in the metadata before the source is created. Sampled values
are not kept.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import BadRequest
from django.http import QueryDict

from loader.contract.refusals import Refusal
from loader.domain.sources.contract_comparison import Line, lines_as_text, lines_from_text
from loader.forms.imports import Row, all_valid, chosen, compared_lines, proposed_names, rows_of
from loader.services.reads.source_samples import Place
from loader.sources.page_limits import place_in
from loader.sources.results import Sample
from metadata.domain import naming
from metadata.domain.sources.clusters import policy_of_messages
from metadata.domain.sources.formats import FORMATS_OF_KIND
from metadata.domain.sources.intake import possible_detections, proposed_watermarks
from metadata.domain.types import DataType
from metadata.forms.imports import sent_options
from metadata.forms.load_type import LoadTypeForm
from metadata.forms.sources import NewSourceForm
from metadata.models import System
from metadata.services.source_contracts import ImportedColumn

_DRAFTS = "source_drafts"
MOST_DRAFTS = 5


@dataclass(frozen=True)
class SourceDraft:
    """Decisions on one new source dataset; ``load_type_data`` is empty until its step is done.

    ``place``, ``lines`` and ``facts`` are those of the sample that the columns were chosen from.
    """

    system: System
    data: QueryDict
    load_type_data: QueryDict
    place: Place
    lines: list[Line]
    facts: dict[str, Any]

    @classmethod
    def sent(cls, system: System, data: QueryDict, load_type_data: QueryDict | None = None) -> Self:
        """Return the draft of a sent form of columns. Raise BadRequest (400) if it is no form of this system."""
        try:
            options = sent_options(data.get("options", ""))
            lines = lines_from_text(data.get("lines", ""))
            facts = json.loads(data.get("source_facts") or "{}")
            facts = {"extent": str(facts.get("extent", "")), "notes": [str(note) for note in facts.get("notes", [])]}
        except (ValueError, AttributeError, TypeError):
            raise BadRequest("The form is invalid. Reload the page.") from None
        place = Place(data.get("location", "").strip(), data.get("format", ""), options)
        _check_place(system, place)
        return cls(system, data, load_type_data or QueryDict(), place, lines, facts)

    @classmethod
    def proposed(cls, system: System, place: Place, result: Sample, masked: Collection[str], *, name: str = "") -> Self:
        """Return the draft of everything that a sample proposes; ``name`` replaces the proposed name."""
        names = proposed_names(place.location, place.format)
        if name:
            names = {"name": name, "short_name": naming.safe_table_part(name)}
        lines = compared_lines(result, [], masked)
        data = QueryDict(mutable=True)
        data.update(names)
        for row in rows_of(lines, system=system.short_name, dataset=names["short_name"]):
            for field, value in (row.form.initial if row.form is not None else {}).items():
                if row.form is not None and value not in (None, "", False):
                    data[row.form.add_prefix(field)] = "on" if value is True else str(value)
        facts = {"extent": result.extent, "notes": list(result.all_notes)}
        place = replace(place, options=result.options)
        return cls(system, data, QueryDict(), place, lines, facts)

    @cached_property
    def form(self) -> NewSourceForm:
        return NewSourceForm(self.data)

    @cached_property
    def rows(self) -> list[Row]:
        """Return the columns with their forms, as they were sent."""
        return rows_of(self.lines, system=self.system.short_name, dataset=self._short_name, data=self.data)

    @property
    def _short_name(self) -> str:
        return self.data.get("short_name", "")

    @property
    def is_valid(self) -> bool:
        # Both are validated, so that each shows its errors.
        return all([self.form.is_valid(), all_valid(self.rows)])

    @cached_property
    def columns(self) -> list[ImportedColumn]:
        """Return the chosen columns of a valid draft."""
        return chosen(self.rows, system=self.system.short_name, dataset=self._short_name)

    @property
    def key(self) -> list[str]:
        keyed = [(column.key_ordinal, column.name) for column in self.columns if column.key_ordinal is not None]
        return [name for _, name in sorted(keyed, key=lambda pair: pair[0])]

    def load_type(self, data: QueryDict | None = None) -> LoadTypeForm:
        """Return the form of the load type: sent now, as it was kept, or with its defaults."""
        types: dict[str, DataType] = {column.name: column.type for column in self.columns}
        options = self.place.options or {}
        return LoadTypeForm(
            data or self.load_type_data or None,
            columns={name: type_ for name, type_ in types.items() if name not in self.key},
            keyed=bool(self.key),
            watermarks=proposed_watermarks(self.place.format, types, self.key, options),
            detections=possible_detections(self.place.format),
            initial=policy_of_messages(options, types.keys()) or None,
        )

    def with_default_load_type(self) -> Self:
        """Return the draft with the load type that its form proposes, unless one was chosen."""
        if self.load_type_data:
            return self
        form = self.load_type()
        data = QueryDict(mutable=True)
        for name in form.fields:
            value = form.get_initial_for_field(form.fields[name], name)
            if value:
                data[name] = "on" if value is True else value
        return self.with_load_type(data)

    def described(self, load_type: LoadTypeForm | None = None) -> dict[str, Any]:
        """Return the arguments of ``import_source_dataset``; without a load type those of a source without history."""
        place = self.place
        given: dict[str, Any] = {"historize": False}
        if load_type is not None:
            given = {"historize": load_type.cleaned_data["historize"], "history_policy": load_type.policy}
            given |= {"intake": load_type.intake} if load_type.intake else {}
        return given | {
            "system": self.system,
            "location": place.location,
            "format": place.format,
            "options": place.options,
            "columns": self.columns,
            **self.form.cleaned_data,
        }

    # --- in the session --------------------------------------------------------------------------

    @classmethod
    def of(cls, session: SessionBase, system: System, location: str) -> Self | None:
        """Return the draft of a location from the session; None if there is none that is still valid."""
        kept = session.get(_DRAFTS, {}).get(_name(system, location))
        if kept is None:
            return None
        try:
            draft = cls.sent(system, *(QueryDict(text) for text in kept))
        except BadRequest:
            return None
        return draft if draft.is_valid else None

    def keep(self, session: SessionBase) -> None:
        """Store the draft in the session, as the newest one."""
        data = _without_token(self.data)
        data["lines"] = lines_as_text([_without_values(line) for line in self.lines])
        name, drafts = _name(self.system, self.place.location), session.get(_DRAFTS, {})
        others = [(key, kept) for key, kept in drafts.items() if key != name]
        kept = [data.urlencode(), _without_token(self.load_type_data).urlencode()]
        session[_DRAFTS] = dict([*others[-(MOST_DRAFTS - 1) :], (name, kept)])

    def with_load_type(self, data: QueryDict) -> Self:
        return replace(self, load_type_data=data)

    def drop(self, session: SessionBase) -> None:
        """Remove the draft from the session."""
        drafts = session.get(_DRAFTS, {})
        drafts.pop(_name(self.system, self.place.location), None)
        session[_DRAFTS] = drafts


def _name(system: System, location: str) -> str:
    return f"{system.short_name}/{location}"


def _without_token(data: QueryDict) -> QueryDict:
    data = data.copy()
    data.pop("csrfmiddlewaretoken", None)
    return data


def _without_values(line: Line) -> Line:
    return replace(line, sampled=replace(line.sampled, sample=())) if line.sampled is not None else line


def _check_place(system: System, place: Place) -> None:
    if place.format not in FORMATS_OF_KIND[system.kind] or not place.location:
        raise BadRequest("The form belongs to another system. Reload the page.")
    if system.kind == System.Kind.FILES:
        try:
            place_in(system, place.location)
        except Refusal as refusal:
            raise BadRequest(refusal.message) from None
