"""Comparison of a sampled delivery with a source's contract: one line per column, for a user to decide on.

The contract is not changed. A type inferred from text is a guess, so it differs from the contract's only if the
contract's type does not fit the delivered values; declared types of a file or a database count as they are.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from elevata.core.errors import MetadataError
from loader.domain.sources.sampling import SampledColumn, Value, contradiction
from metadata.domain.sources.value_formats import STANDARD, ValueFormats
from metadata.domain.types import DataType, stored_type

NEW, RETURNING, CHANGED, SAME, GONE, CLASHING = "new", "returning", "changed", "same", "gone", "clashing"
# Statuses of which a user chooses the lines to take over.
DECIDED = (NEW, RETURNING, CHANGED, GONE)


@dataclass(frozen=True)
class KnownColumn:
    """A column of the contract; ``version`` is the one that is compared."""

    name: str
    type: DataType
    nullable: bool = True
    active: bool = True
    version: int = 1
    key_ordinal: int | None = None


@dataclass(frozen=True)
class Line:
    """Comparison of a column: ``sampled`` and ``known`` in the contract, with their ``difference``.

    ``type`` and ``nullable`` are those that the column would get.
    """

    status: str
    name: str
    type: DataType
    nullable: bool
    difference: str = ""
    sampled: SampledColumn | None = None
    known: KnownColumn | None = None


def compare_contract(
    known: Sequence[KnownColumn],
    sampled: Sequence[SampledColumn],
    values: Mapping[str, Iterable[Value]],
    *,
    typed: bool,
    masked: Collection[str] = (),
    formats: ValueFormats = STANDARD,
) -> list[Line]:
    """Return one line per column, by status: new, returning, clashing, changed, gone, same.

    Columns match by their exact name; a name that differs from another only by case clashes, since a table cannot
    hold both. No value of ``masked`` columns (names in lower case) is shown.
    """
    by_name = {column.name: column for column in known}
    names = {column.name.lower(): column.name for column in known}
    lines, delivered = [], {column.name for column in sampled}
    for column in sampled:
        match = by_name.get(column.name)
        if match is not None:
            lines.append(
                _known(
                    match,
                    column,
                    values.get(column.name, ()),
                    typed=typed,
                    masked=column.name.lower() in masked,
                    formats=formats,
                )
            )
            continue
        other = names.get(column.name.lower())
        if other is not None:
            message = f"differs only by case from {other}, which a table cannot hold beside it"
            lines.append(Line(CLASHING, column.name, column.type, column.nullable, message, column))
        else:
            names[column.name.lower()] = column.name
            status, message = (CLASHING, column.problem) if column.problem else (NEW, "")
            lines.append(Line(status, column.name, column.type, column.nullable, message, column))
    lines += [
        Line(
            GONE, column.name, column.type, column.nullable, "is in the contract, but not in the delivery", None, column
        )
        for column in known
        if column.active and column.name not in delivered
    ]
    order = (NEW, RETURNING, CLASHING, CHANGED, GONE, SAME)
    return sorted(lines, key=lambda line: order.index(line.status))


def _known(
    known: KnownColumn,
    sampled: SampledColumn,
    values: Iterable[Value],
    *,
    typed: bool,
    masked: bool,
    formats: ValueFormats,
) -> Line:
    if not known.active:
        message = "is retired in the contract"
        return Line(RETURNING, known.name, known.type, known.nullable, message, sampled, known)
    differs, wanted = [], known.type
    if typed:
        if sampled.type != known.type and stored_type(sampled.type) != known.type:
            differs.append(f"the contract says {known.type}, {sampled.evidence}")
            wanted = sampled.type
    else:
        contradicted = contradiction(known.type, values, formats, masked=masked)
        if contradicted:
            differs.append(contradicted)
            wanted = sampled.type
    nullable = known.nullable
    if sampled.nulls and not known.nullable and known.key_ordinal is None:
        differs.append(f"{sampled.nulls:,} of {sampled.rows:,} rows have no value, where there must be one")
        nullable = True
    if sampled.nulls and known.key_ordinal is not None:
        message = "rows have no value in the business key: a load will refuse them"
        differs.append(f"{sampled.nulls:,} of {sampled.rows:,} {message}")
    status = CHANGED if wanted != known.type or nullable != known.nullable else SAME
    return Line(status, known.name, wanted, nullable, "; ".join(differs), sampled, known)


def lines_as_text(lines: list[Line]) -> str:
    """Return the lines as text for a hidden field."""
    return json.dumps([asdict(line) for line in lines], default=str, ensure_ascii=False)


def lines_from_text(text: str) -> list[Line]:
    """Return the lines of a text from ``lines_as_text``. Raise ValueError for anything else."""
    try:
        return [_line(item) for item in json.loads(text)]
    except (TypeError, KeyError, AttributeError, MetadataError) as error:
        raise ValueError(str(error)) from None


def _line(item: dict[str, Any]) -> Line:
    sampled, known = item["sampled"], item["known"]
    return Line(
        status=str(item["status"]),
        name=str(item["name"]),
        type=_type(item["type"]),
        nullable=bool(item["nullable"]),
        difference=str(item["difference"]),
        sampled=SampledColumn(**{**sampled, "type": _type(sampled["type"]), "sample": tuple(sampled["sample"])})
        if sampled
        else None,
        known=KnownColumn(**{**known, "type": _type(known["type"])}) if known else None,
    )


def _type(item: dict[str, Any]) -> DataType:
    return DataType(**item)
