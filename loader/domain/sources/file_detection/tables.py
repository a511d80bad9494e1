"""Records of a text as a table: its width, and the kind of values in each column."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from loader.domain.sources.file_detection.cells import EMPTY, TYPED, kind_of
from loader.domain.sources.file_detection.dialects import Row
from loader.domain.sources.headers import is_drawn

# Rows at the beginning and end that may have other kinds than those between, and the number of rows of which few do not
# matter.
_MOST_ABOVE, _MOST_BELOW, _MANY = 12, 6, 200


@dataclass
class Table:
    """Records with a number of fields: the kinds of their columns, and the usual number of filled cells."""

    rows: tuple[Row, ...]
    width: int
    kinds: list[str] = field(init=False)
    usual_fill: float = field(init=False)

    def __post_init__(self) -> None:
        fills = [row.filled for row in self.rows if self.fits(row) and row.filled]
        self.usual_fill = statistics.quantiles(fills, n=4)[2] if len(fills) > 1 else float(self.width)
        full = [row for row in self.rows if self.fits(row) and row.filled >= 0.5 * self.usual_fill]
        if len(full) <= _MANY:
            full = [row for row in full if not is_drawn(row.cells)]
        self.kinds = self._kinds(full)

    def fits(self, row: Row) -> bool:
        return len(row.cells) == self.width or (len(row.cells) == self.width + 1 and not row.cells[-1])

    def _kinds(self, full: Sequence[Row]) -> list[str]:
        """Return the kinds of columns in the rows that have the most kinds, without a few at both ends."""
        own = [[kind_of(cell) for cell in row.cells[: self.width]] for row in full]
        bodies = [
            own[start : len(own) - end]
            for start in range(1, min(_MOST_ABOVE, len(own)))
            for end in range(_MOST_BELOW)
            if len(own) - end - start >= max(min(2, len(own) - 1), 0.35 * len(own))
        ]
        best, most = [""] * self.width, (0, 0)
        for body in bodies or [own]:
            kinds = [self._kind(body, place) for place in range(self.width)]
            # Of as many columns, those whose kinds more cells have.
            cells = sum(row[place] == kind for place, kind in enumerate(kinds) if kind in TYPED for row in body)
            if (typed := (sum(kind in TYPED for kind in kinds), cells)) > most:
                best, most = kinds, typed
            if len(own) > _MANY:
                break
        return best

    @staticmethod
    def _kind(body: Sequence[Sequence[str]], place: int) -> str:
        kinds = Counter(row[place] for row in body)
        del kinds[EMPTY]
        total = sum(kinds.values())
        if not total:
            return EMPTY
        kind, count = kinds.most_common(1)[0]
        return kind if count >= 0.8 * total else ""

    @property
    def typed(self) -> list[int]:
        return [place for place, kind in enumerate(self.kinds) if kind in TYPED]

    def is_narrow(self, row: Row) -> bool:
        """Return True for a line of text beside the table: too few fields, or only the first ones are filled."""
        if row.is_empty:
            return False
        if not self.fits(row) and len(row.cells) != self.width - 1:
            return True
        if not self.fits(row) and row.filled < len(row.cells):
            return True
        filled = [bool(cell.strip()) for cell in row.cells]
        is_left = not any(later and not earlier for earlier, later in zip(filled, filled[1:], strict=False))
        if self.width == 1:
            return False
        return row.filled < max(0.5 * self.usual_fill, 1.01) and is_left and not self.is_data(row)

    def violations(self, row: Row) -> tuple[int, int]:
        """Return how many filled cells are of another kind than their column, and how many columns have one."""
        cells = [(row.cells[place], self.kinds[place]) for place in self.typed if place < len(row.cells)]
        kinds = [(own, kind) for cell, kind in cells if (own := kind_of(cell)) != EMPTY]
        return sum(own != kind for own, kind in kinds), len(kinds)

    def is_data(self, row: Row) -> bool:
        """Return True for a record whose cells are of the kinds of their columns, with one that shows it."""
        wrong, known = self.violations(row)
        return self.fits(row) and known > 0 and wrong <= 0.5 * known and known > wrong

    def is_names(self, row: Row) -> bool:
        wrong, known = self.violations(row)
        return known > 0 and wrong > 0.5 * known

    def is_wrong(self, row: Row, place: int) -> bool:
        """Return True for a cell of another kind than those of its column."""
        return self.kinds[place] in TYPED and kind_of(row.cells[place]) not in (EMPTY, self.kinds[place])
