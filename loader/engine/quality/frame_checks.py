"""Quality checks of a frame: one aggregate pass for all checks, and a query of its own only where another table counts.

Rows that repeat a key or lack a partner need a shuffle or a join; a SELECT is a query by itself.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.errors import MetadataError, ProductError
from loader.contract.check_outcomes import BROKEN, PASSED, Result
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.loads import LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from loader.domain.quality.checks import FAILED, INCOMPUTABLE, TOTAL, CompiledCheck, aggregate, compile_check
from loader.domain.quality.evaluation import evaluate
from loader.engine.compared_texts import compared, types_by_name
from loader.engine.expressions import all_of
from loader.engine.java_errors import JAVA_ERRORS, error_condition, lost_executor, thrown_by
from loader.engine.plan_checks import checked_frame
from loader.engine.pyspark_types import jvm_of, row_of
from loader.engine.quality import row_conditions
from loader.engine.samples import sample_rows
from loader.engine.tables.tables import DeltaTable
from metadata.domain.quality import check_kinds
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import DataType, TypeProblem, from_spark

log = logging.getLogger(__name__)

# Number of failed checks whose failing rows are sampled, each by a query.
MOST_SAMPLED = 10


@dataclass
class CheckedRows:
    """Rows with the results of their checks; ``compiled`` are the checks that could be compiled, by key."""

    frame: DataFrame
    results: list[Result] = field(default_factory=list)
    compiled: dict[str, CompiledCheck] = field(default_factory=dict)

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.outcome not in (PASSED, BROKEN)]


@dataclass(frozen=True)
class RowChecker:
    """Checks of one dataset's rows, which are frames of ``session``.

    ``at`` is the time that ages are measured from, ``key`` the columns that name a row in samples, and ``own`` the
    stable key of the dataset's table. ``fill`` are the values of placeholders as SQL, ``types`` those of columns that
    are compared by value.
    """

    session: SparkSession
    warehouse: str
    at: datetime
    key: Sequence[str] = ()
    own: str = ""
    fill: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    def check(self, frame: DataFrame, specs: Sequence[CheckSpec], table: DataFrame | None = None) -> CheckedRows:
        """Run the checks. A check that cannot run has a result with the reason. Raise errors of lost executors.

        A row for which the condition of a check cannot be computed fails the check.
        ``table`` are all rows of the table after the load if ``frame`` is a part of them; checks that concern the table
        read these.
        """

        def rows_of(check: CompiledCheck) -> DataFrame:
            return table if table is not None and check.rule.concerns_table else frame

        types, checked = types_of_frame(frame), CheckedRows(frame)
        results: dict[str, Result] = {}
        for spec in specs:
            try:
                checked.compiled[spec.key] = self._compiled(spec, types)
            except ProductError as problem:
                results[spec.key] = spec.broken(problem.one_line())
        for rows in (frame,) if table is None else (frame, table):
            own = {key: check for key, check in checked.compiled.items() if rows_of(check) is rows}
            numbers, broken = self._numbers(rows, own) if own else ({}, {})
            checked.compiled |= own
            for key, check in own.items():
                results[key] = broken.get(key) or self._evaluated(check, rows, numbers[key])
        checked.results = [results[spec.key] for spec in specs]
        sampled = {result.key for result in checked.failed[:MOST_SAMPLED]}
        checked.results = [
            self._with_samples(result, checked.compiled[result.key], rows_of(checked.compiled[result.key]))
            if result.key in sampled
            else result
            for result in checked.results
        ]
        return checked

    def failing_rows(self, frame: DataFrame, spec: CheckSpec) -> DataFrame:
        """Return the rows that fail a check of a kind that finds rows. Raise Refusal CHECK_BROKEN if it cannot run."""
        try:
            checks = {spec.key: self._compiled(spec, types_of_frame(frame))}
            _, broken = self._numbers(frame, checks)
            if spec.key not in broken:
                return self.rows_failing(frame, checks[spec.key])
        except ProductError as problem:
            broken = {spec.key: spec.broken(problem.one_line())}
        raise Refusal("CHECK_BROKEN", f"check {spec.name} {broken[spec.key].message}", hint="Correct the check.")

    def rows_failing(self, frame: DataFrame, check: CompiledCheck) -> DataFrame:
        """Return the rows that fail a check which was run on them, of a kind that finds rows."""
        alone = frame.where(row_conditions.fails(self.session, check))
        if check.rule.kind == check_kinds.UNIQUE:
            rows = self._with_repeated_keys(check, frame)
        elif check.rule.kind == check_kinds.RELATIONSHIP:
            rows = self.without_partner(check, frame)
        else:
            return alone
        return rows.union(alone) if check.error else rows

    def _with_repeated_keys(self, check: CompiledCheck, frame: DataFrame) -> DataFrame:
        """Return the rows with values that several rows have, ordered by these."""
        names = check.rule.columns
        repeated = self.repeated_keys(check, frame)
        keys = repeated.toDF(*(f"__repeated_{place}" for place in range(len(repeated.columns))))
        rows = frame.where(row_conditions.is_true(self.session, check))
        equal = (self.compared_value(name) == F.col(f"__repeated_{place}") for place, name in enumerate(names))
        return rows.join(keys, all_of(equal), "left_semi").orderBy(*map(quote_identifier, names))

    def _compiled(self, spec: CheckSpec, types: Mapping[str, DataType]) -> CompiledCheck:
        if spec.problem:
            raise MetadataError("bad_check", spec.problem)
        if spec.kind == check_kinds.PATTERN:
            try:
                jvm_of(self.session).java.util.regex.Pattern.compile(spec.rule.pattern)
            except JAVA_ERRORS as error:
                reason = str(error).strip().splitlines()[0]
                raise MetadataError("bad_check", f"the pattern is invalid: {reason}") from None
        return compile_check(spec, types, self.fill)

    # --- the one pass ----------------------------------------------------------------------------

    def _numbers(
        self, frame: DataFrame, checks: dict[str, CompiledCheck]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Result]]:
        """Return the numbers of all checks, by key, and results of checks that failed to run.

        If the pass fails, each check is run by itself, so that one wrong condition does not hide the others, and one
        that fails by itself row by row; it is then replaced in ``checks``. Raise the error of a lost executor, after
        which the dataset is loaded again.
        """
        try:
            return _aggregated(frame, checks), {}
        except JAVA_ERRORS as failure:
            if lost_executor(failure):
                raise
            if len(checks) < 2:
                return self._numbers_by_row(frame, checks, _reason(failure))
            log.warning("the checks are run one by one, because together they failed: %s", _reason(failure))
        numbers: dict[str, dict[str, Any]] = {}
        broken: dict[str, Result] = {}
        for key, check in list(checks.items()):
            single = {key: check}
            own_numbers, own_broken = self._numbers(frame, single)
            numbers |= own_numbers
            broken |= own_broken
            checks |= single
        return numbers, broken

    def _numbers_by_row(
        self, frame: DataFrame, checks: dict[str, CompiledCheck], error: str
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Result]]:
        """Return the numbers of one check whose condition fails for a row, or its result if it cannot run at all."""
        ((key, check),) = checks.items()
        if not check.condition:
            return {}, {key: check.spec.broken(error)}
        check = replace(check, error=error)
        incomputable = row_conditions.is_incomputable(self.session, check)
        columns = {FAILED: row_conditions.fails(self.session, check), INCOMPUTABLE: incomputable}
        if check.compared:
            columns[TOTAL] = row_conditions.is_true(self.session, check) | incomputable
        elif not check.rule.where:
            columns[TOTAL] = F.lit(True)
        try:
            row = row_of(frame.agg(*(F.count_if(column).alias(name) for name, column in columns.items())).first())
        except JAVA_ERRORS as failure:
            if lost_executor(failure):
                raise
            return {}, {key: check.spec.broken(_reason(failure))}
        checks[key] = check
        return {key: row.asDict()}, {}

    def _evaluated(self, check: CompiledCheck, frame: DataFrame, numbers: Mapping[str, Any]) -> Result:
        separate: Mapping[str, Callable[[], int]] = {
            check_kinds.UNIQUE: lambda: self._repeated(check, frame) + numbers.get(FAILED, 0),
            check_kinds.RELATIONSHIP: lambda: self.without_partner(check, frame).count() + numbers.get(FAILED, 0),
            check_kinds.QUERY: lambda: self._rows_of_query(check, frame),
        }
        try:
            if check.rule.kind in separate:
                return evaluate(check, {**numbers, FAILED: separate[check.rule.kind]()}, at=self.at)
            other = self._other_total(check) if check.rule.kind == check_kinds.TOTAL else None
            return evaluate(check, numbers, at=self.at, other=other)
        except ProductError as problem:
            return check.spec.broken(problem.one_line())
        except JAVA_ERRORS as failure:
            if lost_executor(failure):
                raise
            return check.spec.broken(_reason(failure))

    # --- checks over more than a row ---------------------------------------------------------------

    def repeated_keys(self, check: CompiledCheck, frame: DataFrame) -> DataFrame:
        """Return the values that several rows have; the last column is their number of rows."""
        rows = frame.where(row_conditions.is_true(self.session, check))
        values = [self.compared_value(name).alias(name) for name in check.rule.columns]
        number = unused_name(frame.columns, "rows")
        return rows.groupBy(*values).agg(F.count(F.lit(1)).alias(number)).where(F.col(number) > 1)

    def compared_value(self, name: str, type_name: str | None = None) -> Column:
        """Return the values of a column as they are compared, by default as its own type."""
        return compared(F.col(quote_identifier(name)), type_name or self.types.get(name, ""))

    def _repeated(self, check: CompiledCheck, frame: DataFrame) -> int:
        repeated = self.repeated_keys(check, frame)
        return row_of(repeated.agg(F.coalesce(F.sum(repeated.columns[-1]), F.lit(0))).first())[0]

    def without_partner(self, check: CompiledCheck, frame: DataFrame) -> DataFrame:
        """Return the rows whose values the other dataset does not have. Raise Refusal for a missing table."""
        rule = check.rule
        described = types_by_name(check.spec.other)
        pairs = list(zip(rule.columns, rule.other_columns, strict=True))
        types = [described.get(other) or self.types.get(own, "") for own, other in pairs]
        others = self._other_frame(check).select(
            *(
                self.compared_value(name, type_name).alias(f"__other_{i}")
                for i, (name, type_name) in enumerate(zip(rule.other_columns, types, strict=True))
            )
        )
        if check.spec.other is not None and check.spec.other.key == self.own:
            # Rows of one batch may refer to each other.
            own = frame.select(*map(self.compared_value, rule.other_columns))
            others = others.union(own)
        rows = frame.where(row_conditions.is_true(self.session, check))
        own_values = map(self.compared_value, rule.columns, types)
        equal = (value == F.col(f"__other_{i}") for i, value in enumerate(own_values))
        return rows.join(others, all_of(equal), "left_anti")

    def _other_frame(self, check: CompiledCheck) -> DataFrame:
        spec = check.spec.other
        assert spec is not None
        return self._table(spec.key, spec.qualified_name)

    def _table(self, key: str, name: str) -> DataFrame:
        table = DeltaTable(self.session, self.warehouse, key)
        if not table.exists():
            raise MetadataError("no_table", f"{name} does not exist in the warehouse")
        return table.frame()

    def _other_total(self, check: CompiledCheck) -> str | None:
        total = aggregate(check.rule.aggregate, quote_identifier(check.rule.other_columns[0]))
        return row_of(self._other_frame(check).selectExpr(f"{total} AS total").first())[0]

    def _rows_of_query(self, check: CompiledCheck, frame: DataFrame) -> int:
        spec = check.spec
        created = []
        try:
            for view, table in spec.views:
                rows = frame if view == spec.own_view else self._table(table.key, table.qualified_name)
                rows.createOrReplaceTempView(view)
                created.append(view)
            return checked_frame(self.session, spec.query).count()
        finally:
            for view in created:
                self.session.catalog.dropTempView(view)

    # --- samples ------------------------------------------------------------------------------------

    def _with_samples(self, result: Result, check: CompiledCheck, frame: DataFrame) -> Result:
        """Return the result with keys of some failing rows."""
        kind, names = check.rule.kind, list(self.key)
        samples: tuple[str, ...] = ()
        if kind == check_kinds.UNIQUE:
            samples = sample_rows(self.repeated_keys(check, frame), check.rule.columns)
        if kind == check_kinds.RELATIONSHIP:
            samples = sample_rows(self.without_partner(check, frame), check.rule.columns)
        named = [*names, *(name for name in check.rule.columns if name not in names)]
        if not samples and named and (check.fails or check.error):
            samples = sample_rows(frame.where(row_conditions.fails(self.session, check)), named)
        return replace(result, samples=samples)


def _reason(failure: Exception) -> str:
    """Return why Spark failed, without its message, which can quote values of sensitive columns."""
    return error_condition(failure) or thrown_by(failure)[-1].name.rpartition(".")[2]


def _aggregated(frame: DataFrame, checks: Mapping[str, CompiledCheck]) -> dict[str, dict[str, Any]]:
    """Return the numbers of all checks by one aggregation; equal aggregates are computed once."""
    wanted = [(key, name, sql) for key, check in checks.items() for name, sql in check.numbers.items()]
    if not wanted:
        return {key: {} for key in checks}
    places = {sql: place for place, sql in enumerate(dict.fromkeys(sql for _, _, sql in wanted))}
    row = row_of(frame.agg(*(F.expr(sql).alias(f"n{place}") for sql, place in places.items())).first())
    numbers: dict[str, dict[str, Any]] = {key: {} for key in checks}
    for key, name, sql in wanted:
        numbers[key][name] = row[places[sql]]
    return numbers


def unused_name(names: Iterable[str], wanted: str) -> str:
    """Return a name that no column has in any spelling: ``wanted``, with underscores if it is taken."""
    taken = {name.lower() for name in names}
    while wanted.lower() in taken:
        wanted += "_"
    return wanted


def types_of_frame(frame: DataFrame) -> dict[str, DataType]:
    """Return the types of a frame's columns by name; columns of nested types are left out."""
    types = {}
    for column in frame.schema.fields:
        try:
            types[column.name] = from_spark(column.dataType.simpleString())
        except TypeProblem:
            continue
    return types


def check_of_run(
    session: SparkSession, warehouse: str, load: RawLoad | RawcoreLoad | ModelLoad, manifest: LoadManifest
) -> RowChecker:
    """Return the checks' context for the rows of a load."""
    purposes = () if isinstance(load, RawLoad) else ("business_key",)
    return RowChecker(
        session,
        warehouse,
        at=parse_instant(manifest.load_timestamp),
        key=tuple(column.name for column in load.table.of_purpose(*purposes)) if purposes else (),
        own=load.table.key,
        fill=placeholder_values(manifest.run_id, manifest.load_timestamp),
        types=types_by_name(load.table),
    )


def placeholder_values(run_id: str, load_timestamp: str) -> dict[str, str]:
    """Return the values of placeholders in expressions as SQL."""
    return {"load_run_id": quote_text(run_id), "load_timestamp": f"TIMESTAMP {quote_text(load_timestamp)}"}
