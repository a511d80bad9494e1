"""Load of one dataset: its context, its outcome and its quality checks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from loader.contract.check_outcomes import refusal_of, warnings_of
from loader.contract.manifest.loads import LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.contract.refusals import Refusal
from loader.domain.historization.load_guards import DeleteGuard
from loader.domain.quality.sensitive_results import without_revealing_numbers, without_sensitive
from loader.engine.historization.targets import Stamp
from loader.engine.loads.small_loads import PreparedLoad
from loader.engine.quality.frame_checks import CheckedRows, RowChecker, check_of_run
from loader.engine.session import dataset_session
from loader.engine.tables.run_commits import run_metadata


@dataclass
class Outcome:
    """Result of a dataset's load; ``loader.models.DatasetRun`` describes ``counts``, ``window`` and others."""

    counts: dict[str, int] = field(default_factory=dict)
    drift: list[dict] = field(default_factory=list)
    schema: tuple[dict, ...] = ()
    warnings: list[str] = field(default_factory=list)
    version_before: int | None = None
    version_after: int | None = None
    window: dict[str, Any] = field(default_factory=dict)
    unchanged_since: str = ""
    faults: Refusal | None = None


class Canceled(Exception):
    """Cancellation of a run by a user, raised only between complete writes."""


@dataclass
class Task:
    """Context of a dataset's load: the run, and its progress callback.

    ``phase`` reports the current phase and raises Canceled if the run was cancelled. ``small`` is the load that a
    task has prepared (``loader.engine.loads.small_loads``), None for the general way. ``report`` takes the
    ``results`` of quality checks.
    """

    spark: SparkSession
    warehouse: str
    manifest: LoadManifest
    phase: Callable[[str], None]
    small: PreparedLoad | None = None
    report: Callable[..., None] = lambda **results: None

    def session(self, sequence: int) -> SparkSession:
        return dataset_session(self.spark, user_metadata=self.commit_metadata(sequence))

    def commit_metadata(
        self, sequence: int, counts: dict[str, int] | None = None, notes: dict[str, str] | None = None
    ) -> str:
        """Return the commit metadata of this run."""
        return run_metadata(
            run_id=self.manifest.run_id,
            at=self.manifest.load_timestamp,
            sequence=sequence,
            counts=counts or {},
            notes=notes,
        )

    @cached_property
    def stamp(self) -> Stamp:
        if self.small is not None:
            return self.small.stamp
        loaded_at = datetime.now(UTC).isoformat(timespec="microseconds")
        return Stamp(self.manifest.run_id, self.manifest.load_timestamp, loaded_at)


def guard_of(manifest: LoadManifest) -> DeleteGuard:
    """Return this run's limits on deletes by absent keys."""
    return DeleteGuard(manifest.allow_empty, manifest.allow_deletes, manifest.deletes_share, manifest.deletes_keys)


def check_quality(
    task: Task,
    session: SparkSession,
    load: RawLoad | RawcoreLoad | ModelLoad,
    rows: DataFrame,
    outcome: Outcome,
    table: DataFrame | None = None,
) -> tuple[RowChecker, CheckedRows]:
    """Run the quality checks of a load on its rows. Raise Refusal QUALITY_STOPPED if one stops the load.

    ``table`` are all rows of the table after the load, for checks that concern the table.
    """
    task.phase("checking quality")
    checker = check_of_run(session, task.warehouse, load, task.manifest)
    checked = checker.check(rows, load.quality, table)
    stored = without_sensitive(checked.results, load.quality, load.sensitive, own=load.dataset)
    task.report(results=[result.as_json() for result in stored])
    shown = without_revealing_numbers(stored)
    refusal = refusal_of(load.name, shown)
    if refusal is not None:
        raise refusal
    outcome.warnings += [warning for warning in warnings_of(shown) if warning not in outcome.warnings]
    return checker, checked
