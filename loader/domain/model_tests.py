"""Unit tests of models: given rows of the inputs, the rows that the SELECT must return, and the difference.

A test needs no tables: the given rows are literals of one query each, and the SELECT of the model reads these.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from loader.domain.queries.differences import ADDED, CHANGED, GONE, SIGNS, changed_values
from loader.domain.queries.query_results import text_table

# Time of the load of a test that has none.
LOAD_TIMESTAMP = "2024-01-01T00:00:00+00:00"
Row = tuple[str | None, ...]


@dataclass(frozen=True)
class ModelTest:
    """Test for the runner: SQL of the model, of each given input by the name of its view, and of the expected rows.

    ``columns`` are those that are compared, ``key`` those by which a missing and an unexpected row are one that
    differs. ``ordered``: the SELECT orders its rows, so their order counts.
    """

    name: str
    model: str
    query: str
    given: tuple[tuple[str, str], ...]
    expected: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class ModelTests:
    """Tests of a file, as a request to the runner."""

    tests: tuple[ModelTest, ...]


@dataclass(frozen=True)
class ModelTestOutcome:
    """Result of one test. ``message`` is an error, or the difference in words."""

    name: str
    model: str
    passed: bool
    message: str = ""
    columns: tuple[str, ...] = ()
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    changed: tuple[tuple[Row, Row], ...] = field(default=())

    @property
    def table(self) -> str:
        """Return the rows that differ as text: ``-`` missing, ``+`` unexpected, ``~`` expected → actual values."""
        rows: list[list[str | None]] = [[SIGNS[GONE], *row] for row in self.missing]
        rows += [[SIGNS[ADDED], *row] for row in self.unexpected]
        rows += [[SIGNS[CHANGED], *changed_values(*pair)] for pair in self.changed]
        return text_table(["", *self.columns], rows) if rows else ""


def outcome(test: ModelTest, expected: Sequence[Row], actual: Sequence[Row]) -> ModelTestOutcome:
    """Return the result of comparing rows as text: as multisets, and in order if the SELECT orders them."""
    missing = list((Counter(expected) - Counter(actual)).elements())
    unexpected = list((Counter(actual) - Counter(expected)).elements())
    if not missing and not unexpected:
        if test.ordered and list(expected) != list(actual):
            place = next(i for i, pair in enumerate(zip(expected, actual, strict=True), 1) if pair[0] != pair[1])
            message = f"rows are in another order from row {place} on"
            apart = ((expected[place - 1], actual[place - 1]),)
            return ModelTestOutcome(test.name, test.model, False, message, test.columns, changed=apart)
        return ModelTestOutcome(test.name, test.model, True)
    changed = _paired(test, missing, unexpected)
    counts = ((len(missing), "missing"), (len(unexpected), "unexpected"), (len(changed), "changed"))
    message = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return ModelTestOutcome(
        test.name, test.model, False, message, test.columns, tuple(missing), tuple(unexpected), tuple(changed)
    )


def _paired(test: ModelTest, missing: list[Row], unexpected: list[Row]) -> list[tuple[Row, Row]]:
    """Remove the rows of one key that differ from both lists; return them in pairs."""
    if not test.key or not set(test.key) <= set(test.columns):
        return []
    places = [test.columns.index(name) for name in test.key]
    by_key = {tuple(row[place] for place in places): row for row in unexpected}
    pairs = []
    for row in list(missing):
        other = by_key.pop(tuple(row[place] for place in places), None)
        if other is not None:
            missing.remove(row)
            unexpected.remove(other)
            pairs.append((row, other))
    return pairs
