"""Rows of a table by condition, text, order and offset, also for a reader who does not see every column."""

import csv
from pathlib import Path

import pytest

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.domain.manifest.reads import Masking, QuerySource, ReadManifest
from loader.domain.refusals import Refusal
from loader.spark.queries.reads import read
from metadata.domain.sensitivity import MASK
from tests.loader.harness import Dataset, stable
from tests.loader.spark.queries.test_masking import ask, column

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


def test_rows_are_found_sorted_and_paged_by_any_column(item: Dataset):
    assert mails(item, descending=True) == ["eve@x", "bob@x", "ada@x"]
    assert mails(item, offset=1, limit=1) == ["bob@x"]
    assert mails(item, find="ULM") == ["ada@x"]
    assert mails(item, find="%_'") == ["eve@x"]
    assert mails(item, column="city", comparison="equals", value="Bonn") == ["bob@x", "eve@x"]
    assert mails(item, column="name", comparison="null") == ["bob@x"]
    assert mails(item, column="mail", comparison="greater", value="bob@x") == ["eve@x"]
    assert mails(item, column="version_started_at", comparison="less", value="2024-01-01") == []


def test_pages_of_the_last_loaded_rows_follow_one_another(item: Dataset):
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


def test_a_masked_column_is_no_order_and_no_condition(item: Dataset):
    for selection in ({"sort": "name"}, {"column": "name", "value": "a"}):
        with pytest.raises(Refusal, match="name is masked for you"):
            ask(item, "sample", {"name"}, **selection)


def test_rows_of_a_view_are_selected_without_masked_values(item: Dataset):
    keys = {name: stable("view", name) for name in ("mail", "loud")}
    columns = tuple(ColumnSpec(key, name, "string", "attribute") for name, key in keys.items())
    view = TableSpec(stable("view"), "stage", "people", "view", columns)
    hidden = Masking(shown=(keys["mail"],), shown_names=("mail",))
    sources = (
        QuerySource("people", item.history_spec),
        QuerySource("loud_people", view, "SELECT mail, upper(name) AS loud FROM people", masking=hidden),
    )
    arguments = {"sort": "mail", "column": "mail", "comparison": "greater", "value": "ada@x"}
    manifest = ReadManifest("sample", view, None, arguments, masking=hidden, sources=sources)
    answer = read(item.spark, item.warehouse, manifest, "view")
    assert (answer["columns"], answer["table_version"]) == (["mail", "loud"], None)
    assert answer["rows"] == [["bob@x", MASK], ["eve@x", MASK]]


def test_an_export_has_the_selected_rows_with_masks_and_without_formulas(item: Dataset, tmp_path: Path):
    path = tmp_path / "exports" / "1.csv"
    told = ask(item, "export", {"name"}, path=str(path), sort="city", column="city", value="Bonn")
    assert (told["exported"], told["truncated"], told["masked"]) == (2, False, ["name", "row_hash"])
    lines = list(csv.DictReader(path.open(newline="")))
    assert [(line["mail"], line["name"]) for line in lines] == [("bob@x", MASK), ("eve@x", MASK)]
