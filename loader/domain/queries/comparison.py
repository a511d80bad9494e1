"""Comparison of two states of a dataset's table: what it is by, and its two sides.

Pure: the arguments of a read as JSON values.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant

DATES, VERSIONS, ENVIRONMENTS = "dates", "versions", "environments"
WAYS = {DATES: "Dates", VERSIONS: "Table versions", ENVIRONMENTS: "Environments"}


@dataclass(frozen=True)
class Comparison:
    """Two sides: times or numbers of a history, Delta versions, or an environment and the present one.

    Rows are added, changed and gone in ``other`` against ``base``. ``other`` is empty by environments.
    """

    by: str
    base: str
    other: str = ""

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "Comparison":
        """Return the comparison in the arguments of a read; other arguments are left out."""
        return cls(**{name: str(arguments.get(name, "")) for name in cls.__dataclass_fields__})

    def as_arguments(self) -> dict[str, str]:
        return asdict(self)

    def in_words(self, environment: str) -> str:
        """Return both sides in words; ``environment`` is the name of the present one."""
        if self.by == ENVIRONMENTS:
            return f"{self.base} to {environment}"
        word = "version " if self.by == VERSIONS else ""
        return f"{word}{self.base} to {word}{self.other}"

    def checked(self, *, by_number: bool, environments: Collection[str]) -> "Comparison":
        """Return the comparison with times in UTC. Raise Refusal BAD_COMPARISON.

        ``by_number``: the history is dated by numbers. ``environments`` are the names of the others.
        """
        if self.by not in WAYS:
            raise _refused(f"there is no comparison by {self.by!r}", f"Choose one of {', '.join(WAYS)}.")
        if self.by == ENVIRONMENTS:
            if self.base not in environments:
                raise _refused(f"there is no other environment {self.base!r}", "Choose another environment.")
            return replace(self, other="")
        return replace(self, base=self._side(self.base, by_number), other=self._side(self.other, by_number))

    def _side(self, text: str, by_number: bool) -> str:
        try:
            if self.by == VERSIONS or by_number:
                return str(int(text))
            return parse_instant(text).isoformat()
        except (ValueError, OverflowError):
            what = "a number" if self.by == VERSIONS or by_number else "a time like 2026-11-21T08:15:00Z"
            raise _refused(f"{text!r} is not {what}", "Choose both sides of the comparison.") from None


def _refused(message: str, hint: str) -> Refusal:
    return Refusal("BAD_COMPARISON", message, hint=hint)
