"""Statements that close and open versions, and bring rawcore to the open live ones, without MERGE.

After the statements that close versions, a key has an open version exactly if its row did not change. So one INSERT
opens versions of new, changed and returning keys alike: a key that was deleted has no open version either.
"""

from collections.abc import Iterator, Mapping

from architecture.domain.tables import CLOSED, DELETED, OPEN, TableSpec
from loader.dialects.dialect import indented, lines
from loader.dialects.hashing import digest
from loader.dialects.runs import AppliedRuns
from loader.dialects.stage import Stage
from loader.domain.historization.history import CHANGED, NEW
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import TOMBSTONE
from metadata.domain.types import parse

LIVE = "live"


def history(stage: Stage, applied: AppliedRuns) -> Iterator[str]:
    """Yield the statements of the history."""
    versions = Versions(stage, applied)
    yield versions.refresh()
    yield versions.close_changed()
    if stage.policy.closes_absent:
        yield versions.close_absent()
    if versions.tombstones:
        yield versions.close_tombstones()
    if stage.in_place:
        yield versions.update_in_place()
    yield versions.open_versions()
    if versions.tombstones and stage.policy.closes_absent:
        yield versions.open_tombstones()


class Versions:
    """SQL of the versions of one history."""

    def __init__(self, stage: Stage, applied: AppliedRuns) -> None:
        assert stage.load.history is not None
        self.stage, self.applied, self.dialect = stage, applied, stage.dialect
        self.spec, self.policy = stage.load.history, stage.policy
        self.tombstones = self.policy.deletes == TOMBSTONE
        self.names = {c.purpose: self.dialect.identifier(c.name) for c in self.spec.columns}
        self.key, self.row_hash = self.names["entity_key"], self.names["row_hash"]
        self.table = self.dialect.table(self.spec.qualified_name)

    def refresh(self) -> str:
        """Return the statement that computes hashes anew that cover other columns (rule 16)."""
        is_stored = f"{self.names['segment']} = '{OPEN}'"
        if self.tombstones:
            is_stored = f"({is_stored} OR {self._is_tombstone()})"
        computed = self.stage.hash_of(self.stage.load.row_hash, "")
        return self.dialect.update(
            self.table,
            {self.row_hash: computed},
            [is_stored, self.applied.covers_other_columns, self.applied.is_new],
        )

    def close_changed(self) -> str:
        """Return the statement that ends open versions whose row hash differs."""
        changed = (
            f"SELECT v.{self.names['history_key']}\n  FROM {self.table} AS v\n  INNER JOIN (\n"
            f"{indented(indented(self.stage.rows()))}\n  ) AS s ON s.{self.key} = v.{self.key}\n"
            f"  WHERE v.{self.names['segment']} = '{OPEN}' AND v.{self.row_hash} <> s.{self.row_hash}"
        )
        state = LIVE if self.tombstones else CHANGED
        where = [f"{self.names['history_key']} IN (\n  {changed}\n)", self.applied.is_new]
        return self.dialect.update(self.table, self.closing(state, CLOSED), where)

    def close_absent(self) -> str:
        """Return the statement that ends open versions of keys that the snapshot lacks."""
        absent = f"{self.key} NOT IN (\n{indented(self.stage.keys())}\n)"
        state, segment = (LIVE, CLOSED) if self.tombstones else (DELETED, DELETED)
        where = [f"{self.names['segment']} = '{OPEN}'", absent, self.applied.is_new]
        return self.dialect.update(self.table, self.closing(state, segment), where)

    def close_tombstones(self) -> str:
        """Return the statement that ends the tombstones of keys that return."""
        delivered = f"{self.key} IN (\n{indented(self.stage.keys())}\n)"
        where = [self._is_tombstone(), delivered, self.applied.is_new]
        return self.dialect.update(self.table, self.closing(DELETED, CLOSED), where)

    def _is_tombstone(self, alias: str = "") -> str:
        segment, closed_by = (f"{alias}{self.names[purpose]}" for purpose in ("segment", "closed_by"))
        return f"({segment} = '{DELETED}' AND {closed_by} IS NULL)"

    def update_in_place(self) -> str:
        """Return the statement that updates untracked columns of the versions in force (rule 13)."""
        return _update_in_place(self.stage, self.spec, {}, f"h.{self.names['segment']} = '{OPEN}'", self.applied.is_new)

    def open_versions(self) -> str:
        """Return the statement that opens versions for delivered keys without an open one."""
        still_open = f"SELECT v.{self.key} FROM {self.table} AS v WHERE v.{self.names['segment']} = '{OPEN}'"
        closed = (
            f"SELECT v.{self.key} FROM {self.table} AS v WHERE v.{self.names['segment']} = '{CLOSED}' "
            f"AND v.{self.names['closed_by']} = {self.dialect.run_id} "
            f"AND v.{self.names['ended_at']} = {self.dialect.load_timestamp}"
        )
        new, changed = (self.label(state) for state in (NEW, CHANGED))
        state = f"CASE WHEN c.{self.key} IS NULL THEN {new} ELSE {changed} END"
        values = self.opening(self.label(LIVE) if self.tombstones else state, OPEN, "s")
        selected = _selected(self.stage, self.spec, values, "s", {column.name for column in self.stage.columns})
        query = (
            f"SELECT\n  {lines(selected)}\n"
            f"FROM (\n{indented(self.stage.rows())}\n) AS s\n"
            f"LEFT JOIN (\n  {still_open}\n) AS o ON o.{self.key} = s.{self.key}\n"
            f"LEFT JOIN (\n  {closed}\n) AS c ON c.{self.key} = s.{self.key}\n"
            f"WHERE o.{self.key} IS NULL AND {self.applied.is_new}"
        )
        return self.dialect.insert(self.table, [c.name for c in self.spec.columns], query)

    def open_tombstones(self) -> str:
        """Return the statement that opens tombstones, with the last values, for keys that this run deleted."""
        described = {c.name for c in self.spec.of_purpose("business_key", "attribute", "foreign_key")}
        selected = _selected(self.stage, self.spec, self.opening(self.label(DELETED), DELETED, "v"), "v", described)
        query = (
            f"SELECT\n  {lines(selected)}\n"
            f"FROM {self.table} AS v\n"
            f"WHERE v.{self.names['closed_by']} = {self.dialect.run_id}\n"
            f"  AND v.{self.key} NOT IN (\n{indented(self.stage.keys())}\n)\n  AND {self.applied.is_new}"
        )
        return self.dialect.insert(self.table, [c.name for c in self.spec.columns], query)

    def label(self, state: str) -> str:
        return self.dialect.text(self.policy.label(state))

    def open_until(self) -> str:
        """Return the value in the end column of an open version."""
        column = self.spec.column("ended_at")
        end = open_end(self.policy, column.type)
        return self.dialect.null(column.type) if end is None else self.dialect.instant(end)

    def closing(self, state: str, segment: str) -> dict[str, str]:
        """Return the values that end a version, by quoted name."""
        values = {
            "ended_at": self.dialect.load_timestamp,
            "closed_by": self.dialect.run_id,
            "closed_at": self.dialect.now,
            "active": self.dialect.boolean(False),
            "state": self.label(state),
            "segment": f"'{segment}'",
        }
        return {self.names[purpose]: value for purpose, value in values.items() if purpose in self.names}

    def opening(self, state: str, segment: str, alias: str) -> dict[str, str]:
        """Return the values of a new version, by purpose."""
        key, started = self.spec.column("entity_key"), self.spec.column("started_at")
        at = self.dialect.load_timestamp
        parts = [
            (key.key, f"{alias}.{self.key}", parse(key.type)),
            (started.key, at, parse(started.type)),
        ]
        return {
            "history_key": digest(self.dialect, parts),
            "updated_at": at,
            "started_at": at,
            "ended_at": self.open_until(),
            "active": self.dialect.boolean(segment == OPEN),
            "state": state,
            "run_id": self.dialect.run_id,
            "loaded_at": self.dialect.now,
            "closed_by": self.dialect.null("string"),
            "closed_at": self.dialect.null("timestamp"),
            "segment": f"'{segment}'",
        }


# Rawcore: the current rows, one per key.


def rawcore(stage: Stage, applied: AppliedRuns) -> Iterator[str]:
    """Yield the statements that bring rawcore to the delivered rows.

    Changed and absent rows go, missing ones come. A row of which only untracked columns changed keeps the columns that
    were not delivered, as its version does.
    """
    dialect, table = stage.dialect, stage.load.table
    key, name = dialect.identifier(stage.entity_key), dialect.table(table.qualified_name)
    if stage.load.history is not None:
        computed = stage.hash_of(stage.load.row_hash, "")
        yield dialect.update(
            name, {dialect.identifier(stage.row_hash): computed}, [applied.covers_other_columns, applied.is_new]
        )
    if stage.policy.closes_absent:
        yield dialect.delete(name, [f"{key} NOT IN (\n{indented(stage.keys())}\n)", applied.is_new])
    changed = (
        f"SELECT v.{key}\n  FROM {name} AS v\n  INNER JOIN (\n{indented(indented(stage.rows()))}\n"
        f"  ) AS s ON s.{key} = v.{key}\n  WHERE {_is_replaced(stage)}"
    )
    yield dialect.delete(name, [f"{key} IN (\n  {changed}\n)", applied.is_new])
    if stage.load.history is not None and stage.untracked:
        stamps = {table.column(purpose).name: value for purpose, value in _stamps(stage).items()}
        yield _update_in_place(stage, table, stamps, applied.is_new)
    query = (
        f"SELECT\n  {lines(current_values(stage))}\nFROM (\n{indented(stage.rows())}\n) AS s\n"
        f"LEFT JOIN (SELECT v.{key} FROM {name} AS v) AS o ON o.{key} = s.{key}\n"
        f"WHERE o.{key} IS NULL AND {applied.is_new}"
    )
    yield dialect.insert(name, [column.name for column in table.columns], query)


def _is_replaced(stage: Stage) -> str:
    """Return the condition that the stored row ``v`` goes for the delivered one ``s``."""
    if stage.load.history is None:
        return differs(stage, "v")
    row_hash = stage.dialect.identifier(stage.row_hash)
    return f"v.{row_hash} <> s.{row_hash}"


def _update_in_place(stage: Stage, table: TableSpec, further: Mapping[str, str], *where: str) -> str:
    """Return the statement that gives the stored rows ``h`` the delivered values, and further ones by column."""
    dialect, columns = stage.dialect, stage.in_place
    key = dialect.identifier(stage.entity_key)
    values = {column.name: f"s.{dialect.identifier(column.name)}" for column in columns} | dict(further)
    differ = f"{stage.content_of(columns, 'h')} <> {stage.content_of(columns, 's')}"
    return dialect.update_from(
        dialect.table(table.qualified_name),
        {dialect.identifier(name): value for name, value in values.items()},
        stage.rows(),
        f"h.{key} = s.{key}",
        [differ, *where],
    )


def differs(stage: Stage, alias: str) -> str:
    """Return the condition that a stored row differs from the delivered one ``s``."""
    row_hash = stage.dialect.identifier(stage.row_hash)
    condition = f"{alias}.{row_hash} <> s.{row_hash}"
    if not stage.untracked:
        return condition
    stored, delivered = (stage.content_of(stage.untracked, a) for a in (alias, "s"))
    return f"({condition} OR {stored} <> {delivered})"


def append(stage: Stage, applied: AppliedRuns) -> str:
    """Return the statement that adds the rows of a run."""
    query = (
        f"SELECT\n  {lines(current_values(stage))}\nFROM (\n{indented(stage.rows())}\n) AS s\nWHERE {applied.is_new}"
    )
    table = stage.load.table
    return stage.dialect.insert(
        stage.dialect.table(table.qualified_name), [column.name for column in table.columns], query
    )


def current_values(stage: Stage) -> list[str]:
    """Return the select list of a row of rawcore."""
    return _selected(stage, stage.load.table, _stamps(stage), "s", {column.name for column in stage.columns})


def _stamps(stage: Stage) -> dict[str, str]:
    return {"run_id": stage.dialect.run_id, "loaded_at": stage.dialect.now}


def _selected(stage: Stage, table: TableSpec, values: Mapping[str, str], alias: str, present: set[str]) -> list[str]:
    """Return the select list of rows of a table, with values by purpose; a column that rows lack is NULL (rule 16)."""
    dialect, selected = stage.dialect, []
    for column in table.columns:
        name = dialect.identifier(column.name)
        if column.purpose in values:
            selected.append(f"{values[column.purpose]} AS {name}")
        elif column.purpose in ("entity_key", "row_hash") or column.name in present:
            selected.append(f"{alias}.{name}")
        else:
            selected.append(f"{dialect.null(column.type)} AS {name}")
    return selected
