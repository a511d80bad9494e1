"""Samples of files and tables of a system, with sensitive values masked."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import PermissionDenied

from elevata.accounts.roles import Permission, needed_role
from loader.contract.refusals import Refusal
from loader.services.reads.classified_places import ClassifiedPlace, renamed
from loader.services.reads.read_permissions import may_read, may_read_sensitive, record_sensitive_read
from loader.sources.results import Sample
from loader.sources.systems import sample
from metadata.domain.sensitivity import MASK
from metadata.models import System


@dataclass(frozen=True)
class Place:
    """Location, format and reading options of a delivery; ``options`` None: to be guessed."""

    location: str
    format: str
    options: dict[str, Any] | None


def readable_sample(user: Any, system: System, place: Place) -> tuple[Sample, frozenset[str]]:
    """Return a sample as the user may see it, and the names in lower case of columns whose values are masked.

    If any source with sensitive columns reads there, all columns are masked but those that are described as harmless,
    and all where it is read with other options than described. Raise PermissionDenied without the permission to read
    data. A sample that shows sensitive values is recorded.
    """
    if not may_read(user, system):
        raise PermissionDenied(f"Samples of {system}: {needed_role(Permission.READ_DATA)}.")
    classified = ClassifiedPlace.of(system, place.location)
    is_reader = may_read_sensitive(user, system)
    try:
        result = sample(system, place.location, place.format, place.options)
    except Refusal as refusal:
        as_described = classified.is_read_as_described(place.format, place.options or {})
        raise classified.without_values(refusal, as_described=as_described or is_reader) from None
    as_described = classified.is_read_as_described(place.format, result.options)
    hidden = classified.hidden([column.name for column in result.columns], as_described=as_described)
    if not hidden:
        return result, frozenset()
    if is_reader:
        names = [column.name for column in result.columns]
        record_sensitive_sample(classified, "source sample", names, hidden, rows=result.rows)
        return result, frozenset()
    return _masked(result, classified, hidden, as_described=as_described)


def _masked(
    result: Sample, classified: ClassifiedPlace, hidden: frozenset[str], *, as_described: bool
) -> tuple[Sample, frozenset[str]]:
    own_names = [column.name for column in result.columns]
    names = classified.shown_names(own_names, as_described=as_described)
    columns = [
        replace(column, name=name, sample=(MASK,), evidence="", key_evidence="")
        if column.name.lower() in hidden
        else column
        for column, name in zip(result.columns, names, strict=True)
    ]
    questions = tuple(question.without_values() for question in result.questions)
    unread = renamed(result.unread_columns, own_names, names)
    masked = frozenset(shown.name.lower() for shown in columns if shown.sample == (MASK,))
    return replace(result, columns=tuple(columns), questions=questions, unread_columns=unread), masked


def record_sensitive_sample(
    classified: ClassifiedPlace, kind: str, columns: Sequence[str], hidden: Collection[str], *, rows: int
) -> None:
    """Write a change-log entry for each source whose sensitive values a user was shown."""
    names = [name for name in columns if name.lower() in hidden]
    for source, _ in classified.sources:
        record_sensitive_read(name=str(source), key=str(source.key), kind=kind, columns=names, found_by=[], rows=rows)
