"""Samples of files and tables of a system, with sensitive values masked."""

from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import PermissionDenied

from elevata.accounts.roles import Permission, needed_role
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_values
from loader.services.reads.read_permissions import may_read, may_read_sensitive, record_sensitive_read
from loader.sources.results import Sample
from loader.sources.systems import sample
from metadata.domain.sensitivity import MASK
from metadata.models import SourceDataset, System
from metadata.selectors.classification import Classification, source_classification


@dataclass(frozen=True)
class Place:
    """Location, format and reading options of a delivery; ``options`` None: to be guessed."""

    location: str
    format: str
    options: dict[str, Any] | None


def readable_sample(
    user: Any, system: System, place: Place, source: SourceDataset | None
) -> tuple[Sample, frozenset[str]]:
    """Return a sample as the user may see it, and the names in lower case of columns whose values are masked.

    Of a source with sensitive columns all are masked but those that are described as harmless, and all where it is
    read with other options than described. Raise PermissionDenied without the permission to read data. A sample that
    shows sensitive values is recorded.
    """
    if not may_read(user, system):
        raise PermissionDenied(f"Samples of {system}: {needed_role(Permission.READ_DATA)}.")
    classified = source_classification(source) if source is not None else Classification()
    try:
        result = sample(system, place.location, place.format, place.options)
    except Refusal as refusal:
        raise without_values(refusal, classified.sensitive_names) from None
    if source is None or not classified.sensitive:
        return result, frozenset()
    # Read with other options, a column may hold something else than described.
    is_alike = (place.format, result.options) == (source.format, source.options)
    harmless = _names_of(source) - classified.sensitive_present if is_alike else frozenset()
    hidden = frozenset(column.name.lower() for column in result.columns) - harmless
    names = [column.name for column in result.columns if column.name.lower() in hidden]
    if not names:
        return result, frozenset()
    if may_read_sensitive(user, system):
        entry: dict[str, Any] = {"kind": "source sample", "columns": names, "found_by": [], "rows": result.rows}
        record_sensitive_read(name=str(source), key=str(source.key), **entry)
        return result, frozenset()
    columns = (replace(column, sample=(MASK,)) if column.name in names else column for column in result.columns)
    return replace(result, columns=tuple(columns)), hidden


def _names_of(source: SourceDataset) -> frozenset[str]:
    return frozenset(column.name.lower() for column in source.columns.all())
