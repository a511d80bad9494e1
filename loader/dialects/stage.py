"""Queries of the rows that a load reads: typed, with entity key and row hash, one row per key.

A text that is read as another type is converted as in a load of the product; one that does not fit is NULL in the
queries, and a check refuses it before anything is written (``misfits``).
"""

from dataclasses import dataclass
from functools import cached_property

from architecture.domain.tables import ColumnSpec
from architecture.domain.type_changes import TypeChange, classify_types
from loader.contract.manifest.loads import HashComponent, RawcoreLoad, StageColumn, StageInput
from loader.dialects.dialect import Dialect, conditions, indented, lines
from loader.dialects.expressions import TEXT, translate_condition, translate_to, translate_value
from loader.dialects.hashing import Component, digest
from loader.dialects.refusals import NotRendered
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.sql import quote_identifier
from metadata.domain.types import STRING, TIMESTAMP, DataType, parse, stored_type

CONTENT, PLACE = "__content", "__place"
UTC = "UTC"


@dataclass(frozen=True)
class Value:
    """Value of a column of the stage as SQL, and the text that it is read from; None if no value can be lost."""

    column: str
    sql: str
    text: str | None = None


@dataclass(frozen=True)
class Stage:
    """Stage of one load in a dialect. All queries read the raw rows of the run, by its id."""

    dialect: Dialect
    load: RawcoreLoad

    @cached_property
    def policy(self) -> HistoryPolicy:
        return HistoryPolicy.from_dict(self.load.policy)

    @cached_property
    def delivered(self) -> dict[str, DataType]:
        """Return the types of the delivered columns by name."""
        return {column.name: parse(column.type) for column in self.load.inputs[0].columns}

    @cached_property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """Return the columns of the table that rows have: described ones that are delivered, and foreign keys."""
        described = self.load.table.of_purpose("business_key", "attribute")
        present = tuple(column for column in described if column.name in self.delivered)
        return (*present, *self.load.table.of_purpose("foreign_key"))

    @property
    def attributes(self) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose == "attribute")

    @cached_property
    def untracked(self) -> tuple[ColumnSpec, ...]:
        """Return the columns that are updated in place: untracked attributes and, in a history, foreign keys."""
        policy, hashed = self.policy, {part.column for part in self.load.row_hash}
        if policy.track is None or policy.untracked == "keep":
            return ()
        return tuple(c for c in self.attributes if c.name not in hashed and c.name not in policy.uncompared)

    @cached_property
    def entity_key(self) -> str:
        return self.load.table.column("entity_key").name

    @cached_property
    def row_hash(self) -> str:
        return self.load.table.column("row_hash").name

    def components(self, parts: tuple[HashComponent, ...], alias: str) -> list[Component]:
        """Return the hash components over the columns of an alias; an empty alias means unqualified names."""
        types = {c.name: parse(c.type) for c in self.load.table.columns} | self.delivered
        prefix = f"{alias}." if alias else ""
        return [
            (p.key, f"{prefix}{self.dialect.identifier(p.column)}", parse(p.type) if p.type else types[p.column])
            for p in parts
        ]

    def hash_of(self, parts: tuple[HashComponent, ...], alias: str) -> str:
        return digest(self.dialect, self.components(parts, alias))

    def content_of(self, columns: tuple[ColumnSpec, ...], alias: str) -> str:
        return self.hash_of(tuple(HashComponent(c.key, c.name, c.type) for c in columns), alias)

    def typed(self) -> str:
        """Return the query of the run's rows with the names and types of the dataset."""
        return "\nUNION ALL\n".join(self._input(stage_input) for stage_input in self.load.inputs)

    def has_rows(self) -> str:
        """Return the condition that the run delivered a row."""
        return f"EXISTS (SELECT 1 FROM (\n{indented(self.typed())}\n) AS d)"

    def hashed(self) -> str:
        """Return the query of all rows, with entity key, row hash and the hash of all attributes."""
        name = self.dialect.identifier
        selected = [f"t.{name(column.name)}" for column in self.columns if column.purpose != "foreign_key"]
        selected += [self._foreign_key(column.name) for column in self.load.table.of_purpose("foreign_key")]
        selected.append(f"{self.hash_of(self.load.row_hash, 't')} AS {name(self.row_hash)}")
        if self.load.entity_key:
            selected.insert(0, f"{self.hash_of(self.load.entity_key, 't')} AS {name(self.entity_key)}")
            selected.append(f"{self.content_of(self.attributes, 't')} AS {name(CONTENT)}")
        return f"SELECT\n  {lines(selected)}\nFROM (\n{indented(self.typed())}\n) AS t"

    def rows(self) -> str:
        """Return the query of one row per key; identical rows count as one (rule 1)."""
        if not self.load.entity_key:
            return self.hashed()
        name = self.dialect.identifier
        key, content = (f"k.{name(column)}" for column in (self.entity_key, CONTENT))
        names = [self.entity_key, *(column.name for column in self.columns), self.row_hash]
        place = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {content}) AS {name(PLACE)}"
        return (
            f"SELECT {', '.join(f'q.{name(column)}' for column in names)}\nFROM (\n"
            f"  SELECT k.*, {place}\n  FROM (\n{indented(indented(self.hashed()))}\n  ) AS k\n) AS q\n"
            f"WHERE q.{name(PLACE)} = 1"
        )

    def keys(self) -> str:
        """Return the query of the delivered entity keys."""
        name = self.dialect.identifier(self.entity_key)
        key = self.hash_of(self.load.entity_key, "t")
        return f"SELECT DISTINCT {key} AS {name}\nFROM (\n{indented(self.typed())}\n) AS t"

    @cached_property
    def misfits(self) -> tuple[list[str], str]:
        """Return the columns that are read from texts, and the query of rows with a text that does not fit."""
        names: dict[str, None] = {}
        queries = []
        for stage_input in self.load.inputs:
            read = [value for value in self._values(stage_input) if value.text is not None]
            names |= dict.fromkeys(value.column for value in read)
            wrong = " OR ".join(f"({value.text} IS NOT NULL AND {value.sql} IS NULL)" for value in read)
            if read:
                queries.append(f"SELECT 1 AS misfit\n{self._rows_of(stage_input, f'({wrong})')}")
        return list(names), "\nUNION ALL\n".join(queries)

    def _input(self, stage_input: StageInput) -> str:
        name = self.dialect.identifier
        selected = [f"{value.sql} AS {name(value.column)}" for value in self._values(stage_input)]
        return f"SELECT\n  {lines(selected)}\n{self._rows_of(stage_input)}"

    def _rows_of(self, stage_input: StageInput, *conditions_of_rows: str) -> str:
        """Return FROM and WHERE of the rows that the run delivered, under more conditions."""
        name, raw = self.dialect.identifier, stage_input.table
        where = [f"r.{name(raw.column('run_id').name)} = {self.dialect.run_id}"]
        if stage_input.filter:
            types = {column.name: parse(column.type) for column in raw.columns}
            where.append(f"({translate_condition(stage_input.filter, self.dialect, types, where=raw.qualified_name)})")
        table = self.dialect.table(raw.qualified_name)
        return f"FROM {table} AS r\n{conditions([*where, *conditions_of_rows])}"

    def _values(self, stage_input: StageInput) -> list[Value]:
        """Return the columns of an input. Raise NotRendered with the name of a column that cannot be read."""
        values = []
        for column in stage_input.columns:
            where = f"{self.load.name}.{column.name}"
            try:
                values.append(self._value(column, stage_input, where))
            except NotRendered as problem:
                if problem.where:
                    raise
                raise NotRendered(problem.message, where=where) from problem
        return values

    def _value(self, column: StageColumn, stage_input: StageInput, where: str) -> Value:
        """Return a column of the input: as it is, read from a text, widened, or a translated expression."""
        types = {c.name: parse(c.type) for c in stage_input.table.columns}
        after = parse(column.type)
        own = next((c for c in types if quote_identifier(c) == column.expression), None)
        zone, is_instant = stage_input.options.get("timezone") or UTC, own is not None and types[own].name == TIMESTAMP
        if after.name == TIMESTAMP and zone != UTC and not is_instant:
            raise NotRendered(f"local times of the zone {zone} are not converted", where=where)
        if own is None:
            text, kind = translate_value(column.expression, self.dialect, types, where=where)
            if kind == TEXT and after != DataType(STRING):
                return self._read(column.name, text, after, stage_input)
            return Value(column.name, translate_to(column.expression, self.dialect, types, after, where=where))
        value, before = f"r.{self.dialect.identifier(own)}", types[own]
        if stored_type(before).name == STRING:
            fits = before == after or after == DataType(STRING) or classify_types(before, after).widens
            return Value(column.name, value) if fits else self._read(column.name, value, after, stage_input)
        if stored_type(before) == stored_type(after):
            return Value(column.name, value)
        change = classify_types(stored_type(before), stored_type(after))
        if not change.widens and change is not TypeChange.EQUIVALENT:
            raise NotRendered(f"{before} is read as {after}, which can lose values", where=where)
        return Value(column.name, self.dialect.cast(value, before, after))

    def _read(self, name: str, text: str, after: DataType, stage_input: StageInput) -> Value:
        formats = ValueFormats.of(stage_input.options)
        return Value(name, self.dialect.text_value(text, after, formats), text)

    def _foreign_key(self, column: str) -> str:
        """Return a foreign key: the hash of its parts, NULL if one of them is NULL."""
        key = next((key for key in self.load.foreign_keys if key.column == column), None)
        if key is None or key.parent is not None:
            raise NotRendered(f"the rule for unknown parents of {column} reads other tables", where=self.load.name)
        name = self.dialect.identifier
        present = " AND ".join(f"t.{name(part.column)} IS NOT NULL" for part in key.components)
        return f"CASE WHEN {present} THEN {self.hash_of(key.components, 't')} END AS {name(column)}"
