"""Comparison of a sampled delivery with a source's contract: one line per column, for a user to decide on.

The contract is not changed by it. A type that was inferred from text is a guess, so it only differs from the
contract's where the contract's type does not hold the delivered values; a file or a database that declares its
types is believed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from loader.domain.sources.sampling import SampledColumn, Value, misfits, shown
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
    """Comparison of one column: ``found`` in the sample, ``known`` in the contract, ``said`` about the difference.

    ``type`` and ``nullable`` are those that the column would get.
    """

    status: str
    name: str
    type: DataType
    nullable: bool
    said: str = ""
    found: SampledColumn | None = None
    known: KnownColumn | None = None


def compare_contract(
    known: Sequence[KnownColumn],
    found: Sequence[SampledColumn],
    values: Mapping[str, Iterable[Value]],
    *,
    typed: bool,
    masked: Collection[str] = (),
) -> list[Line]:
    """Return one line per column, by status: new, returning, clashing, changed, gone, same.

    Columns match by their exact name; a name that differs from another only by case clashes, since a table cannot
    hold both. No value of ``masked`` columns (names in lower case) is shown.
    """
    by_name = {column.name: column for column in known}
    held = {column.name.lower(): column.name for column in known}
    lines, delivered = [], {column.name for column in found}
    for column in found:
        match = by_name.get(column.name)
        if match is not None:
            lines.append(
                _known(match, column, values.get(column.name, ()), typed=typed, masked=column.name.lower() in masked)
            )
            continue
        other = held.get(column.name.lower())
        if other is not None:
            said = f"differs only by case from {other}, which a table cannot hold beside it"
            lines.append(Line(CLASHING, column.name, column.type, column.nullable, said, column))
        else:
            held[column.name.lower()] = column.name
            status, said = (CLASHING, column.problem) if column.problem else (NEW, "")
            lines.append(Line(status, column.name, column.type, column.nullable, said, column))
    lines += [
        Line(GONE, column.name, column.type, column.nullable, "is promised, but not delivered any more", None, column)
        for column in known
        if column.active and column.name not in delivered
    ]
    order = (NEW, RETURNING, CLASHING, CHANGED, GONE, SAME)
    return sorted(lines, key=lambda line: order.index(line.status))


def _known(known: KnownColumn, found: SampledColumn, values: Iterable[Value], *, typed: bool, masked: bool) -> Line:
    if not known.active:
        said = "was in the contract once and is out of use"
        return Line(RETURNING, known.name, known.type, known.nullable, said, found, known)
    differs, wanted = [], known.type
    if typed:
        if found.type != known.type and stored_type(found.type) != known.type:
            differs.append(f"the contract says {known.type}, {found.evidence}")
            wanted = found.type
    else:
        count, first = misfits(known.type, values)
        if count:
            value = "value does" if count == 1 else "values do"
            example = "" if masked else f", {shown(first)} for one"
            differs.append(f"{count:,} sampled {value} not fit {known.type}{example}")
            wanted = found.type
    nullable = known.nullable
    if found.nulls and not known.nullable and known.key_ordinal is None:
        differs.append(f"{found.nulls:,} of {found.rows:,} rows have no value, where there must be one")
        nullable = True
    if found.nulls and known.key_ordinal is not None:
        said = "rows have no value in the business key: a load will refuse them"
        differs.append(f"{found.nulls:,} of {found.rows:,} {said}")
    status = CHANGED if wanted != known.type or nullable != known.nullable else SAME
    return Line(status, known.name, wanted, nullable, "; ".join(differs), found, known)
