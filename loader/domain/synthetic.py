"""Synthetic CDC data: a first delivery and a second one with known changes (``manage.py generate_cdc``).

Rows depend only on the seed and the row's number, so they are generated one by one, and are equal on every machine. In
the second delivery, exactly the given shares of the first delivery's rows are deleted, updated and unchanged. New rows
fill it up to its size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from struct import Struct
from typing import Any
from uuid import UUID

from loader.contract.refusals import Refusal

DELETED, UPDATED, UNCHANGED = "deleted", "updated", "unchanged"
_CHANGES = (DELETED, UPDATED, UNCHANGED)
_NUMBERS = 1_000_000_000  # values are whole numbers below this
_EIGHT_NUMBERS = Struct(">8Q")  # capacity of a digest of 64 bytes

Row = tuple[str | int, ...]


class PlanProblem(Refusal):
    """Error in a plan; ``parameters`` are the wrong arguments of ``SyntheticPlan.of``."""

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__("BAD_PLAN", message)
        self.parameters = parameters


@dataclass(frozen=True)
class SyntheticPlan:
    """Plan of the data. ``shares`` are exact parts of the initial rows: text or Decimal."""

    initial_rows: int
    incremental_rows: int
    keys: int
    nonkeys: int
    shares: Mapping[str, Decimal]
    seed: int = 0

    @classmethod
    def of(
        cls,
        *,
        initial_rows: int,
        incremental_rows: int,
        keys: int,
        nonkeys: int,
        deleted: Any,
        updated: Any,
        unchanged: Any,
        seed: int = 0,
    ) -> "SyntheticPlan":
        """Return the plan. Raise PlanProblem for parameters that contradict each other or are out of range."""
        shares = {
            name: _share(name, value) for name, value in zip(_CHANGES, (deleted, updated, unchanged), strict=True)
        }
        for parameter, name, number, least in (
            ("initial_rows", "rows of the first delivery", initial_rows, 0),
            ("incremental_rows", "rows of the second delivery", incremental_rows, 0),
            ("keys", "key columns", keys, 1),
            ("nonkeys", "other columns", nonkeys, 0),
        ):
            if number < least:
                raise PlanProblem(f"the number of {name} must be at least {least}, not {number}", parameter)
        if sum(shares.values()) != 1:
            message = " + ".join(str(share) for share in shares.values())
            raise PlanProblem(
                f"deleted, updated and unchanged must sum to 1, and {message} is {sum(shares.values())}", *_CHANGES
            )
        plan = cls(initial_rows, incremental_rows, keys, nonkeys, shares, seed)
        counts = plan.counts()
        if counts[UPDATED] and not nonkeys:
            raise PlanProblem("rows without other columns than keys cannot be updated", "nonkeys", UPDATED)
        if plan.inserted < 0:
            remaining = counts[UPDATED] + counts[UNCHANGED]
            raise PlanProblem(
                f"{remaining} rows are kept, which is more than the {incremental_rows} of the second delivery",
                "incremental_rows",
            )
        return plan

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of a row's values, keys first."""
        keys = (f"key_{number}" for number in range(1, self.keys + 1))
        return (*keys, *(f"value_{number}" for number in range(1, self.nonkeys + 1)))

    @property
    def inserted(self) -> int:
        """Return the number of new rows in the second delivery."""
        counts = self.counts()
        return self.incremental_rows - counts[UPDATED] - counts[UNCHANGED]

    def counts(self) -> dict[str, int]:
        """Return the number of rows per change, rounded by largest remainders so that their sum is exact."""
        exact = {name: share * self.initial_rows for name, share in self.shares.items()}
        whole = {name: int(number) for name, number in exact.items()}
        by_remainder = sorted(_CHANGES, key=lambda name: (whole[name] - exact[name], _CHANGES.index(name)))
        for name in by_remainder[: self.initial_rows - sum(whole.values())]:
            whole[name] += 1
        return whole


def initial(plan: SyntheticPlan) -> Iterator[Row]:
    """Yield the rows of the first delivery."""
    return (_row(plan, number) for number in range(plan.initial_rows))


def incremental(plan: SyntheticPlan) -> Iterator[Row]:
    """Yield the rows of the second delivery: the remaining ones of the first, in order, then the new ones."""
    for number, change in enumerate(changes(plan)):
        if change != DELETED:
            yield _row(plan, number, updated=change == UPDATED)
    for number in range(plan.initial_rows, plan.initial_rows + plan.inserted):
        yield _row(plan, number)


def changes(plan: SyntheticPlan) -> Iterator[str]:
    """Yield the change of each initial row, drawn without replacement, so that the counts are exact."""
    remaining = plan.counts()
    for number in range(plan.initial_rows):
        drawn = _numbers(plan, "change", number, 1, below=sum(remaining.values()))[0]
        for change in _CHANGES:
            if drawn < remaining[change]:
                break
            drawn -= remaining[change]
        remaining[change] -= 1
        yield change


def _row(plan: SyntheticPlan, number: int, *, updated: bool = False) -> Row:
    keys = [_uuid(plan, number, column) for column in range(plan.keys)]
    values = _numbers(plan, "value", number, plan.nonkeys)
    if updated:
        # Steps are added modulo the range and are never 0, so every value of an updated row differs.
        steps = _numbers(plan, "update", number, plan.nonkeys, below=_NUMBERS - 1)
        values = [(value + step + 1) % _NUMBERS for value, step in zip(values, steps, strict=True)]
    return (*keys, *values)


def _uuid(plan: SyntheticPlan, number: int, column: int) -> str:
    return str(UUID(bytes=_digest(plan, "key", number, column)[:16], version=4))


def _numbers(plan: SyntheticPlan, purpose: str, number: int, count: int, below: int = _NUMBERS) -> list[int]:
    numbers: list[int] = []
    for block in range(-(-count // 8)):
        numbers += [value % below for value in _EIGHT_NUMBERS.unpack(_digest(plan, purpose, number, block))]
    return numbers[:count]


def _digest(plan: SyntheticPlan, purpose: str, number: int, part: int) -> bytes:
    return blake2b(f"{plan.seed}/{purpose}/{number}/{part}".encode()).digest()


def _share(name: str, value: Any) -> Decimal:
    try:
        share = Decimal(str(value))
    except InvalidOperation:
        share = Decimal("NaN")
    if not share.is_finite() or not 0 <= share <= 1:
        raise PlanProblem(f"the share of {name} rows must lie between 0 and 1, not {value}", name)
    return share
