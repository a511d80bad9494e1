"""One MERGE for the history and one for rawcore, where each statement is a commit of its own (Databricks).

The source of the MERGE has a row for each change: a version to close or to update, found by its history key, and a
version to insert, whose target is NULL. A changed key has two rows. A first statement refreshes row hashes that cover
other columns; it changes no version, so a load that ends after it can be repeated.
"""

from collections.abc import Iterator

from architecture.domain.tables import CLOSED, DELETED, OPEN, ColumnSpec
from loader.dialects.dialect import indented, lines
from loader.dialects.histories import LIVE, Versions, differs
from loader.dialects.runs import AppliedRuns
from loader.dialects.stage import Stage
from loader.domain.historization.history import CHANGED, NEW

TARGET, STATE, PART = "__target", "__state", "__part"
_CLOSE, _UPDATE, _INSERT = "close", "update", "insert"


def history(stage: Stage, applied: AppliedRuns) -> Iterator[str]:
    """Yield the refresh of hashes and the MERGE into the history."""
    changes = _Changes(stage, applied)
    yield changes.refresh()
    yield changes.merge()


class _Changes:
    """Rows of the MERGE into a history."""

    def __init__(self, stage: Stage, applied: AppliedRuns) -> None:
        self.stage, self.applied, self.dialect = stage, applied, stage.dialect
        self.versions = Versions(stage, applied)
        self.names, self.key = self.versions.names, self.versions.key
        self.described = tuple(
            c for c in self.versions.spec.columns if c.purpose in ("business_key", "attribute", "foreign_key")
        )

    def refresh(self) -> str:
        """Return the MERGE that computes hashes anew that cover other columns (rule 16)."""
        versions, history_key = self.versions, self.names["history_key"]
        computed = self.stage.hash_of(self.stage.load.row_hash, "h")
        stored = f"h.{self.names['segment']} <> '{CLOSED}' AND {self.applied.covers_other_columns}"
        query = (
            f"SELECT h.{history_key}, {computed} AS {versions.row_hash}\nFROM {versions.table} AS h\n"
            f"WHERE {stored} AND {self.applied.is_new}"
        )
        return (
            f"MERGE INTO {versions.table} AS h\nUSING (\n{indented(query)}\n) AS d\n"
            f"ON h.{history_key} = d.{history_key} AND (h.{self.names['segment']} = '{OPEN}' "
            f"OR h.{self.names['closed_by']} IS NULL)\n"
            f"WHEN MATCHED THEN UPDATE SET h.{versions.row_hash} = d.{versions.row_hash}"
        )

    def merge(self) -> str:
        versions, name = self.versions, self.dialect.identifier
        target, part, state = (f"d.{name(column)}" for column in (TARGET, PART, STATE))
        closing = versions.closing(CHANGED, CLOSED) | {self.names["state"]: state}
        closing[self.names["segment"]] = f"CASE WHEN {part} = '{_CLOSE}' THEN '{CLOSED}' ELSE '{DELETED}' END"
        closed = ", ".join(f"h.{column} = {value}" for column, value in closing.items())
        in_place = [f"h.{name(c.name)} = d.{name(c.name)}" for c in self.stage.in_place]
        matched = f"WHEN MATCHED AND {part} = '{_UPDATE}' THEN UPDATE SET {', '.join(in_place)}\n" if in_place else ""
        return (
            f"MERGE INTO {versions.table} AS h\nUSING (\n{indented(self.rows())}\n) AS d\n"
            f"ON h.{self.names['history_key']} = {target}\n"
            f"{matched}WHEN MATCHED THEN UPDATE SET {closed}\n"
            f"WHEN NOT MATCHED AND {target} IS NULL THEN {self._insert()}"
        )

    def rows(self) -> str:
        """Return the union of the rows to close, to update and to insert; empty for a repeated run."""
        versions = self.versions
        is_open = f"h.{self.names['segment']} = '{OPEN}'"
        differ = f"h.{versions.row_hash} <> s.{versions.row_hash}"
        live = self._live() if versions.tombstones else ""
        parts = [self._matched(_CLOSE, live or versions.label(CHANGED), [is_open, differ])]
        if self.stage.policy.closes_absent:
            gone = _CLOSE if versions.tombstones else DELETED
            parts.append(self._absent(gone, live or versions.label(DELETED), target=True))
        if versions.tombstones:
            returned = f"h.{self.names['segment']} = '{DELETED}' AND h.{self.names['closed_by']} IS NULL"
            parts.append(self._matched(_CLOSE, versions.label(DELETED), [returned]))
            if self.stage.policy.closes_absent:
                parts.append(self._absent(_INSERT, versions.label(DELETED), target=False))
        if self.stage.in_place:
            content = (self.stage.content_of(self.stage.in_place, alias) for alias in "hs")
            parts.append(self._matched(_UPDATE, "NULL", [is_open, f"NOT ({differ})", " <> ".join(content)]))
        parts.append(self._opened(live, is_open, differ))
        return "\nUNION ALL\n".join(parts)

    def _live(self) -> str:
        return self.versions.label(LIVE)

    def _matched(self, part: str, state: str, where: list[str]) -> str:
        """Return rows for stored versions of delivered keys."""
        return (
            f"SELECT {self._selected(part, state, 's', target=True)}\nFROM {self.versions.table} AS h\n"
            f"INNER JOIN (\n{indented(self.stage.rows())}\n) AS s ON s.{self.key} = h.{self.key}\n"
            f"WHERE {' AND '.join([*where, self.applied.is_new])}"
        )

    def _absent(self, part: str, state: str, *, target: bool) -> str:
        """Return rows for open versions of keys that are absent: to close, or as tombstones to insert."""
        return (
            f"SELECT {self._selected(part, state, 'h', target=target)}\nFROM {self.versions.table} AS h\n"
            f"LEFT ANTI JOIN (\n{indented(self.stage.keys())}\n) AS s ON s.{self.key} = h.{self.key}\n"
            f"WHERE h.{self.names['segment']} = '{OPEN}' AND {self.applied.is_new}"
        )

    def _opened(self, live: str, is_open: str, differ: str) -> str:
        new, changed = (self.versions.label(state) for state in (NEW, CHANGED))
        state = live or f"CASE WHEN h.{self.key} IS NULL THEN {new} ELSE {changed} END"
        return (
            f"SELECT {self._selected(_INSERT, state, 's', target=False)}\nFROM (\n{indented(self.stage.rows())}\n"
            f") AS s\nLEFT JOIN {self.versions.table} AS h ON h.{self.key} = s.{self.key} AND {is_open}\n"
            f"WHERE (h.{self.key} IS NULL OR {differ}) AND {self.applied.is_new}"
        )

    def _selected(self, part: str, state: str, alias: str, *, target: bool) -> str:
        name, present = self.dialect.identifier, {c.name for c in self.stage.columns}
        stored_key = f"h.{self.names['history_key']}" if target else self.dialect.null("string")
        selected = [f"{stored_key} AS {name(TARGET)}", f"'{part}' AS {name(PART)}", f"{state} AS {name(STATE)}"]
        selected += [f"{alias}.{self.key}", f"{alias}.{self.versions.row_hash}"]
        for column in self.described:
            is_there = alias == "h" or column.name in present
            value = f"{alias}.{name(column.name)}" if is_there else self.dialect.null(column.type)
            selected.append(f"{value} AS {name(column.name)}")
        return ", ".join(selected)

    def _insert(self) -> str:
        versions, name = self.versions, self.dialect.identifier
        values = versions.opening(f"d.{name(STATE)}", OPEN, "d")
        is_tombstone = f"d.{name(STATE)} = {versions.label(DELETED)}"
        if versions.tombstones:
            values["segment"] = f"CASE WHEN {is_tombstone} THEN '{DELETED}' ELSE '{OPEN}' END"
            values["active"] = f"NOT ({is_tombstone})"
        columns = versions.spec.columns
        inserted = [values.get(column.purpose, f"d.{name(column.name)}") for column in columns]
        return f"INSERT ({', '.join(name(c.name) for c in columns)})\nVALUES (\n  {lines(inserted)}\n)"


def rawcore(stage: Stage, applied: AppliedRuns) -> Iterator[str]:
    """Yield the MERGE into rawcore; its source has the delivered rows, and stored ones whose keys are absent."""
    dialect, table = stage.dialect, stage.load.table
    name, key, part = dialect.identifier, dialect.identifier(stage.entity_key), dialect.identifier(PART)
    target, present = dialect.table(table.qualified_name), {column.name for column in stage.columns}
    stored = [c for c in table.columns if c.purpose in ("entity_key", "row_hash") or c.name in present]
    values = {c.name: f"s.{name(c.name)}" for c in stored}
    values[table.column("run_id").name], values[table.column("loaded_at").name] = dialect.run_id, dialect.now
    rows = _current(stage, stored, _UPDATE, "q", f"(\n{indented(stage.rows())}\n) AS q", applied)
    gone = ""
    if stage.policy.closes_absent:
        keys = f"{target} AS q\nLEFT ANTI JOIN (\n{indented(stage.keys())}\n) AS k ON k.{key} = q.{key}"
        rows += f"\nUNION ALL\n{_current(stage, stored, DELETED, 'q', keys, applied)}"
        gone = f"WHEN MATCHED AND s.{part} = '{DELETED}' THEN DELETE\n"
    updates = [f"r.{name(column)} = {value}" for column, value in values.items() if name(column) != key]
    row_hash = name(stage.row_hash)
    for column in table.of_purpose("attribute"):  # not delivered: kept where only untracked columns changed
        if column.name not in values:
            kept = f"CASE WHEN r.{row_hash} = s.{row_hash} THEN r.{name(column.name)} END"
            updates.append(f"r.{name(column.name)} = {kept}")
    yield (
        f"MERGE INTO {target} AS r\nUSING (\n{indented(rows)}\n) AS s\nON r.{key} = s.{key}\n{gone}"
        f"WHEN MATCHED AND {differs(stage, 'r')} THEN UPDATE SET {', '.join(updates)}\n"
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(map(name, values))})\n"
        f"VALUES (\n  {lines(values.values())}\n)"
    )


def _current(stage: Stage, columns: list[ColumnSpec], part: str, alias: str, source: str, applied: AppliedRuns) -> str:
    name = stage.dialect.identifier
    selected = [f"'{part}' AS {name(PART)}", *(f"{alias}.{name(column.name)}" for column in columns)]
    return f"SELECT {', '.join(selected)}\nFROM {source}\nWHERE {applied.is_new}"
