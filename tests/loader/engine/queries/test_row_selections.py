"""Rows of a table by condition, text, order and offset, also with masked columns."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.contract.manifest.reads import Descendant, Masking, QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.engine.queries.reads import read
from metadata.domain.sensitivity import MASK
from tests.loader.engine.queries.test_masking import ask, column
from tests.loader.harness import Dataset, stable

pytestmark = pytest.mark.spark
COLUMNS = {"mail": "string", "name": "string", "city": "string"}
ROWS = [
    {"mail": "ada@x", "name": "Ada", "city": "Ulm"},
    {"mail": "bob@x", "name": None, "city": "Bonn"},
    {"mail": "eve@x", "name": "100%_'", "city": "Bonn"},
]


@pytest.fixture(scope="module")
def item(spark, tmp_path_factory) -> Dataset:
    item = Dataset(spark, tmp_path_factory.mktemp("rows"), columns=COLUMNS, keys=("mail",))
    return item.given((ROWS, "2024-01-01T00:00:00+00:00"))


def mails(item: Dataset, **selection: object) -> list[str]:
    manifest = ReadManifest("sample", item.history_spec, None, {"sort": "mail", **selection})
    return column(read(item.spark, item.warehouse, manifest, "sample"), "mail")


@pytest.mark.core
def test_rows_are_found_sorted_and_paged_by_any_column(item: Dataset):
    assert mails(item, descending=True) == ["eve@x", "bob@x", "ada@x"]
    assert mails(item, offset=1, limit=1) == ["bob@x"]
    assert mails(item, find="ULM") == ["ada@x"]
    assert mails(item, find="%_'") == ["eve@x"]
    assert mails(item, column="city", comparison="equals", value="Bonn") == ["bob@x", "eve@x"]
    assert mails(item, column="name", comparison="null") == ["bob@x"]
    assert mails(item, column="mail", comparison="greater", value="bob@x") == ["eve@x"]
    assert mails(item, column="version_started_at", comparison="less", value="2024-01-01") == []


def test_pages_of_the_newest_rows_do_not_overlap(item: Dataset):
    pages = [mails(item, sort="", newest=True, offset=offset, limit=1) for offset in range(3)]
    assert sorted(mail for page in pages for mail in page) == ["ada@x", "bob@x", "eve@x"]


def test_a_value_of_another_type_is_refused(item: Dataset):
    with pytest.raises(Refusal, match="version_started_at is of type timestamp, and 'soon' is not"):
        mails(item, column="version_started_at", comparison="less", value="soon")


def test_a_masked_column_is_not_searched(item: Dataset):
    assert ask(item, "sample", {"name"}, find="Ada")["rows"] == [
        row for row in ask(item, "sample", {"name"})["rows"] if "ada@x" in row
    ]
    assert ask(item, "sample", {"name", "mail"}, find="Ada")["rows"] == []


def test_masked_column_is_refused_as_order_and_condition(item: Dataset):
    for selection in ({"sort": "name"}, {"column": "name", "value": "a"}):
        with pytest.raises(Refusal, match="name is masked for you"):
            ask(item, "sample", {"name"}, **selection)


def view_of(item: Dataset) -> ReadManifest:
    """Return a read of a view over the table, in which the names are masked for the reader."""
    keys = {name: stable("view", name) for name in ("mail", "loud", "sum")}
    columns = tuple(ColumnSpec(key, name, "string", "attribute") for name, key in keys.items())
    view = TableSpec(stable("view"), "stage", "people", "view", columns)
    masking = Masking(shown=(keys["mail"], keys["sum"]), shown_names=("mail", "sum"))
    select = "SELECT mail, upper(name) AS loud, concat('=', city) AS sum FROM people"
    sources = (QuerySource("people", item.history_spec), QuerySource("shown", view, select, masking=masking))
    arguments = {"sort": "mail", "descending": True, "column": "mail", "comparison": "greater", "value": "ada@x"}
    return ReadManifest("sample", view, None, arguments, masking=masking, sources=sources)


def test_rows_of_a_view_are_selected_and_exported_without_masked_values(item: Dataset, tmp_path: Path):
    manifest, path = view_of(item), tmp_path / "exports" / "1.csv"
    answer = read(item.spark, item.warehouse, manifest, "view")
    assert (answer["columns"], answer["table_version"]) == (["mail", "loud", "sum"], None)
    assert answer["rows"] == [["eve@x", MASK, "=Bonn"], ["bob@x", MASK, "=Bonn"]]
    profiled = read(item.spark, item.warehouse, replace(manifest, kind="profile"), "view")
    assert [(column["name"], column.get("hidden", False)) for column in profiled["profile"]] == [
        ("mail", False),
        ("loud", True),
        ("sum", False),
    ]
    export = replace(manifest, kind="export", arguments=manifest.arguments | {"path": str(path)})
    result = read(item.spark, item.warehouse, export, "view")
    assert (result["exported"], result["truncated"], result["masked"]) == (2, False, ["loud"])
    assert list(csv.reader(path.open(newline=""))) == [
        ["mail", "loud", "sum"],
        ["eve@x", MASK, "'=Bonn"],
        ["bob@x", MASK, "'=Bonn"],
    ]


def test_a_view_is_compared_with_that_of_another_environment_without_masked_columns(item: Dataset):
    manifest = view_of(item)
    mail, *others = manifest.table.columns
    view = replace(manifest.table, columns=(replace(mail, purpose="business_key"), *others))
    *beneath, there = manifest.sources
    query = "SELECT mail, lower(name) AS loud, concat('+', city) AS sum FROM people WHERE mail <> 'eve@x'"
    arguments = {"by": "environments", "base": "prod", "warehouse": item.warehouse}
    other = (*beneath, replace(there, query=query))
    read_arguments = replace(manifest, kind="compare", table=view, arguments=arguments, other_sources=other)
    difference = read(item.spark, item.warehouse, read_arguments, "compare")["difference"]
    assert difference["rows"] == {"added": 1, "changed": 2, "gone": 0, "same": 0}
    assert difference["columns"]["left_out"] == ["loud"]
    by_rows = replace(read_arguments, arguments=arguments | {"whole_rows": True})
    row_difference = read(item.spark, item.warehouse, by_rows, "compare")["difference"]
    assert row_difference["rows"] == {"added": 3, "changed": 0, "gone": 2, "same": 0}


def test_origin_returns_the_delivered_row_and_descendants_its_key(item: Dataset):
    (load,) = item.manifest(Path("unused"), at="2024-01-02T00:00:00+00:00", run_id="unused").rawcore
    key = column(ask(item, "key_search", set(), text="bob"), item.history_spec.column("entity_key").name)[0]

    def origin(at: str) -> list[list]:
        arguments = {"entity_key": key, "at": at}
        parts = {"inputs": load.inputs, "entity_key": load.entity_key}
        manifest = ReadManifest("origin", item.history_spec, None, arguments, **parts)
        return read(item.spark, item.warehouse, manifest, "origin")["rows"]

    assert origin("2023-12-31T00:00:00+00:00") == []
    ((_, run_id, _, file, row, opened),) = origin("2024-01-01T00:00:00+00:00")
    assert (run_id, opened) == ("run-1", "true")
    arguments = {"run_id": run_id, "file": file, "row": row}
    stored = Descendant(item.history_spec, load.inputs, load.entity_key)
    manifest = ReadManifest("descendants", load.inputs[0].table, None, arguments, descendants=(stored,))
    answer = read(item.spark, item.warehouse, manifest, "descendants")
    assert answer["rows"] == [[item.history_spec.qualified_name, key, "1", "true", "true"]]
    with pytest.raises(Refusal, match="does not have row 99"):
        read(item.spark, item.warehouse, replace(manifest, arguments=arguments | {"row": 99}), "descendants")
