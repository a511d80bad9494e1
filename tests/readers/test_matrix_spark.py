"""Tests of other readers of the warehouse's tables, by kind and change of the table, with the real libraries.

By night the matrix in ``docs/use/read_tables.md`` is compared with the results of the libraries. By day the libraries
read tables for open readers after all changes.
"""

import json
import re
import sys
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest
from django.conf import settings

from architecture.domain.operations import BASE, DROP_FEATURES, HISTORY, Operation
from architecture.domain.steps.features import COLUMN_MAPPING, OPEN, SPARK, TYPE_WIDENING, switches
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import TableSpec, history_table, raw_table, rawcore_table
from elevata.bootstrap.places import SPARK_JARS
from loader.engine.tables import steps
from metadata.domain.state import DatasetState
from tests.loader.harness import Dataset
from tests.readers.environment import answered, readers_python
from tests.readers.rows_as_text import rows_as_text

pytestmark = pytest.mark.spark

LIBRARIES = ("DuckDB", "delta-rs", "Polars", "Spark")
KINDS = {"raw": raw_table, "rawcore": rawcore_table, "history": history_table}
CREATION, DELETE, RENAME, WIDENING = "creation", "a delete", "a rename", "a widening"
CHANGES = (CREATION, DELETE, RENAME, WIDENING)
YES, NO, WITHOUT_PARTITIONS = "yes", "no", "partition columns are NULL"
COLUMNS = {"id": "integer", "n": "integer", "v": "string(20)", "d": "decimal(10,2)", "at": "timestamp"}
FEATURES = ", ".join(f"'{name}' = '{value}'" for name, value in switches((COLUMN_MAPPING, TYPE_WIDENING)).items())
HIGH = "9999-12-31T23:59:59.999Z"
DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 9)]


class Typed(Dataset):
    """Dataset whose raw table has typed columns, as of a Parquet source."""

    @property
    def raw_state(self) -> DatasetState:
        return replace(super().raw_state, columns=self._columns(typed=True))

    def spec(self, kind: str) -> TableSpec:
        return KINDS[kind](self.raw_state if kind == "raw" else self.state)

    def change(self, *changes: str) -> None:
        """Change every table, then insert its own rows again."""
        alterations = {RENAME: {"v": {"name": "w"}}, WIDENING: {"n": {"type": "bigint"}}}
        altered = {name: fact for change in changes for name, fact in alterations.get(change, {}).items()}
        specs = [self.spec(kind) for kind in KINDS]
        changed = [
            replace(spec, columns=tuple(replace(column, **altered.get(column.name, {})) for column in spec.columns))
            for spec in specs
        ]
        observed = {spec.key: self.table(spec).observe() for spec in specs}
        planned = plan_steps(changed, observed, readers=self.readers)
        assert {step.table.key for step in planned} == ({spec.key for spec in specs} if altered else set())
        assert steps.execute(self.spark, self.warehouse, planned, self._record), self.events
        for spec in specs:
            name = self.table(spec).sql_name
            if DELETE in changes:
                self.spark.sql(f"DELETE FROM {name} WHERE id = 2")
            self.spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")

    def open_later(self) -> None:
        """Enable table features that some libraries lack, then drop them as a report with open readers does."""
        specs = [self.spec(kind) for kind in KINDS]
        for spec in specs:
            name = self.table(spec).sql_name
            self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({FEATURES})")
        observed = {spec.key: self.table(spec).observe() for spec in specs}
        sides = [BASE, BASE, HISTORY]
        operations = [
            Operation(DROP_FEATURES, spec.qualified_name, spec.dataset_key, side)
            for spec, side in zip(specs, sides, strict=True)
        ]
        planned = plan_steps(specs, observed, operations, readers=OPEN)
        assert [step.op for step in planned] == [DROP_FEATURES] * 3
        assert steps.execute(self.spark, self.warehouse, planned, self._record), self.events


def loaded(spark, folder: Path, readers: str) -> Typed:
    """Return a dataset with open, closed and deleted versions, and dates up to the year 9999."""
    item = Typed(
        spark, folder, f"item_{readers}", COLUMNS, policy={"open_end": HIGH}, delivery_checked=False, readers=readers
    )
    row = {"n": 5, "v": "ä", "d": "1.50", "at": "1800-01-01T00:00:00Z"}
    first = [{"id": n, **row} for n in range(1, 5)]
    return item.given((first, DAY[0]), ([{**row, "id": 1, "v": "b"}, *first[1:3]], DAY[1]))


@dataclass
class Tables:
    """Changed tables: location, and rows with the places of partition columns, by name."""

    folder: Path
    places: dict[str, str] = field(default_factory=dict)
    expected: dict[str, tuple[list[list[str]], list[int]]] = field(default_factory=dict)

    def add(self, spark, readers: str, *changes: str) -> None:
        """Load and change tables of each kind, named by setting, kind and the last change."""
        item = loaded(spark, self.folder / f"{readers}-{len(self.places)}", readers)
        item.change(*changes)
        self.note(item, readers, changes[-1])

    def note(self, item: Typed, readers: str, change: str) -> None:
        """Record location and rows of each table."""
        for kind in KINDS:
            table = item.table(item.spec(kind))
            name = f"{readers}|{kind}|{change}"
            self.places[name] = table.location
            frame = table.frame()
            partitions = [sorted(frame.columns).index(column) for column in item.spec(kind).partition_by]
            self.expected[name] = rows_as_text(row.asDict() for row in frame.collect()), partitions

    @property
    def listed(self) -> Path:
        path = self.folder / "tables.json"
        path.write_text(json.dumps(self.places))
        return path

    def verdicts(self, answers: dict[str, dict]) -> dict[tuple[str, str, str, str], str]:
        """Return the verdict by setting, kind of table, change and library."""
        return {
            (*name.split("|"), library): verdict(*self.expected[name], answers[library][name])
            for library, name in product(answers, self.places)
        }


@pytest.fixture(scope="module")
def matrix(spark, tmp_path_factory) -> dict[tuple[str, str, str, str], str]:
    tables = Tables(tmp_path_factory.mktemp("matrix"))
    for readers, change in product((SPARK, OPEN), CHANGES):
        tables.add(spark, readers, change)
    answers = answered(readers_python(), "read_tables.py", tables.listed)
    answers |= answered(sys.executable, "spark_tables.py", tables.listed, SPARK_JARS, tables.folder / "catalog")
    return tables.verdicts(answers)


def verdict(expected: list[list[str]], partitions: list[int], answer: list[list[str]] | str) -> str:
    if isinstance(answer, str):
        return NO
    if answer == expected:
        return YES
    blank = [["None" if place in partitions else value for place, value in enumerate(row)] for row in expected]
    return WITHOUT_PARTITIONS if answer == sorted(blank) else f"other rows: {answer[:2]}, not {expected[:2]}"


def documented() -> dict[tuple[str, str, str, str], str]:
    """Return the matrix of ``docs/use/read_tables.md``; a row there may stand for several kinds and changes."""
    text = (settings.BASE_DIR / "docs" / "use" / "read_tables.md").read_text()
    head = re.escape("| readers | table | after | " + " | ".join(LIBRARIES) + " |")
    (table,) = re.findall(head + r"\n\|[-|]+\n((?:\|.*\n)+)", text)
    verdicts = {}
    for line in table.splitlines():
        setting, kinds, changes, *cells = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        for kind, change in product(kinds.split(", "), changes.split(", ")):
            verdicts |= {(setting, kind, change, name): cell for name, cell in zip(LIBRARIES, cells, strict=True)}
    return verdicts


@pytest.mark.nightly
def test_libraries_read_tables_as_in_the_documented_matrix(matrix):
    assert documented() == matrix


@pytest.mark.nightly
def test_libraries_read_tables_for_open_readers_after_every_kind_of_change(spark, tmp_path):
    tables = Tables(tmp_path)
    tables.add(spark, OPEN, *CHANGES)
    verdicts = tables.verdicts(answered(readers_python(), "read_tables.py", tables.listed))
    assert set(verdicts.values()) == {YES}
    assert len(verdicts) == len(KINDS) * (len(LIBRARIES) - 1)


@pytest.mark.nightly
def test_tables_whose_features_were_dropped_are_loaded_and_read_by_every_library(spark, tmp_path):
    item, tables = loaded(spark, tmp_path / "item", SPARK), Tables(tmp_path)
    item.open_later()
    rows = [{"n": 6, "v": "c", "d": "2.50", "at": "1800-01-01T00:00:00Z", "id": n} for n in (1, 2, 9)]
    status, event = item.load(rows, at=DAY[3])
    assert (status, event["counts"]["changed"], event["counts"]["new"]) == ("succeeded", 2, 1)
    tables.note(item, OPEN, CREATION)
    verdicts = tables.verdicts(answered(readers_python(), "read_tables.py", tables.listed))
    assert set(verdicts.values()) == {YES}
    assert len(verdicts) == len(KINDS) * (len(LIBRARIES) - 1)


@pytest.mark.nightly
def test_libraries_read_every_table_for_open_readers(matrix):
    assert {verdict for (setting, *_), verdict in matrix.items() if setting == OPEN} == {YES}
