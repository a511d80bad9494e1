"""Executor of architecture steps, and the catalog names of tables.

Every step is idempotent: the position of a table among its steps is read from the table, finished steps are
skipped, and a step is finished only if the table shows it. ALTER has no transaction id, so only reading the table
again proves that a step was executed.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field

from pyspark.sql import SparkSession

from architecture.domain.steps.statements import (
    CATALOG,
    CHANGE,
    COLUMN,
    FEATURES,
    KEYS,
    Statement,
    catalog_name,
    location_of,
    statement_text,
    statements,
    tie_statement,
    ties_of,
    unset_properties,
)
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_FEATURES,
    DROP_TABLE,
    PUBLISH_TABLE,
    PUBLISH_VIEW,
    RENAME_COLUMN,
    RENAME_TABLE,
    Step,
    StepProblem,
    becomes,
    done_by,
    half_done_by,
    moved,
    shape_of,
    steps_done,
)
from architecture.domain.tables import ObservedTable
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_values
from loader.engine.java_errors import accident
from loader.engine.pyspark_types import jvm_of
from loader.engine.session import USER_METADATA, commit_metadata, dataset_session
from loader.engine.tables.rebuilds import rebuild, rewrite_without_features, set_aside
from loader.engine.tables.step_checks import EXECUTION, asks, check
from loader.engine.tables.tables import DeltaTable, publish

# Catalog names of tables, compared by location. The catalog only publishes the names in the Delta logs. So a name is
# dropped only if it belongs to the renamed or dropped table, and a name with another location is replaced.


_PUBLISHING = (CREATE_TABLE, RENAME_TABLE, PUBLISH_TABLE)


def publish_step(
    session: SparkSession, step: Step, statements: Iterable[Statement], warehouse: str, prefix: str = ""
) -> None:
    """Run the catalog statements of a step; they can be repeated at any time."""
    texts = [statement.sql for statement in statements if statement.part == CATALOG]
    location = location_of(step.table.key, warehouse)
    if step.op in (RENAME_TABLE, DROP_TABLE):
        old = catalog_name(step.from_name or step.dataset, prefix)
        drop, *texts = texts
        if held_at(session, old, location):
            session.sql(drop)
    if step.op in _PUBLISHING:
        shape = becomes(step)
        assert shape is not None
        make_room(session, catalog_name(shape.qualified_name, prefix), location)
    for text in texts:
        session.sql(text)


def make_room(session: SparkSession, name: str, location: str) -> None:
    """Drop the catalog name if it belongs to a table at another location."""
    if session.catalog.tableExists(name) and not held_at(session, name, location):
        session.sql(f"DROP TABLE IF EXISTS {name}")


def held_at(session: SparkSession, name: str, location: str) -> bool:
    """Return True if the catalog has the name for the table at this location."""
    if not session.catalog.tableExists(name):
        return False
    described = session.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    return any(_path(session, row.data_type) == _path(session, location) for row in described)


def _path(session: SparkSession, location: str) -> str:
    return jvm_of(session).org.apache.hadoop.fs.Path(location).toUri().getPath()


Emit = Callable[..., None]


def execute(
    spark: SparkSession,
    warehouse: str,
    steps: Sequence[Step],
    emit: Emit,
    *,
    execution: str = "",
    done: Collection[int] = (),
    canceled: threading.Event | None = None,
    schema_prefix: str = "",
    sensitive: Collection[str] = (),
) -> bool:
    """Run the steps in order until one fails or the execution is cancelled; return True if all are done.

    Before the first statement, check that every table is at a position among its steps, and check the data that
    pending steps depend on. ``done`` are the ordinals of steps recorded as finished: they are not run again, and
    the tables must show them. ``schema_prefix`` precedes the catalog's schemas in a dry run.
    Refusals contain no values of columns whose stable keys are ``sensitive``.
    """
    session = dataset_session(spark, user_metadata="")
    return _Execution(
        session,
        warehouse,
        tuple(steps),
        emit,
        execution,
        frozenset(done),
        canceled,
        schema_prefix,
        frozenset(sensitive),
    ).run()


@dataclass
class _Execution:
    session: SparkSession
    warehouse: str
    steps: tuple[Step, ...]
    emit: Emit
    execution: str
    recorded: frozenset[int]
    canceled: threading.Event | None
    prefix: str
    sensitive: frozenset[str] = frozenset()
    seen_done: set[int] = field(default_factory=set)
    checked: set[int] = field(default_factory=set)
    written: dict[int, int] = field(default_factory=dict)

    def run(self) -> bool:
        if not self._preflight():
            return False
        for ordinal, step in enumerate(self.steps):
            if self.canceled is not None and self.canceled.is_set():
                return False
            if ordinal not in self.recorded and not self._step(ordinal, step):
                return False
        return True

    def _table(self, step: Step) -> DeltaTable:
        return DeltaTable(self.session, self.warehouse, step.table.key)

    def _preflight(self) -> bool:
        """Determine the position of each table among its steps and check the data of pending steps, without writing."""
        by_table: dict[str, list[int]] = {}
        for ordinal, step in enumerate(self.steps):
            by_table.setdefault(step.table.key, []).append(ordinal)
        for ordinals in by_table.values():
            own = [self.steps[ordinal] for ordinal in ordinals]
            observed = self._table(own[0]).observe()
            try:
                place = steps_done(own, observed)
                self._must_show_recorded(ordinals, place, observed)
            except StepProblem as problem:
                first = next((ordinal for ordinal in ordinals if ordinal not in self.recorded), ordinals[0])
                return self._refuse(first, self.steps[first], Refusal(problem.code, problem.one_line()))
            self.seen_done.update(ordinals[:place])
        for ordinal, step in enumerate(self.steps):
            if asks(step) and not self._is_done(ordinal):
                refusal = self._check_early(ordinal, step)
                if refusal is not None:
                    return self._refuse(ordinal, step, refusal)
        return True

    def _must_show_recorded(self, ordinals: list[int], place: int, observed: ObservedTable | None) -> None:
        for ordinal in ordinals[place:]:
            step = self.steps[ordinal]
            if ordinal in self.recorded and step.leaves_trace:
                raise moved(step, observed)

    def _is_done(self, ordinal: int) -> bool:
        return ordinal in self.recorded or ordinal in self.seen_done

    def _check_early(self, ordinal: int, step: Step) -> Refusal | None:
        """Check the step's data if its columns already have their names; otherwise leave the check to the step."""
        table = self._table(step)
        observed = table.observe()
        names = {column.name for column in observed.columns} if observed else set()
        columns = {change.name for change in step.retyped} | ({step.column.name} if step.column else set())
        if not columns <= names:
            return None
        try:
            check(step, table)
        except Exception as failure:
            return _as_refusal(step, failure)
        self.checked.add(ordinal)
        return None

    def _refuse(self, ordinal: int, step: Step, refusal: Refusal) -> bool:
        """Report a step as failed before any statement ran."""
        self._report_start(ordinal, step, None)
        self._report_end(ordinal, step, refusal, None, 0.0)
        return False

    def _step(self, ordinal: int, step: Step) -> bool:
        started = time.monotonic()
        table = self._table(step)
        metadata = {"what": EXECUTION, "execution": self.execution, "step": ordinal}
        self.session.conf.set(USER_METADATA, commit_metadata(metadata))
        todo = statements(step, self.warehouse, self.prefix)
        refusal = None if self._is_done(ordinal) else self._enable_features(step, table, todo)
        before = None if self._is_done(ordinal) else table.version()
        self._report_start(ordinal, step, before)
        try:
            if refusal is None and not self._is_done(ordinal):
                self._change_table(ordinal, step, table, todo)
            if refusal is None:
                self._publish(step, table, todo)
        except Exception as failure:  # any exception of Spark is recorded with the step
            refusal = _as_refusal(step, failure)
        observed = self._table(step).observe()
        if refusal is None and not self._is_shown(ordinal, step, observed):
            refusal = Refusal("NOT_OBSERVED", f"{step.describe()} ran, but the table does not show it")
        self._report_end(ordinal, step, refusal, observed, time.monotonic() - started)
        return refusal is None

    def _is_shown(self, ordinal: int, step: Step, observed: ObservedTable | None) -> bool:
        return not step.leaves_trace or self._is_done(ordinal) or done_by(step, observed)

    def _enable_features(self, step: Step, table: DeltaTable, todo: Sequence[Statement]) -> Refusal | None:
        """Enable the table features that the step needs, before the version that an undo restores."""
        texts = [statement.sql for statement in todo if statement.part == FEATURES]
        shape = shape_of(table.observe()) if texts else None
        if shape is None or set(step.missing_features) <= set(shape.features):
            return None
        try:
            for sql in texts:
                self.session.sql(sql)
        except Exception as failure:  # any exception of Spark is recorded with the step, as for the change
            return _as_refusal(step, failure)
        return None

    def _change_table(self, ordinal: int, step: Step, table: DeltaTable, todo: Sequence[Statement]) -> None:
        """Run the missing statements: the change, unless the table shows it, then those of column keys."""
        if ordinal not in self.checked:
            check(step, table)
        if step.op == DROP_FEATURES:
            self.written[ordinal] = rewrite_without_features(step, table)
        elif not half_done_by(step, table.observe()):
            self._remove_dropped_keys(step, table)
            for statement in todo:
                if statement.part == CHANGE:
                    self._change(ordinal, step, table, statement)
        if any(statement.part == KEYS for statement in todo):
            self._store_column_keys(step, table, todo)

    def _change(self, ordinal: int, step: Step, table: DeltaTable, statement: Statement) -> None:
        if step.overwrites:
            self.written[ordinal] = rebuild(step, table)
        else:
            if step.op == CREATE_TABLE and table.exists():
                set_aside(table, self.warehouse)
            self.session.sql(statement.sql)

    def _remove_dropped_keys(self, step: Step, table: DeltaTable) -> None:
        """Remove the stored key of a dropped column if the step gives its physical name to another column."""
        physical_name = step.column.name if step.op in (ADD_COLUMN, RENAME_COLUMN) and step.column is not None else None
        names = [COLUMN + key for key in table.keys_without_column(physical_name)] if physical_name is not None else []
        if names:
            self.session.sql(unset_properties(table.sql_name, names))

    def _store_column_keys(self, step: Step, table: DeltaTable, todo: Sequence[Statement]) -> None:
        """Store the stable keys of columns with the physical names that Delta chose."""
        if step.untied:
            self.session.sql(next(statement.sql for statement in todo if "UNSET" in statement.sql))
        ties = ties_of(step)
        if ties:
            table = self._table(step)
            self.session.sql(tie_statement(table.sql_name, ties, table.physical_names()))

    def _publish(self, step: Step, table: DeltaTable, todo: Sequence[Statement]) -> None:
        if step.op == PUBLISH_VIEW:
            make_room(self.session, f"`{step.table.schema}`.`{step.table.name}`", table.location)
            publish(self.session, step.table, table.location)
        publish_step(self.session, step, todo, self.warehouse, self.prefix)

    def _report_start(self, ordinal: int, step: Step, before: int | None) -> None:
        text = statement_text(step, self.warehouse, self.prefix)
        version = before if before is not None and before >= 0 else None
        self.emit("step_started", ordinal=ordinal, statement=text, version_before=version)

    def _report_end(
        self, ordinal: int, step: Step, refusal: Refusal | None, observed: ObservedTable | None, seconds: float
    ) -> None:
        exists = observed is not None and not observed.dropped
        if refusal is not None and self.sensitive:
            shape = observed or self._table(step).observe()
            columns = shape.columns if shape is not None else ()
            refusal = without_values(
                refusal, [column.name.lower() for column in columns if column.key in self.sensitive]
            )
        self.emit(
            "step_finished",
            ordinal=ordinal,
            status="failed" if refusal else "succeeded",
            observed=asdict(observed) if observed is not None and exists else None,
            version_after=observed.version if observed else None,
            error=refusal.as_json() if refusal else None,
            seconds=round(seconds, 3),
            rows=self.written.get(ordinal),
        )


def _as_refusal(step: Step, failure: Exception) -> Refusal:
    if isinstance(failure, Refusal):
        return failure
    return accident(f"{step.describe()} failed", failure, code="STEP_FAILED")
