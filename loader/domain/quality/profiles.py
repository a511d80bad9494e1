"""Profile of a table's columns, and the checks that it suggests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from metadata.domain import types
from metadata.domain.quality import check_kinds
from metadata.domain.types import DataType, parse

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Number of buckets of a histogram, of frequent values shown, and of distinct values up to which all are counted.
BUCKETS, TOP, MOST_VALUES = 20, 20, 200
_NUMBERS = (types.INTEGER, types.BIGINT, types.DECIMAL, types.FLOAT)
_TIMES = (types.DATE, types.TIMESTAMP)
_TEXTS = (types.STRING, types.UUID, types.TIME, types.JSON)
# Rows from which values suggest a rule, and distinct values up to which they are a list.
_LEAST_ROWS, _MOST_ACCEPTED = 20, 12
# The number of distinct values is approximate.
_NEARLY_ALL = 0.95


@dataclass
class ColumnProfile:
    """Profile of one column. ``distinct`` is approximate; ``hidden`` columns have no values.

    ``quantiles`` are numbers, of dates days and of timestamps seconds since 1970. ``top`` are frequent values with
    their numbers of rows; with ``values_complete`` the values of all rows were counted.
    """

    name: str
    type: str
    rows: int = 0
    nulls: int = 0
    distinct: int = 0
    hidden: bool = False
    minimum: str | None = None
    maximum: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    quantiles: list[float] = field(default_factory=list)
    top: list[tuple[str, int]] = field(default_factory=list)
    histogram: list[int] = field(default_factory=list)
    values_complete: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None and value != []}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> "ColumnProfile":
        return cls(**{**described, "top": [tuple(pair) for pair in described.get("top", ())]})

    def without_values(self) -> "ColumnProfile":
        """Return the profile without values, for readers who may not see them."""
        return ColumnProfile(self.name, self.type, self.rows, self.nulls, self.distinct, hidden=True)


def shape_of(type_: DataType) -> str:
    """Return number, time or text; empty for a type that has neither limits nor lengths."""
    for shape, names in (("number", _NUMBERS), ("time", _TIMES), ("text", _TEXTS)):
        if type_.name in names:
            return shape
    return ""


def buckets_of(item: ColumnProfile) -> tuple[float, float] | None:
    """Return the lower end and the width of a histogram's buckets; None for a column without a spread.

    The ends are the outer quantiles, widened, so that single outliers do not put all rows into one bucket.
    """
    if len(item.quantiles) < len(QUANTILES):
        return None
    first, last = item.quantiles[0], item.quantiles[-1]
    if not last > first:
        return None
    reach = (last - first) * 0.25
    return first - reach, (last - first + 2 * reach) / BUCKETS


@dataclass(frozen=True)
class Suggestion:
    """Check that a profile suggests, with the reason."""

    name: str
    kind: str
    arguments: dict[str, Any]
    reason: str

    @property
    def key(self) -> str:
        """Return the identity of the suggestion on a page."""
        return f"{self.kind}:{','.join(self.arguments.get('columns', ()))}"


def suggested(
    profiles: Sequence[ColumnProfile], known: Collection[tuple[str, tuple[str, ...]]] = (), skip: Collection[str] = ()
) -> list[Suggestion]:
    """Return the checks that a profile suggests, without those that exist.

    ``known`` are kinds and columns of existing checks; ``skip`` are columns that a load checks anyway or that no check
    can name.
    """
    suggestions = [item for profile in profiles if profile.name not in skip for item in _of_column(profile)]
    if profiles and profiles[0].rows >= _LEAST_ROWS:
        suggestions.append(Suggestion("row count", check_kinds.ROW_COUNT_CHANGE, {}, f"{profiles[0].rows:,} rows now"))
    return [item for item in suggestions if (item.kind, tuple(item.arguments.get("columns", ()))) not in known]


def _of_column(item: ColumnProfile) -> list[Suggestion]:
    present = item.rows - item.nulls
    if present < _LEAST_ROWS:
        return []
    name = item.name
    column: dict[str, Any] = {"columns": [item.name]}
    checks = []
    if not item.nulls:
        checks.append(Suggestion(f"{name} is filled", check_kinds.NOT_NULL, column, f"no NULL in {item.rows:,} rows"))
    if item.hidden:
        return checks
    shape = shape_of(parse(item.type))
    if item.distinct >= _NEARLY_ALL * present and not item.values_complete and shape != "time":
        checks.append(
            Suggestion(f"{name} is unique", check_kinds.UNIQUE, column, f"about {item.distinct:,} distinct values")
        )
    values = [value for value, _ in item.top]
    if item.values_complete and shape == "text" and len(values) == item.distinct <= _MOST_ACCEPTED:
        arguments = column | {"values": sorted(values)}
        checks.append(Suggestion(f"{name} is known", check_kinds.ACCEPTED_VALUES, arguments, f"{len(values)} values"))
    if shape == "number" and item.minimum is not None and float(item.minimum) >= 0:
        arguments = column | {"minimum": "0"}
        checks.append(
            Suggestion(f"{name} is not negative", check_kinds.RANGE, arguments, f"the minimum is {item.minimum}")
        )
    is_fixed = item.max_length is not None and item.min_length == item.max_length
    if shape == "text" and is_fixed and not item.values_complete:
        arguments = column | {"minimum": str(item.min_length), "maximum": str(item.max_length)}
        reason = f"every text has {item.max_length} characters"
        checks.append(Suggestion(f"length of {name}", check_kinds.LENGTH, arguments, reason))
    return checks
