"""Results of quality checks, as the runner reports them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from metadata.domain.quality.check_kinds import FRESHNESS, QUARANTINE, STOP, TOTAL, WARN

PASSED, WARNED, QUARANTINED, STOPPED, BROKEN = "passed", "warned", "quarantined", "stopped", "broken"
OUTCOMES = {
    PASSED: "Passed",
    WARNED: "Warned",
    QUARANTINED: "Quarantined",
    STOPPED: "Stopped",
    BROKEN: "Could not run",
}
OUTCOME_CHOICES = tuple(OUTCOMES.items())
PROBLEMS = frozenset(OUTCOMES) - {PASSED}
_OUTCOME_OF = {WARN: WARNED, QUARANTINE: QUARANTINED, STOP: STOPPED}
_SHOWN = 5


# Kinds of checks whose numbers are values of columns, or computed from them.
OF_VALUES = (TOTAL, FRESHNESS)


HIDDEN = "failed; its numbers are hidden because they reveal sensitive values"


class CheckedNumber(Protocol):
    """Result, reported or stored."""

    @property
    def kind(self) -> str: ...

    @property
    def outcome(self) -> str: ...

    @property
    def message(self) -> str: ...


@dataclass(frozen=True)
class Result:
    """Result of one check. ``loader.models.CheckResult`` describes the fields."""

    key: str
    name: str
    kind: str
    severity: str
    outcome: str
    failed: int | None = None
    total: int | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    message: str = ""
    samples: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        described = asdict(self) | {"samples": list(self.samples), "tells": list(self.tells)}
        return {name: value for name, value in described.items() if value not in (None, "", [])}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> "Result":
        lists = {name: tuple(described.get(name, ())) for name in ("samples", "tells")}
        return cls(**{**described, **lists})

    @property
    def stops(self) -> bool:
        """Return True if the dataset may not be loaded.

        A check that stops failed; or one that keeps rows out could not run, so that no row is known to be good.
        """
        if self.severity == QUARANTINE:
            return self.outcome == BROKEN
        return self.severity == STOP and self.outcome != PASSED

    @property
    def line(self) -> str:
        """Return the result in words, without values.

        The words are stored with a run, while a column may be classified later.
        """
        if self.message:
            message = without_number(self)["message"] if self.kind in OF_VALUES else self.message
            return f"{self.name}: {message}"
        return f"{self.name}: {self.share}"

    @property
    def share(self) -> str:
        """Return the number of failed rows, and of all where that is known, in words."""
        of_all = "" if self.total is None else f" of {self.total:,}"
        return f"{counted(self.failed or 0, 'row')}{of_all} failed"


def without_number(result: CheckedNumber) -> dict[str, Any]:
    """Return the fields of a result, reported or stored, that differ without its numbers and examples."""
    message = result.message
    if result.outcome != BROKEN:
        summary = result.message.partition(":")[0] if result.kind in OF_VALUES else HIDDEN
        message = "" if result.outcome == PASSED else summary
    numbers = dict.fromkeys(("failed", "total", "value", "low", "high"))
    return {**numbers, "message": message, "samples": ()}


def outcome_of(severity: str, *, failed: bool) -> str:
    """Return the outcome of a check that ran."""
    return _OUTCOME_OF[severity] if failed else PASSED


def refusal_of(name: str, results: Iterable[Result]) -> Refusal | None:
    """Return the refusal of a dataset whose checks stop its load; None if none does."""
    stopping = [result for result in results if result.stops]
    if not stopping:
        return None
    shown = "; ".join(result.line for result in stopping[:_SHOWN])
    more = f"; and {len(stopping) - _SHOWN} more" if len(stopping) > _SHOWN else ""
    return Refusal(
        "QUALITY_STOPPED",
        f"{name}: {counted(len(stopping), 'check')} failed: {shown}{more}",
        hint="Nothing was written. Correct the delivery, or change the check.",
        count=sum(result.failed or 0 for result in stopping),
        samples=tuple(sample for result in stopping for sample in result.samples)[:_SHOWN],
    )


def warnings_of(results: Iterable[Result]) -> list[str]:
    """Return a warning for each check that failed without stopping the load."""
    return [f"Check {result.line}." for result in results if result.outcome != PASSED and not result.stops]
