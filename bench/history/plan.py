"""Rows of a benchmark's snapshots: arithmetic on row numbers, with exact counts and one seed.

Rows are numbered in order of insertion. Live rows are always one interval of numbers: each load deletes the
oldest and adds the next. A permutation of the remaining rows' positions (multiplication modulo their count)
selects the changed ones, so a load changes exactly the planned number of rows, spread over the table, and
every engine and run sees the same rows. Deleted keys never return, because the four classic statements would
lose them.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import gcd

from bench.problem import BenchProblem

SEED = 20240229
FIRST_LOAD = datetime(2024, 1, 1, tzinfo=UTC)

# Deleted and new rows, each, are this part of the changed ones: 10 % changed means 1 % and 1 %.
ARRIVING_PER_CHANGED = 10


@dataclass(frozen=True)
class Step:
    """Effect of one load, in numbers of rows."""

    changed: int
    deleted: int
    new: int


@dataclass(frozen=True)
class Plan:
    """First load of ``rows`` rows and the loads after it. Load numbers start at 0."""

    rows: int
    steps: tuple[Step, ...]
    seed: int = SEED

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps, start=1):
            if step.deleted + step.changed > self.born(number - 1) - self.gone(number - 1):
                raise BenchProblem(f"load {number} would change and delete more rows than there are")

    @classmethod
    def even(cls, rows: int, changed_pct: float, loads: int) -> "Plan":
        """Return a plan in which every load changes this percentage, and deletes and adds a tenth of it."""
        changed = round(rows * changed_pct / 100)
        arriving = round(rows * changed_pct / 100 / ARRIVING_PER_CHANGED)
        return cls(rows, (Step(changed, arriving, arriving),) * loads)

    def upto(self, load: int) -> "Plan":
        """Return the plan without the loads after this one."""
        return replace(self, steps=self.steps[:load])

    def then(self, step: Step) -> "Plan":
        """Return the plan with one more load."""
        return replace(self, steps=(*self.steps, step))

    @property
    def last(self) -> int:
        return len(self.steps)

    def gone(self, load: int) -> int:
        """Return the number of the oldest live row after this load."""
        return sum(step.deleted for step in self.steps[:load])

    def born(self, load: int) -> int:
        """Return the number after that of the newest live row after this load."""
        return self.rows + sum(step.new for step in self.steps[:load])

    def versions(self, load: int) -> int:
        """Return the number of versions in a correct history after this load."""
        return self.rows + sum(step.changed + step.new for step in self.steps[:load])

    def live(self, load: int) -> int:
        """Return the number of live rows, and of open versions, after this load."""
        return self.born(load) - self.gone(load)

    def since_sql(self, load: int) -> str:
        """Return an SQL expression over ``id`` for the load that set the row's values as of ``load``."""
        whens = []
        for number in range(load, 0, -1):
            if self.steps[number - 1].changed:
                oldest, survivors, factor, offset = self._draw(number)
                whens.append(
                    f"WHEN id >= {oldest} AND id < {oldest + survivors} AND ((id - {oldest}) * {factor} + {offset})"
                    f" % {survivors} < {self.steps[number - 1].changed} THEN {number}"
                )
        whens += [f"WHEN id < {self.born(number)} THEN {number}" for number in range(load)]
        return f"CASE {' '.join(whens)} ELSE {load} END" if whens else "0"

    def _draw(self, load: int) -> tuple[int, int, int, int]:
        """Return the oldest remaining row, the number of remaining ones, and the permutation's parameters."""
        oldest = self.gone(load)
        survivors = self.born(load - 1) - oldest
        return oldest, survivors, coprime(survivors, self.seed + 7919 * load), (self.seed * load) % max(survivors, 1)


def coprime(count: int, wish: int) -> int:
    """Return the first number from about ``wish`` modulo ``count`` that is coprime to ``count``."""
    factor = max(wish % max(count, 1), 1)
    while gcd(factor, count) != 1:
        factor += 1
    return factor


def load_time(load: int) -> str:
    """Return the date of a load: one day after the one before it. ISO 8601, UTC."""
    return (FIRST_LOAD + timedelta(days=load)).strftime("%Y-%m-%dT%H:%M:%SZ")
