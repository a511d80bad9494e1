"""SQL of the objects published over a history table: views and one table function.

They store no rows, and each statement replaces the former object. All are derived from the history's columns. The only
user text in them are quoted names.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from architecture.domain.tables import OPEN, ColumnSpec, TableSpec, history_table, version_time_type
from metadata.domain import naming
from metadata.domain.history.history_columns import (
    CHANGE,
    CHANGED_AT,
    CHANGED_BY,
    VALID_FROM,
    VALID_TO,
    ends_inclusive,
    open_end,
)
from metadata.domain.history.history_policy import (
    AS_OF,
    CHANGES,
    CURRENT,
    HIGH_END_DATE,
    TOMBSTONE,
    HistoryPolicy,
)
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.sql import quote_text
from metadata.domain.state import DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse, spark_type

# High end dates in place of NULL: the last value of each type.
_HIGH_TIMESTAMP = "9999-12-31T23:59:59.999Z"
_HIGH_DATE = "9999-12-31"
_HIGH_NUMBERS = {BIGINT: 2**63 - 1, INTEGER: 2**31 - 1}


def history_views(dataset: DatasetState, *, by_partition: bool = True) -> tuple[str, ...]:
    """Return the statements that publish the views of a dataset's history policy, in order; none without a history.

    The view of operations reads raw tables, too (``architecture.domain.history_operations``).

    The history must be in the catalog under its name. Without ``by_partition``, no view reads the partition column,
    for engines that cannot read it.
    """
    if not dataset.historize or dataset.history_key is None:
        return ()
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    history = _History(dataset, policy, history_table(dataset), by_partition)
    statements = {
        HIGH_END_DATE: (history.high_end_date,),
        CURRENT: (history.current,),
        AS_OF: (history.periods, history.as_of),
        CHANGES: (history.changes,),
    }
    return tuple(statement() for view in policy.views for statement in statements.get(view, ()))


def live_versions(dataset: DatasetState, called: str, *further: str) -> str:
    """Return the query for the live versions of a history with half-open intervals; the end of an open one is NULL.

    ``called`` is the SQL for the history table, ``further`` are quoted columns of it. The interval's columns are
    ``VALID_FROM`` and ``VALID_TO``.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return _History(dataset, policy, history_table(dataset), called=called)._intervals(*further)


@dataclass(frozen=True)
class _History:
    """History table and SQL expressions over it."""

    dataset: DatasetState
    policy: HistoryPolicy
    table: TableSpec
    by_partition: bool = True
    called: str = ""

    def high_end_date(self) -> str:
        """Return the view with a high end date in place of NULL, for tools that join with BETWEEN."""
        end = self.table.column("ended_at")
        high = f"coalesce({quoted(end.name)}, {self._high_end()}) AS {quoted(end.name)}"
        selected = self.table.columns if self.by_partition else self.table.of_any_but("segment")
        columns = [high if column == end else quoted(column.name) for column in selected]
        return self._view(HIGH_END_DATE, "Every version, open ones with a high end date", columns, f"FROM {self._name}")

    def current(self) -> str:
        """Return the view of current rows: open live versions, which have a partition of their own."""
        columns = [quoted(column.name) for column in (*self._data_columns, self.table.column("started_at"))]
        if self.by_partition:
            where = f" WHERE {self._column_name('segment')} = {quote_text(OPEN)}"
        else:
            alive = self._where_live()
            where = f"{f'{alive} AND' if alive else ' WHERE'} ({self._end()}) IS NULL"
        return self._view(CURRENT, "What holds now, and since when", columns, f"FROM {self._name}{where}")

    def periods(self) -> str:
        """Return the view of all live versions with half-open intervals, independent of the history's profile."""
        return self._view(
            naming.PERIODS,
            "What held when: from __valid_from on and before __valid_to, which is NULL while it holds",
            ["*"],
            f"FROM ({self._intervals()})",
        )

    def as_of(self) -> str:
        """Return the table function of the rows valid at one time.

        The parameter is qualified with the function's name, because a column may be called ``at``, too.
        """
        name = naming.view_name(self.dataset.name, AS_OF)
        at = f"{quoted(name)}.at"
        columns = ", ".join(f"v.{quoted(name)}" for name in self._interval_names)
        start, end = f"v.{quoted(VALID_FROM)}", f"v.{quoted(VALID_TO)}"
        return (
            f"CREATE OR REPLACE FUNCTION {self._qualified(name)}(at {spark_type(parse(self._time_type))})\n"
            "RETURNS TABLE\n"
            f"COMMENT {quote_text('The rows that held at this moment')}\n"
            f"RETURN SELECT {columns}\n"
            f"FROM ({self._intervals()}) v\n"
            f"WHERE {start} <= {at} AND ({end} IS NULL OR {end} > {at})"
        )

    def changes(self) -> str:
        """Return the view of changes: one row per change and run.

        I: a key appears or reappears. U: a version follows without a gap. D: a key ends. Unchanged rows are not in
        the history; the load run counts unchanged (N) and missing (X) keys as ``unchanged`` and ``missing``.
        """
        start, end, change, when = map(quoted, (VALID_FROM, VALID_TO, CHANGE, CHANGED_AT))
        opened, closed = self._column_name("run_id"), self._column_name("closed_by")
        described = ", ".join(quoted(column.name) for column in self._data_columns)
        over = f"OVER (PARTITION BY {quoted(self.table.column('entity_key').name)} ORDER BY {start})"
        follows = f"lag({start}) {over} IS NOT NULL AND coalesce(lag({end}) {over} >= {start}, true)"
        goes = f"{end} IS NOT NULL AND coalesce(lead({start}) {over} > {end}, true)"
        return self._view(
            CHANGES,
            "Inserts, updates and deletes by run; the time is the moment from which the change holds",
            ["*"],
            "FROM (\n"
            "WITH versions AS (\n"
            f"SELECT *, CASE WHEN {follows} THEN 'U' ELSE 'I' END AS {change}, "
            f"CASE WHEN {goes} THEN {end} END AS {when}\n"
            f"FROM ({self._intervals(opened, closed)})\n"
            ")\n"
            f"SELECT {change}, {opened} AS {quoted(CHANGED_BY)}, {start} AS {when}, {described} FROM versions\n"
            "UNION ALL\n"
            f"SELECT 'D', coalesce({closed}, {opened}), {when}, {described} FROM versions WHERE {when} IS NOT NULL\n"
            ")",
        )

    def _view(self, view: str, comment: str, columns: Iterable[str], source: str) -> str:
        """Return a view. Type evolution widens its columns with the table's, before the view is published again."""
        return (
            f"CREATE OR REPLACE VIEW {self._qualified(naming.view_name(self.dataset.name, view))}\n"
            f"COMMENT {quote_text(comment)}\n"
            "WITH SCHEMA TYPE EVOLUTION\n"
            f"AS SELECT {', '.join(columns)}\n{source}"
        )

    def _intervals(self, *further: str) -> str:
        """Return the query for live versions with half-open intervals; the end of an open version is NULL."""
        columns = [quoted(column.name) for column in self._data_columns]
        columns += [
            f"{self._column_name('started_at')} AS {quoted(VALID_FROM)}",
            f"{self._end()} AS {quoted(VALID_TO)}",
        ]
        return f"SELECT {', '.join([*columns, *further])} FROM {self._name}{self._where_live()}"

    def _end(self) -> str:
        """Return the expression for the first time at which a version is no longer valid."""
        end, high = self._column_name("ended_at"), open_end(self.policy, self._time_type)
        if high is None:
            return end
        open_ = f"{end} IS NULL OR {end} >= {_literal(high, self._time_type)}"
        after = f"{end} + INTERVAL 1 MILLISECOND" if ends_inclusive(self.policy) else end
        return f"CASE WHEN {open_} THEN NULL ELSE {after} END"

    def _high_end(self) -> str:
        if self._time_type in _HIGH_NUMBERS:
            return f"CAST({_HIGH_NUMBERS[self._time_type]} AS {spark_type(parse(self._time_type))})"
        return _literal(_HIGH_DATE if self._time_type == DATE else _HIGH_TIMESTAMP, self._time_type)

    def _column_name(self, purpose: str) -> str:
        return quoted(self.table.column(purpose).name)

    def _qualified(self, name: str) -> str:
        return f"{quoted(self.dataset.schema)}.{quoted(name)}"

    @property
    def _name(self) -> str:
        return self.called or self._qualified(self.table.name)

    @property
    def _time_type(self) -> str:
        return version_time_type(self.dataset, self.policy)

    @property
    def _data_columns(self) -> tuple[ColumnSpec, ...]:
        """Return the columns without hashes of rows, run ids and load times."""
        return self.table.of_purpose("entity_key", "business_key", "attribute", "foreign_key")

    @property
    def _interval_names(self) -> tuple[str, ...]:
        return (*(column.name for column in self._data_columns), VALID_FROM, VALID_TO)

    def _where_live(self) -> str:
        """Return the condition for live versions, which excludes tombstones: marks of deleted keys (rule 15)."""
        if self.policy.deletes != TOMBSTONE:
            return ""
        return f" WHERE {self._column_name('state')} <> {quote_text(self.policy.label('deleted'))}"


def _literal(text: str, type_: str) -> str:
    """Return a time as a literal that does not depend on the session. Text without a zone is UTC (rule 5)."""
    if type_ == DATE:
        return f"DATE {quote_text(date.fromisoformat(text).isoformat())}"
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"TIMESTAMP {quote_text(moment.isoformat())}"
