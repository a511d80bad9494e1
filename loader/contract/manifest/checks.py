"""Checks of data quality as manifests carry them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from architecture.domain.tables import TableSpec
from loader.contract.check_outcomes import BROKEN, Result
from metadata.domain.quality.check_kinds import QualityRule


@dataclass(frozen=True)
class CheckSpec:
    """Check of a dataset, in a manifest.

    ``other`` is the table of the other dataset. ``other_sensitive`` are the names in lower case of its sensitive
    columns, or of those of the tables that the query reads, with columns that hash them; ``sensitive_by_table`` has
    them by the names in lower case of all tables that the query reads.
    ``past`` are the row counts of the last runs. ``query`` is a SELECT over temporary views, ``views`` their tables;
    ``own_view`` has the checked rows. ``problem`` is the reason why the check cannot run.
    """

    key: str
    name: str
    kind: str
    severity: str
    arguments: dict[str, Any] = field(default_factory=dict)
    other: TableSpec | None = None
    other_sensitive: tuple[str, ...] = ()
    sensitive_by_table: tuple[tuple[str, tuple[str, ...]], ...] = ()
    past: tuple[int, ...] = ()
    query: str = ""
    views: tuple[tuple[str, TableSpec], ...] = ()
    own_view: str = ""
    problem: str = ""

    @cached_property
    def rule(self) -> QualityRule:
        return QualityRule.from_dict(self.kind, self.arguments)

    @property
    def datasets_read(self) -> tuple[str, ...]:
        """Return the stable keys of the datasets whose tables the check reads besides the checked rows."""
        tables = (*((self.other,) if self.other else ()), *(table for _, table in self.views))
        return tuple(dict.fromkeys(table.dataset_key for table in tables))

    def result(self, outcome: str, **values: Any) -> Result:
        """Return a result of this check."""
        return Result(self.key, self.name, self.kind, self.severity, outcome, **values)

    def broken(self, reason: str) -> Result:
        """Return the result of a check that could not run."""
        return self.result(BROKEN, message=f"could not run: {reason}")
