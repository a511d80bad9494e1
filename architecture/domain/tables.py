"""Physical tables, and the SQL of views over histories.

Tables and columns are identified by stable keys; a table's key is also the name of its folder in the warehouse. The
stable key of a technical column is derived from the table's key and the column's purpose, so a rename of the table
does not change it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID, uuid5

from metadata.domain import naming
from metadata.domain.history.history_columns import (
    CHANGE,
    CHANGED_AT,
    CHANGED_BY,
    SEGMENT,
    VALID_FROM,
    VALID_TO,
    ends_inclusive,
    event_log_columns,
    layout_of,
    open_end,
    time_type,
    version_columns,
)
from metadata.domain.history.history_policy import (
    APPEND,
    AS_OF,
    CHANGES,
    CURRENT,
    HIGH_END_DATE,
    TOMBSTONE,
    HistoryPolicy,
)
from metadata.domain.sources import raw_keeping
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.sql import quote_text
from metadata.domain.state import BUSINESS_KEY, DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse, spark_type, stored_type

OPEN, CLOSED, DELETED = "open", "closed", "deleted"


@dataclass(frozen=True)
class ColumnSpec:
    """Column of a physical table. ``type`` is a metadata type (``decimal(10,2)``), not a Spark type.

    ``purpose`` is one of entity_key, history_key, business_key, attribute, foreign_key, row_hash, run_id,
    loaded_at; in raw tables also source_file, source_row and load_day, in histories and event logs the purposes in
    ``metadata.domain.history.history_columns``.

    ``hash_of`` are the parts of a hashed key: (name of a part in the hash, stable key of the column with its
    value). A foreign key is NULL if one of them is.
    """

    key: str
    name: str
    type: str
    purpose: str
    nullable: bool = True
    hash_of: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """Desired table. ``kind`` is raw, rawcore, model, history or event_log.

    ``owner`` is set for a history and its event log: the key of the base dataset.
    """

    key: str
    schema: str
    name: str
    kind: str
    columns: tuple[ColumnSpec, ...]
    partition_by: tuple[str, ...] = ()
    owner: str = ""

    @property
    def dataset_key(self) -> str:
        return self.owner or self.key

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    def column(self, purpose: str) -> ColumnSpec:
        """Return the column with this purpose. Raise LookupError if the table has none."""
        for column in self.columns:
            if column.purpose == purpose:
                return column
        raise LookupError(f"{self.qualified_name} has no {purpose} column")

    def of_purpose(self, *purposes: str) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose in purposes)

    def of_any_but(self, purpose: str) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose != purpose)


@dataclass(frozen=True)
class ObservedColumn:
    name: str
    type: str
    nullable: bool = True
    key: str | None = None


@dataclass(frozen=True)
class ObservedTable:
    """Table as recorded in its Delta log; ``version`` is the newest version of the log.

    A ``dropped`` table is no longer in the catalog, but its files remain. It counts as absent until it is published
    again or replaced.
    """

    key: str
    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    version: int
    partition_by: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)
    dropped: bool = False

    @cached_property
    def as_stored(self) -> tuple[ObservedColumn, ...]:
        """Return the columns as steps compare them: names, keys and stored types."""
        return tuple(ObservedColumn(column.name, stored(column.type), key=column.key) for column in self.columns)


@lru_cache(maxsize=4096)
def stored(type_: str) -> str:
    """Return a type as the warehouse stores it."""
    return str(stored_type(parse(type_)))


def kept_histories(strangers: Mapping[str, ObservedTable]) -> frozenset[str]:
    """Return the keys of histories and event logs without a base table. ``strangers`` are tables without a dataset."""
    names = {key: table.qualified_name.lower() for key, table in strangers.items()}
    bases = {name for name in names.values() if naming.base_name(name) == name}
    return frozenset(key for key, name in names.items() if naming.base_name(name) not in bases)


def technical_key(table_key: str, purpose: str) -> str:
    """Return the stable key of a technical column; it is the same in every installation."""
    return str(uuid5(UUID(table_key), purpose))


def _technical(table_key: str, purpose: str, name: str, type_: str, *, nullable: bool = True) -> ColumnSpec:
    return ColumnSpec(technical_key(table_key, purpose), name, type_, purpose, nullable)


def _entity_key(table_key: str, dataset: DatasetState) -> ColumnSpec:
    own = _technical(table_key, "entity_key", f"{dataset.name}_key", "string")
    return replace(own, hash_of=tuple((column.key, column.key) for column in dataset.business_key))


def _history_key(table_key: str, name: str) -> ColumnSpec:
    parts = (technical_key(table_key, purpose) for purpose in ("entity_key", "started_at"))
    own = _technical(table_key, "history_key", name, "string")
    return replace(own, hash_of=tuple((part, part) for part in parts))


def _load_columns(table_key: str) -> tuple[ColumnSpec, ...]:
    return (
        _technical(table_key, "run_id", "load_run_id", "string"),
        _technical(table_key, "loaded_at", "loaded_at", "timestamp"),
    )


def raw_table(dataset: DatasetState) -> TableSpec:
    """Return the raw table: columns as delivered, plus the load run and the provenance of each row."""
    key = dataset.key
    delivered = tuple(
        ColumnSpec(column.key, column.name, column.type, "attribute") for column in dataset.active_columns
    )
    source_file, source_row = naming.PROVENANCE_COLUMNS
    provenance = (
        _technical(key, "source_file", source_file, "string"),
        _technical(key, "source_row", source_row, "bigint"),
    )
    day = _technical(key, "load_day", naming.LOAD_DAY, "date")
    columns = (*delivered, *_load_columns(key), *provenance, day)
    by_day = raw_keeping.mode_of(dataset.load_policy) == raw_keeping.BY_DAY
    return TableSpec(key, dataset.schema, dataset.name, "raw", columns, partition_by=(day.name,) if by_day else ())


def _data_columns(dataset: DatasetState) -> tuple[ColumnSpec, ...]:
    described = tuple(
        ColumnSpec(column.key, column.name, column.type, purpose, True)
        for purpose, columns in (("business_key", dataset.business_key), ("attribute", dataset.attributes))
        for column in columns
    )
    foreign_keys = tuple(
        ColumnSpec(
            reference.key,
            reference.column_name,
            "string",
            "foreign_key",
            hash_of=tuple((parent, child) for child, parent in reference.pairs),
        )
        for reference in dataset.references
    )
    return described + foreign_keys


def rawcore_table(dataset: DatasetState) -> TableSpec:
    """Return the rawcore table: current rows, one per business key; or the rows of every run, with input append."""
    key = dataset.key
    has_key = bool(dataset.business_key) or HistoryPolicy.from_dict(dataset.history_policy).input != APPEND
    return TableSpec(
        key,
        dataset.schema,
        dataset.name,
        "rawcore",
        (
            *((_entity_key(key, dataset),) if has_key else ()),
            *_data_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *_load_columns(key),
        ),
    )


def model_table(dataset: DatasetState) -> TableSpec:
    """Return the table of a model without a history: the columns of its SELECT and no others."""
    columns = tuple(
        ColumnSpec(column.key, column.name, column.type, "business_key" if column.role == BUSINESS_KEY else "attribute")
        for column in dataset.active_columns
    )
    return TableSpec(dataset.key, dataset.schema, dataset.name, "model", columns)


def current_table(dataset: DatasetState) -> TableSpec:
    """Return the table with the current rows of a dataset, which has its name."""
    if dataset.layer == "raw":
        return raw_table(dataset)
    return model_table(dataset) if dataset.select and not dataset.historize else rawcore_table(dataset)


def history_table(dataset: DatasetState) -> TableSpec:
    """Return the history table of ``dataset``: versions of its rows. It is derived and has no metadata of its own."""
    if dataset.history_key is None:
        raise ValueError(f"{dataset.qualified_name} has no history dataset")
    key, policy = dataset.history_key, HistoryPolicy.from_dict(dataset.history_policy)
    own = version_columns(policy, version_time_type(dataset, policy))
    return TableSpec(
        key,
        dataset.schema,
        naming.history_name(dataset.name),
        "history",
        (
            _history_key(key, layout_of(policy).history_key.format(table=dataset.name)),
            _entity_key(key, dataset),
            *_data_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in own),
        ),
        partition_by=(SEGMENT,),
        owner=dataset.key,
    )


def version_time_type(dataset: DatasetState, policy: HistoryPolicy) -> str:
    return time_type(policy, {column.name: column.type for column in dataset.columns})


def event_log_table(dataset: DatasetState) -> TableSpec | None:
    """Return the event log of a dataset whose rows have a time of their own; None for others.

    Neither versions nor current rows record an event that changed nothing, or the delete of an unknown key. Both
    affect rows that arrive late (rule 11). The log is the same with and without a history.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if not policy.keeps_events(historize=dataset.historize):
        return None
    key = event_log_key(dataset)
    dated = version_time_type(dataset, policy)
    described = tuple(column for column in _data_columns(dataset) if column.purpose != "foreign_key")
    return TableSpec(
        key,
        dataset.schema,
        naming.event_log_name(dataset.name),
        "event_log",
        (
            _entity_key(key, dataset),
            *described,
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in event_log_columns(dated)),
            *_load_columns(key),
        ),
        owner=dataset.key,
    )


def event_log_key(dataset: DatasetState) -> str:
    """Return the stable key of a dataset's event log; it is the same in every installation."""
    history_key = dataset.history_key or str(naming.history_dataset_key(UUID(dataset.key)))
    return technical_key(history_key, "event_log")


def tables_of(dataset: DatasetState) -> tuple[TableSpec, ...]:
    """Return the physical tables of one dataset, in the order of creation."""
    if not dataset.active or dataset.materialization != "table":
        return ()
    current = current_table(dataset)
    if current.kind in ("raw", "model"):
        return (current,)
    event_log = event_log_table(dataset)
    history = [history_table(dataset)] if dataset.historize else []
    return (current, *history, *([event_log] if event_log else []))


# SQL of the objects published over a history table: views and one table function. They store no rows, and each
# statement replaces the former object. All are derived from the history's columns. The only user text in them are
# quoted names.


# High end dates in place of NULL: the last value of each type.
_HIGH_TIMESTAMP = "9999-12-31T23:59:59.999Z"
_HIGH_DATE = "9999-12-31"
_HIGH_NUMBERS = {BIGINT: 2**63 - 1, INTEGER: 2**31 - 1}


def history_views(dataset: DatasetState, *, by_partition: bool = True) -> tuple[str, ...]:
    """Return the statements that publish the views of a dataset's history policy, in order; none without a history.

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
    return tuple(statement() for view in policy.views for statement in statements[view])


def live_versions(dataset: DatasetState, called: str) -> str:
    """Return the query for the live versions of a history with half-open intervals; the end of an open one is NULL.

    ``called`` is the SQL for the history table. The interval's columns are ``VALID_FROM`` and ``VALID_TO``.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return _History(dataset, policy, history_table(dataset), called=called)._intervals()


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
