"""Queries of the rows that a load reads: typed, with entity key and row hash, one row per key.

A text that is read as another type is converted as in a load of the product; one that does not fit is NULL in the
queries, and a check refuses it before anything is written (``misfits``).
"""

from dataclasses import dataclass
from functools import cached_property

from architecture.domain.tables import ColumnSpec
from loader.contract.manifest.loads import HashComponent, RawcoreLoad
from loader.dialects.dialect import Dialect, indented, lines
from loader.dialects.hashing import Component, digest
from loader.dialects.inputs import Input
from loader.dialects.refusals import NotRendered
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.types import DataType, parse

CONTENT, PLACE = "__content", "__place"


@dataclass(frozen=True)
class Stage:
    """Stage of one load in a dialect. All queries read the raw rows of one run, by its id (``run_id``, SQL).

    Without ``run_id``, it is the run that the load applies.
    """

    dialect: Dialect
    load: RawcoreLoad
    run_id: str = ""

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
        """Return the attributes whose changes open no version."""
        policy, hashed = self.policy, {part.column for part in self.load.row_hash}
        if policy.track is None or policy.untracked == "keep":
            return ()
        return tuple(c for c in self.attributes if c.name not in hashed and c.name not in policy.uncompared)

    @property
    def in_place(self) -> tuple[ColumnSpec, ...]:
        """Return the columns that are updated in place: untracked attributes, and foreign keys, which follow theirs."""
        foreign_keys = tuple(column for column in self.columns if column.purpose == "foreign_key")
        return (*self.untracked, *foreign_keys) if self.untracked else ()

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
        return "\nUNION ALL\n".join(each.query([self._of_run(each)]) for each in self._inputs)

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
        for stage_input in self._inputs:
            read = [value for value in stage_input.values if value.text is not None]
            names |= dict.fromkeys(value.column for value in read)
            wrong = " OR ".join(f"({value.text} IS NOT NULL AND {value.sql} IS NULL)" for value in read)
            if read:
                queries.append(f"SELECT 1 AS misfit\n{stage_input.source([self._of_run(stage_input), f'({wrong})'])}")
        return list(names), "\nUNION ALL\n".join(queries)

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        return tuple(Input(self.dialect, self.load.name, stage_input) for stage_input in self.load.inputs)

    def _of_run(self, stage_input: Input) -> str:
        """Return the condition that the run delivered a row."""
        column = self.dialect.identifier(stage_input.table.column("run_id").name)
        return f"r.{column} = {self.run_id or self.dialect.run_id}"

    def _foreign_key(self, column: str) -> str:
        """Return a foreign key: the hash of its parts, NULL if one of them is NULL."""
        key = next((key for key in self.load.foreign_keys if key.column == column), None)
        if key is None or key.parent is not None:
            raise NotRendered(f"the rule for unknown parents of {column} reads other tables", where=self.load.name)
        name = self.dialect.identifier
        present = " AND ".join(f"t.{name(part.column)} IS NOT NULL" for part in key.components)
        return f"CASE WHEN {present} THEN {self.hash_of(key.components, 't')} END AS {name(column)}"
