"""Attempt of a load run: datasets in dependency order, independent ones in parallel."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from pyspark.sql import SparkSession

from loader.contract.manifest.loads import LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_values
from loader.domain.sources.window_texts import without_values as without_hidden
from loader.domain.spark_failures import NO_ACCESS, cause_of
from loader.engine.java_errors import accident, first_line, thrown_by
from loader.engine.loads.dataset_load import Canceled, Outcome, Task
from loader.engine.loads.models import load_model
from loader.engine.loads.raw_loads import load_raw
from loader.engine.loads.rawcore_loads import check_before_load, load_rawcore
from loader.engine.loads.small_loads import PreparedLoad, prepare_small_loads
from loader.engine.tables.fragmentation import is_crowded
from loader.engine.tables.tables import DeltaTable

log = logging.getLogger(__name__)

Load = RawLoad | RawcoreLoad | ModelLoad

SIDE_BY_SIDE = 4
SUCCEEDED, FAILED, SKIPPED, CANCELED = "succeeded", "failed", "skipped", "canceled"


def _load(task: Task, load: Load) -> Outcome:
    match load:
        case RawLoad():
            return load_raw(task, load)
        case ModelLoad():
            return load_model(task, load)
        case _:
            return load_rawcore(task, load)


class LoadAttempt:
    """Execution of a manifest's datasets, with an event for each step.

    ``emit(event, **fields)`` sends an event; ``canceled`` is set when the run is cancelled.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        manifest: LoadManifest,
        emit: Callable[..., None],
        canceled: threading.Event,
        job_group: str,
    ):
        self._spark, self._warehouse, self._manifest = spark, warehouse, manifest
        self._emit, self._canceled, self._job_group = emit, canceled, job_group
        loads: tuple[Load, ...] = (*manifest.raw, *manifest.rawcore, *manifest.models)
        self._waiting = {load.dataset: load for load in loads if load.dataset not in manifest.already_done}
        self._names = {load.dataset: load.name for load in loads}
        self._sensitive = {load.dataset: load.sensitive for load in loads}
        self._small: dict[str, PreparedLoad] = {}
        self._status: dict[str, str] = dict.fromkeys(manifest.already_done, SUCCEEDED)

    def run(self) -> str:
        """Load every dataset; return succeeded, failed or canceled."""
        self._check_before_load()
        self._prepare_small_loads()
        futures: dict[Future, str] = {}
        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix=f"{self._job_group}/dataset") as pool:
            while self._waiting or futures:
                self._skip_dependents()
                for key in [key for key, load in self._waiting.items() if self._is_ready(load)]:
                    futures[pool.submit(self._run_dataset, self._waiting.pop(key))] = key
                if not futures:
                    break
                done, _ = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    self._status[futures.pop(future)] = future.result()
        if self._canceled.is_set():
            return CANCELED
        return SUCCEEDED if all(status == SUCCEEDED for status in self._status.values()) else FAILED

    def _is_ready(self, load: Load) -> bool:
        after = () if isinstance(load, RawLoad) else load.after
        return (
            not self._canceled.is_set()
            and all(self._status.get(upstream) == SUCCEEDED for upstream in load.depends_on if upstream in self._names)
            and all(key in self._status for key in after if key in self._names)
        )

    def _check_before_load(self) -> None:
        """Fail refused datasets, and rawcore datasets that do not pass the checks before a load.

        Their deliveries do not replace raw: skip raw datasets that only such datasets read.
        """
        for dataset in [key for key in self._waiting if key in self._manifest.refused]:
            self._waiting.pop(dataset)
            self._finish(dataset, FAILED, error=Refusal.from_json(self._manifest.refused[dataset]))
        for load in [load for load in self._waiting.values() if isinstance(load, RawcoreLoad)]:
            try:
                check_before_load(Task(self._spark, self._warehouse, self._manifest, lambda _: None), load)
            except Refusal as refusal:
                self._waiting.pop(load.dataset)
                self._finish(load.dataset, FAILED, error=refusal)
            except Exception as failure:  # an error in one table must not end the others
                log.exception("%s cannot be checked", load.name)
                self._waiting.pop(load.dataset)
                error = unreadable_table(self._warehouse, load.leading.key, failure, name=load.name)
                self._finish(load.dataset, FAILED, error=error)
        consumers: dict[str, set[str]] = {}
        for load in self._manifest.rawcore:
            for upstream in load.depends_on:
                consumers.setdefault(upstream, set()).add(load.dataset)
        for raw in [load for load in self._waiting.values() if isinstance(load, RawLoad)]:
            readers = consumers.get(raw.dataset, set())
            if readers and all(self._status.get(reader) == FAILED for reader in readers):
                self._waiting.pop(raw.dataset)
                self._finish(raw.dataset, SKIPPED, skipped_because=self._names[sorted(readers)[0]])

    def _prepare_small_loads(self) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "load")
        context.setJobGroup(self._job_group, f"{self._manifest.run_id} small loads")
        stamp = Task(self._spark, self._warehouse, self._manifest, lambda _: None).stamp
        self._small = prepare_small_loads(
            self._spark, self._warehouse, self._manifest, stamp, self._waiting.keys(), SIDE_BY_SIDE
        )

    def _skip_dependents(self) -> None:
        """Skip datasets that depend, even indirectly, on one that did not succeed. Cancel all of a cancelled run."""
        while True:
            stopped = {
                key: upstream
                for key, load in self._waiting.items()
                for upstream in load.depends_on
                if self._status.get(upstream) in (FAILED, SKIPPED, CANCELED)
            }
            if self._canceled.is_set():
                for key in list(self._waiting):
                    self._waiting.pop(key)
                    self._finish(key, CANCELED)
                return
            if not stopped:
                return
            for key, upstream in stopped.items():
                self._waiting.pop(key)
                self._finish(key, SKIPPED, skipped_because=self._names[upstream])

    def _run_dataset(self, load: Load) -> str:
        started = time.monotonic()
        self._emit("dataset_started", dataset=load.dataset)
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "load")
        context.setJobGroup(self._job_group, f"{self._manifest.run_id} {load.name}")
        small = self._small.get(load.dataset)
        report = partial(self._emit, "dataset_checked", dataset=load.dataset)
        task = Task(self._spark, self._warehouse, self._manifest, self._phase_of(load), small, report)
        try:
            outcome = _load(task, load)
            crowded = self._tables_to_compact(load)
            return self._finish(load.dataset, SUCCEEDED, outcome=outcome, started=started, crowded=crowded)
        except Canceled:
            return self._finish(load.dataset, CANCELED, started=started)
        except Refusal as refusal:
            return self._finish(load.dataset, FAILED, error=refusal, started=started)
        except Exception as failure:  # an error in one dataset must not end the others
            if self._canceled.is_set():
                return self._finish(load.dataset, CANCELED, started=started)
            log.exception("%s failed", load.name)
            return self._finish(load.dataset, FAILED, error=accident(load.name, failure), started=started)

    def _tables_to_compact(self, load: Load) -> list[str]:
        """Return the dataset's tables that need compaction. Errors are only logged, since the load is finished."""
        specs = [load.table, load.history, load.event_log] if isinstance(load, RawcoreLoad) else [load.table]
        try:
            tables = [(spec, DeltaTable(self._spark, self._warehouse, spec.key)) for spec in specs if spec]
            return [spec.qualified_name for spec, table in tables if is_crowded(table)]
        except Exception:
            log.exception("the files of %s could not be counted", load.name)
            return []

    def _phase_of(self, load: Load) -> Callable[[str], None]:
        def phase(name: str) -> None:
            if self._canceled.is_set():
                raise Canceled
            self._emit("dataset_phase", dataset=load.dataset, phase=name)

        return phase

    def _finish(
        self,
        dataset: str,
        status: str,
        *,
        outcome: Outcome | None = None,
        error: Refusal | None = None,
        started: float | None = None,
        skipped_because: str = "",
        crowded: list[str] | None = None,
    ) -> str:
        self._status[dataset] = status
        outcome = outcome or Outcome()
        self._emit(
            "dataset_finished",
            dataset=dataset,
            status=status,
            counts=outcome.counts,
            drift=outcome.drift,
            schema=list(error.schema if error is not None else outcome.schema) or None,
            warnings=outcome.warnings,
            error=without_values(error, self._sensitive[dataset]).as_json() if error else None,
            faults=without_values(outcome.faults, self._sensitive[dataset]).as_json() if outcome.faults else None,
            skipped_because=skipped_because,
            unchanged_since=outcome.unchanged_since or None,
            crowded=crowded or None,
            version_before=outcome.version_before,
            version_after=outcome.version_after,
            window=without_hidden(outcome.window, self._sensitive[dataset].__contains__) or None,
            seconds=round(time.monotonic() - started, 3) if started is not None else None,
        )
        return status


def unreadable_table(warehouse: str, key: str, failure: Exception, *, name: str = "") -> Refusal:
    """Return the refusal for a table whose log Delta cannot read, with its location.

    If the store refuses access, return that as the cause, since the log may be intact.
    """
    message = f"{name}: " if name else ""
    cause = cause_of(f"{message}the table {warehouse.rstrip('/')}/{key} cannot be read", thrown_by(failure))
    if cause is not None and cause.code in NO_ACCESS:
        return cause
    if isinstance(failure, Refusal):
        return failure
    return Refusal(
        "UNREADABLE_TABLE",
        f"{message}the table {warehouse.rstrip('/')}/{key} cannot be read: {first_line(failure)}",
        hint="Its _delta_log is damaged, incomplete or of another program. Put the folder back from a backup, then run "
        "again.",
    )
