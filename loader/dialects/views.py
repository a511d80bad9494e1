"""Views in a dialect: stage and other views with described columns, and views over histories.

The queries of views over histories are those of ``architecture.domain.history_views``, without functions of Spark.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from architecture.domain.tables import OPEN, TableSpec, history_table, version_time_type
from loader.contract.manifest.loads import RawcoreLoad, StageInput
from loader.dialects.dialect import Dialect, conditions, indented, lines
from loader.dialects.inputs import RAW, Input
from loader.dialects.loads import refuse_unsupported
from loader.dialects.refusals import NotRendered
from loader.dialects.runs import RUN, TIME, AppliedRuns
from loader.dialects.stage import Stage
from metadata.domain import naming
from metadata.domain.history.history_columns import (
    CHANGE,
    CHANGED_AT,
    CHANGED_BY,
    EFFECTIVE_FROM,
    OPERATION,
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
    OPERATIONS,
    TOMBSTONE,
    HistoryPolicy,
)
from metadata.domain.state import DatasetState
from metadata.domain.types import TIMESTAMP

_HIGH_TIMESTAMP = "9999-12-31T23:59:59.999Z"
# End of a version after which its key has no version.
_GOES = "__ended"
# Number of a version of its key, newest first.
_PLACE = "__place"


class View(Protocol):
    """View by its qualified name, with the names of the tables that it reads."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    def query(self, dialect: Dialect) -> str: ...


@dataclass(frozen=True)
class DescribedView:
    """View with described columns over tables; of a raw table it has the newest delivery.

    A text that does not fit the type of its column is NULL.
    """

    name: str
    inputs: tuple[StageInput, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stage_input.table.qualified_name for stage_input in self.inputs))

    def query(self, dialect: Dialect) -> str:
        """Return the query, which unites the inputs."""
        inputs = (Input(dialect, self.name, stage_input) for stage_input in self.inputs)
        return "\nUNION ALL\n".join(each.query(_newest(dialect, each.table)) for each in inputs)


def _newest(dialect: Dialect, table: TableSpec) -> list[str]:
    """Return the condition for the newest delivery of a raw table; none for another table."""
    if table.kind != RAW:
        return []
    run_id, loaded_at = (dialect.identifier(table.column(purpose).name) for purpose in ("run_id", "loaded_at"))
    name = dialect.table(table.qualified_name)
    newest = f"n.{loaded_at} = (SELECT MAX(m.{loaded_at}) FROM {name} AS m)"
    return [f"r.{run_id} = (SELECT MAX(n.{run_id}) FROM {name} AS n WHERE {newest})"]


@dataclass(frozen=True)
class HistoryView:
    """View over the history of a dataset; ``kind`` is one of a history policy's views, or the periods."""

    dataset: DatasetState
    kind: str

    @property
    def name(self) -> str:
        return f"{self.dataset.schema}.{naming.view_name(self.dataset.name, self.kind)}"

    @property
    def reads(self) -> tuple[str, ...]:
        return (history_table(self.dataset).qualified_name,)

    def query(self, dialect: Dialect) -> str:
        """Return the query. Raise NotRendered for a function, and for histories that no rendered load writes."""
        policy = HistoryPolicy.from_dict(self.dataset.history_policy)
        if self.kind == AS_OF:
            raise NotRendered("a function of a time has no statement; read the view of periods", where=self.name)
        if ends_inclusive(policy) or version_time_type(self.dataset, policy) != TIMESTAMP:
            raise NotRendered("its versions are not dated by loads", where=self.name)
        versions = _Versions(dialect, policy, history_table(self.dataset))
        queries = {
            HIGH_END_DATE: versions.with_high_end,
            CURRENT: versions.current,
            naming.PERIODS: versions.periods,
            CHANGES: versions.changes,
        }
        return queries[self.kind]()


@dataclass(frozen=True)
class OperationsView:
    """View of the last operation of each key in a history; ``load`` is that of its dataset if it is rendered.

    The table of applied runs has the newest run, and raw the keys that it delivered.
    """

    name: str
    load: RawcoreLoad | None

    @property
    def reads(self) -> tuple[str, ...]:
        if self.load is None or self.load.history is None:
            return ()
        tables = [self.load.history, *(stage_input.table for stage_input in self.load.inputs)]
        return tuple(dict.fromkeys(table.qualified_name for table in tables))

    def query(self, dialect: Dialect) -> str:
        """Return the query. Raise NotRendered if the load of the dataset is not rendered."""
        if self.load is None or self.load.history is None:
            raise NotRendered("it reads what a rendered load writes, and its dataset has none", where=self.name)
        refuse_unsupported(self.load)
        policy = HistoryPolicy.from_dict(self.load.policy)
        return _Versions(dialect, policy, self.load.history).operations(self.load)


def views_of(dataset: DatasetState, load: RawcoreLoad | None = None) -> tuple[HistoryView | OperationsView, ...]:
    """Return the views that a dataset's history policy has; ``load`` is the dataset's if it is rendered."""
    views: list[HistoryView | OperationsView] = []
    for view in HistoryPolicy.from_dict(dataset.history_policy).views:
        if view == OPERATIONS:
            name = f"{dataset.schema}.{naming.view_name(dataset.name, view)}"
            views.append(OperationsView(name, load))
            continue
        views += [HistoryView(dataset, kind) for kind in ((naming.PERIODS, AS_OF) if view == AS_OF else (view,))]
    return tuple(views)


@dataclass(frozen=True)
class _Versions:
    """Queries of the versions in a history."""

    dialect: Dialect
    policy: HistoryPolicy
    table: TableSpec

    def with_high_end(self) -> str:
        """Return the query of every version, with a high end date in place of NULL."""
        end = self._own("ended_at")
        high = f"COALESCE({end}, {self.dialect.instant(_HIGH_TIMESTAMP)}) AS {end}"
        names = [self.dialect.identifier(column.name) for column in self.table.columns]
        return self._select([high if name == end else name for name in names])

    def current(self) -> str:
        """Return the query of the open live versions."""
        columns = [*self._described, self._own("started_at")]
        return self._select(columns, f"{self._own('segment')} = {self.dialect.text(OPEN)}")

    def periods(self) -> str:
        """Return the query of all live versions with half-open intervals; the end of an open one is NULL."""
        return self._intervals()

    def changes(self) -> str:
        """Return the query of changes: I where a key appears, U where a version follows, D where a key ends."""
        name = self.dialect.identifier
        change, by, at = (name(column) for column in (CHANGE, CHANGED_BY, CHANGED_AT))
        opened, closed = (f"v.{self._own(purpose)}" for purpose in ("run_id", "closed_by"))
        versions = self._ordered()
        described = [f"v.{column}" for column in self._described]
        start, goes = (f"v.{name(column)}" for column in (VALID_FROM, _GOES))
        starts = [f"v.{change}", f"{opened} AS {by}", f"{start} AS {at}", *described]
        ends = ["'D'", f"COALESCE({closed}, {opened})", goes, *described]
        return (
            f"SELECT\n  {lines(starts)}\nFROM (\n{indented(versions)}\n) AS v\nUNION ALL\n"
            f"SELECT\n  {lines(ends)}\nFROM (\n{indented(versions)}\n) AS v\n{conditions([f'{goes} IS NOT NULL'])}"
        )

    def operations(self, load: RawcoreLoad) -> str:
        """Return the query of the last operation of each key: I, U, D, N (delivered as it was) or X (not delivered)."""
        dialect, name = self.dialect, self.dialect.identifier
        runs = AppliedRuns(dialect, load.leading.key, "")
        keys = Stage(dialect, load, f"(\n{indented(runs.newest(RUN))}\n)").keys()
        key, at = self._own("entity_key"), f"n.{name(TIME)}"
        start, end = (f"v.{name(column)}" for column in (VALID_FROM, VALID_TO))
        missing = f"d.{key} IS NULL"
        operation = (
            f"CASE WHEN {end} IS NOT NULL THEN 'D' WHEN {start} = {at} THEN v.{name(CHANGE)} "
            f"WHEN {missing} THEN 'X' ELSE 'N' END"
        )
        date = f"CASE WHEN {end} IS NOT NULL THEN {end} WHEN {start} < {at} AND {missing} THEN {at} ELSE {start} END"
        shown = [f"v.{column}" for column in self._described]
        shown += [f"{operation} AS {name(OPERATION)}", f"{date} AS {name(EFFECTIVE_FROM)}"]
        return (
            f"SELECT\n  {lines(shown)}\nFROM (\n{indented(self._ordered())}\n) AS v\n"
            f"CROSS JOIN (\n{indented(runs.newest(TIME))}\n) AS n\n"
            f"LEFT JOIN (\n{indented(keys)}\n) AS d ON d.{key} = v.{key}\n"
            f"{conditions([f'v.{name(_PLACE)} = 1'])}"
        )

    def _ordered(self) -> str:
        """Return the query of live versions with the kind of their start, and their end if the key ends with them.

        ``_PLACE`` numbers the versions of a key.
        """
        name = self.dialect.identifier
        start, end = f"p.{name(VALID_FROM)}", f"p.{name(VALID_TO)}"
        over = f"OVER (PARTITION BY p.{self._own('entity_key')} ORDER BY {start})"
        before, until, after = f"LAG({start}) {over}", f"LAG({end}) {over}", f"LEAD({start}) {over}"
        follows = f"{before} IS NOT NULL AND ({until} IS NULL OR {until} >= {start})"
        goes = f"{end} IS NOT NULL AND ({after} IS NULL OR {after} > {end})"
        further = [self._own("run_id"), self._own("closed_by")]
        newest = f"ROW_NUMBER() OVER (PARTITION BY p.{self._own('entity_key')} ORDER BY {start} DESC)"
        columns = [f"p.{column}" for column in (*self._described, name(VALID_FROM), name(VALID_TO), *further)]
        columns += [
            f"CASE WHEN {follows} THEN 'U' ELSE 'I' END AS {name(CHANGE)}",
            f"CASE WHEN {goes} THEN {end} END AS {name(_GOES)}",
            f"{newest} AS {name(_PLACE)}",
        ]
        return f"SELECT\n  {lines(columns)}\nFROM (\n{indented(self._intervals(*further))}\n) AS p"

    def _intervals(self, *further: str) -> str:
        name = self.dialect.identifier
        start = f"{self._own('started_at')} AS {name(VALID_FROM)}"
        columns = [*self._described, start, f"{self._end()} AS {name(VALID_TO)}", *further]
        if self.policy.deletes != TOMBSTONE:
            return self._select(columns)
        return self._select(columns, f"{self._own('state')} <> {self.dialect.text(self.policy.label('deleted'))}")

    def _end(self) -> str:
        """Return the first time at which a version is no longer valid; NULL for an open one."""
        end, high = self._own("ended_at"), open_end(self.policy, TIMESTAMP)
        return end if high is None else f"CASE WHEN {end} < {self.dialect.instant(high)} THEN {end} END"

    @property
    def _described(self) -> list[str]:
        columns = self.table.of_purpose("entity_key", "business_key", "attribute", "foreign_key")
        return [self.dialect.identifier(column.name) for column in columns]

    def _own(self, purpose: str) -> str:
        return self.dialect.identifier(self.table.column(purpose).name)

    def _select(self, columns: Iterable[str], *where: str) -> str:
        source = f"SELECT\n  {lines(columns)}\nFROM {self.dialect.table(self.table.qualified_name)}"
        return f"{source}\n{conditions(where)}" if where else source
