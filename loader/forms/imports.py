"""Forms of an import. The sampled lines are sent with a form, so that they are kept if it has errors."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loader.domain.sources.contract_comparison import (
    CHANGED,
    DECIDED,
    GONE,
    NEW,
    RETURNING,
    KnownColumn,
    Line,
    compare_contract,
)
from loader.domain.sources.file_detection.detect import target_names
from loader.domain.sources.file_detection.file_names import source_name
from loader.selectors.source_state import known_columns
from loader.sources.results import Sample
from metadata.domain import naming
from metadata.domain.generation import RAWCORE
from metadata.domain.sources.formats import FILE_FORMATS, REST, TABLE
from metadata.domain.sources.value_formats import ValueFormats
from metadata.forms.imports import ColumnChoiceForm
from metadata.models import SourceDataset
from metadata.services.source_contracts import ContractChanges, ImportedColumn


@dataclass
class Row:
    """A line with its form; without a form there is nothing to decide."""

    line: Line
    form: ColumnChoiceForm | None

    @property
    def is_new(self) -> bool:
        return self.line.status == NEW

    @property
    def changes_type(self) -> bool:
        return self.line.status == CHANGED


def all_valid(rows: list[Row]) -> bool:
    """Return True if the forms of all rows are valid; each is validated, so that each shows its errors."""
    return not [row for row in rows if row.form is not None and not row.form.is_valid()]


def retyped(rows: list[Row]) -> list[Row]:
    """Return the valid rows that were taken with another type than proposed."""
    return [
        row for row in rows if row.form is not None and row.form.cleaned_data.get("type") not in (None, row.line.type)
    ]


def rows_of(lines: list[Line], *, system: str, dataset: str, data: Any = None) -> list[Row]:
    """Return the lines with forms: as they were sent (``data``), or filled with proposals."""
    if data is not None:
        return [Row(line, _sent(line, f"c{place}", data)) for place, line in enumerate(lines)]
    delivered = [line.name for line in lines if line.status == NEW]
    names = iter(target_names(delivered, naming.generated_name(RAWCORE, system, dataset)))
    rows = []
    for place, line in enumerate(lines):
        form = None
        if line.status in DECIDED:
            initial = _initial(line, next(names) if line.status == NEW else "")
            form = ColumnChoiceForm(initial=initial, prefix=f"c{place}")
        rows.append(Row(line, form))
    return rows


def compared_lines(result: Sample, known: Sequence[KnownColumn], masked: Collection[str]) -> list[Line]:
    """Return the comparison of a sample with the known columns of a contract."""
    values = dict(zip([column.name for column in result.columns], result.values, strict=False))
    formats = ValueFormats.of(result.options)
    return compare_contract(known, result.columns, values, typed=result.typed, masked=masked, formats=formats)


def proposed_names(location: str, format_name: str) -> dict[str, str]:
    """Return name and short name of a new source of a location; files are named without their dates."""
    if format_name in (*FILE_FORMATS, REST):
        name = short = source_name(location)
    else:
        name, short = location, location.removeprefix("public.") if format_name == TABLE else location
    return {"name": name, "short_name": naming.safe_table_part(short)}


def _sent(line: Line, prefix: str, data: Any) -> ColumnChoiceForm | None:
    if line.status not in DECIDED:
        return None
    return ColumnChoiceForm(data, prefix=prefix, asks_type=line.status in (NEW, CHANGED))


def _proposed_names(delivered: list[str], system: str, dataset: str) -> list[str]:
    reserved = naming.reserved_column_names(RAWCORE, naming.generated_name(RAWCORE, system, dataset))
    return naming.target_names([(name, "") for name in delivered], reserved)


def _initial(line: Line, name: str) -> dict[str, Any]:
    sampled = line.sampled
    return {
        # New and returning columns are ticked; the user decides on those that change or are gone.
        "take": line.status in (NEW, RETURNING),
        "target_name": name,
        "type": str(line.type),
        "nullable": line.nullable,
        "key_ordinal": sampled.key_ordinal if sampled and line.status == NEW else None,
        "description": sampled.description if sampled else "",
    }


def chosen(rows: list[Row], *, system: str, dataset: str) -> list[ImportedColumn]:
    """Return the new columns that were taken. A name is only stored if it differs from the proposal of the rules."""
    taken = [row for row in rows if row.is_new and row.form is not None and row.form.cleaned_data["take"]]
    proposed = _proposed_names([row.line.name for row in taken], system, dataset)
    return [_imported(row, name) for row, name in zip(taken, proposed, strict=True)]


def _given(row: Row) -> dict[str, Any]:
    """Return the values of a row that was sent."""
    assert row.form is not None
    return row.form.cleaned_data


def _imported(row: Row, proposed: str) -> ImportedColumn:
    given = _given(row)
    return ImportedColumn(
        name=row.line.name,
        type=given["type"],
        target_name="" if given["target_name"] == proposed else given["target_name"],
        key_ordinal=given["key_ordinal"],
        nullable=given["nullable"],
        pii=given["pii"],
        sensitivity=given["sensitivity"],
        description=given["description"],
    )


def _is_key(row: Row) -> bool:
    return row.line.known is not None and bool(row.line.known.key_ordinal)


def contract_changes(rows: list[Row], *, system: str, dataset: str) -> ContractChanges:
    """Return the changes of a comparison that were ticked."""
    taken = [row for row in rows if row.form is not None and row.form.cleaned_data["take"]]
    by_status = {status: [row for row in taken if row.line.status == status] for status in DECIDED}
    return ContractChanges(
        add=tuple(chosen(rows, system=system, dataset=dataset)),
        change={
            row.line.name: {
                "type": _given(row)["type"],
                # A key column is never nullable, whatever was ticked.
                **({} if _is_key(row) else {"nullable": _given(row)["nullable"]}),
            }
            for row in by_status[CHANGED]
        },
        bring_back=tuple(row.line.name for row in by_status[RETURNING]),
        retire=tuple(row.line.name for row in by_status[GONE]),
        seen={row.line.name: row.line.known.version for row in taken if row.line.known is not None},
    )


def with_current_contract(lines: list[Line], source: SourceDataset) -> list[Line]:
    """Return the lines with the current contract; each names the changes of other users, and counts as seen."""
    now = {column.name: column for column in known_columns(source)}
    renewed = []
    for line in lines:
        known, fresh = line.known, now.get(line.name)
        if known is not None and fresh is not None and fresh.version != known.version:
            change = f"changed by another user: {fresh.type}, {'in use' if fresh.active else 'out of use'} now"
            line = replace(line, known=fresh, difference="; ".join(part for part in (change, line.difference) if part))
        renewed.append(line)
    return renewed
