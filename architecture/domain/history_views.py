"""SQL of the objects published over a history table: views and one table function.

They hold no rows and can be made again at any time, so each statement replaces what stood there.
All of them follow from the history's own columns. Names are ``metadata.domain.naming``'s, quoted;
nothing that people wrote becomes SQL in any other way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from architecture.domain.history_layout import ends_inclusive, open_end
from architecture.domain.states.tables import OPEN, ColumnSpec, TableSpec, history_table, version_time_type
from metadata.domain import naming
from metadata.domain.history_columns import CHANGE, CHANGED_AT, CHANGED_BY, VALID_FROM, VALID_TO
from metadata.domain.history_policy import AS_OF, CHANGES, CURRENT, HIGH_END_DATE, TOMBSTONE, HistoryPolicy
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.sql import quote_text
from metadata.domain.state import DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse, spark_type

# Where a history has NULL and people want a date that is never over; the last of each type that is.
_HIGH_TIMESTAMP = "9999-12-31T23:59:59.999Z"
_HIGH_DATE = "9999-12-31"
_HIGH_NUMBERS = {BIGINT: 2**63 - 1, INTEGER: 2**31 - 1}


def history_views(dataset: DatasetState) -> tuple[str, ...]:
    """The statements that publish the views a dataset's policy asks for, in the order to run them.

    The history must have its name in the catalog by then; none for a dataset that has no history.
    """
    if not dataset.historize or dataset.history_key is None:
        return ()
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    history = _History(dataset, policy, history_table(dataset))
    statements = {
        HIGH_END_DATE: (history.high_end_date,),
        CURRENT: (history.current,),
        AS_OF: (history.periods, history.as_of),
        CHANGES: (history.changes,),
    }
    return tuple(statement() for view in policy.views for statement in statements[view])


@dataclass(frozen=True)
class _History:
    """One history table and what can be said of it in SQL."""

    dataset: DatasetState
    policy: HistoryPolicy
    table: TableSpec

    def high_end_date(self) -> str:
        """The table with a high end in place of NULL, for tools that join with BETWEEN."""
        end = self.table.column("ended_at")
        high = f"coalesce({quoted(end.name)}, {self._high_end()}) AS {quoted(end.name)}"
        columns = [high if column == end else quoted(column.name) for column in self.table.columns]
        return self._view(HIGH_END_DATE, "Every version, open ones with a high end date", columns, f"FROM {self._name}")

    def current(self) -> str:
        """Condition for current rows: open live versions, which have a partition of their own."""
        columns = [quoted(column.name) for column in (*self._described, self.table.column("started_at"))]
        is_open = f"{self._own('segment')} = {quote_text(OPEN)}"
        return self._view(CURRENT, "What holds now, and since when", columns, f"FROM {self._name} WHERE {is_open}")

    def periods(self) -> str:
        """Every version of a key that was there, with a half-open interval whatever the profile stores."""
        return self._view(
            naming.PERIODS,
            "What held when: from __valid_from on and before __valid_to, which is NULL while it holds",
            ["*"],
            f"FROM ({self._intervals()})",
        )

    def as_of(self) -> str:
        """A table function: the rows that held at one moment.

        The parameter is named with its function: a column of the data may be called ``at``, too.
        """
        name = naming.view_name(self.dataset.name, AS_OF)
        at = f"{quoted(name)}.at"
        columns = ", ".join(f"v.{quoted(name)}" for name in self._interval_names)
        start, end = f"v.{quoted(VALID_FROM)}", f"v.{quoted(VALID_TO)}"
        return (
            f"CREATE OR REPLACE FUNCTION {self._beside(name)}(at {spark_type(parse(self._time_type))})\n"
            "RETURNS TABLE\n"
            f"COMMENT {quote_text('The rows that held at this moment')}\n"
            f"RETURN SELECT {columns}\n"
            f"FROM ({self._intervals()}) v\n"
            f"WHERE {start} <= {at} AND ({end} IS NULL OR {end} > {at})"
        )

    def changes(self) -> str:
        """One row per change and run: I opens a key or brings it back, U follows without a gap, D ends it.

        What a run left as it was leaves no trace here; how many keys came unchanged (N) and how many did
        not come at all (X), the load run counts: ``unchanged`` and ``missing``.
        """
        start, end, change, when = map(quoted, (VALID_FROM, VALID_TO, CHANGE, CHANGED_AT))
        opened, closed = self._own("run_id"), self._own("closed_by")
        described = ", ".join(quoted(column.name) for column in self._described)
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
        """A column that grows wider does so in the view, too, before it is published again."""
        return (
            f"CREATE OR REPLACE VIEW {self._beside(naming.view_name(self.dataset.name, view))}\n"
            f"COMMENT {quote_text(comment)}\n"
            "WITH SCHEMA TYPE EVOLUTION\n"
            f"AS SELECT {', '.join(columns)}\n{source}"
        )

    def _intervals(self, *further: str) -> str:
        """Versions of keys that were there, each with its interval, half-open and NULL while it holds."""
        columns = [quoted(column.name) for column in self._described]
        columns += [f"{self._own('started_at')} AS {quoted(VALID_FROM)}", f"{self._end()} AS {quoted(VALID_TO)}"]
        return f"SELECT {', '.join([*columns, *further])} FROM {self._name}{self._where_alive()}"

    def _end(self) -> str:
        """The first moment that a version does not hold any more."""
        end, still = self._own("ended_at"), open_end(self.policy, self._time_type)
        if still is None:
            return end
        open_ = f"{end} IS NULL OR {end} >= {_literal(still, self._time_type)}"
        after = f"{end} + INTERVAL 1 MILLISECOND" if ends_inclusive(self.policy) else end
        return f"CASE WHEN {open_} THEN NULL ELSE {after} END"

    def _high_end(self) -> str:
        if self._time_type in _HIGH_NUMBERS:
            return f"CAST({_HIGH_NUMBERS[self._time_type]} AS {spark_type(parse(self._time_type))})"
        return _literal(_HIGH_DATE if self._time_type == DATE else _HIGH_TIMESTAMP, self._time_type)

    def _own(self, purpose: str) -> str:
        return quoted(self.table.column(purpose).name)

    def _beside(self, name: str) -> str:
        return f"{quoted(self.dataset.schema)}.{quoted(name)}"

    @property
    def _name(self) -> str:
        return self._beside(self.table.name)

    @property
    def _time_type(self) -> str:
        return version_time_type(self.dataset, self.policy)

    @property
    def _described(self) -> tuple[ColumnSpec, ...]:
        """Return the described columns, without hashes, run ids and load times."""
        return self.table.of_purpose("entity_key", "business_key", "attribute", "foreign_key")

    @property
    def _interval_names(self) -> tuple[str, ...]:
        return (*(column.name for column in self._described), VALID_FROM, VALID_TO)

    def _where_alive(self) -> str:
        """A tombstone says that its key is gone (rule 15); it is no row that held."""
        if self.policy.deletes != TOMBSTONE:
            return ""
        return f" WHERE {self._own('state')} <> {quote_text(self.policy.label('deleted'))}"


def _literal(text: str, type_: str) -> str:
    """A moment as a literal that means the same in every session; without a zone it is UTC (rule 5)."""
    if type_ == DATE:
        return f"DATE {quote_text(date.fromisoformat(text).isoformat())}"
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"TIMESTAMP {quote_text(moment.isoformat())}"
