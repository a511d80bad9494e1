"""Answers without sensitive values, from real tables: no value, hash of a value, or order by a value."""

import json
from hashlib import sha256

import pytest

from loader.contract.manifest.reads import QuerySource, ReadManifest
from loader.domain.queries.masking import Sensitive, masking_of
from loader.engine.queries.reads import read
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sensitivity import MASK, MASK_CHANGED
from tests.loader.harness import Dataset, stable

pytestmark = pytest.mark.spark
DAY = [f"2024-01-0{day}T00:00:00+00:00" for day in range(1, 5)]
COLUMNS = {"mail": "string", "name": "string", "city": "string"}


@pytest.fixture
def item(spark, tmp_path) -> Dataset:
    item = Dataset(spark, tmp_path, columns=COLUMNS, keys=("mail",))
    return item.given(
        ([{"mail": "ada@x", "name": "Ada", "city": "Ulm"}, {"mail": "bob@x", "name": None, "city": "Bonn"}], DAY[0]),
        ([{"mail": "ada@x", "name": "Adele", "city": "Ulm"}, {"mail": "bob@x", "name": None, "city": "Köln"}], DAY[1]),
    )


def ask(item: Dataset, kind: str, sensitive: set[str], **arguments: object) -> dict:
    keys = {name: stable("item", name) for name in COLUMNS}
    sensitivity = Sensitive(frozenset(keys[name] for name in sensitive), frozenset(sensitive), frozenset(keys.values()))
    masking = masking_of(item.history_spec, sensitivity, HistoryPolicy.from_dict({}), "secret")
    return read(
        item.spark, item.warehouse, ReadManifest(kind, item.history_spec, None, arguments, masking=masking), kind
    )


def column(answer: dict, name: str) -> list:
    at = answer["columns"].index(name)
    return [row[at] for row in answer["rows"]]


def entity_key(item: Dataset) -> str:
    return item.history_spec.column("entity_key").name


QUESTIONS = {"sample": {}, "key_search": {"text": ""}, "as_of": {"at": DAY[1]}, "changes": {"run_id": "run-2"}}


@pytest.mark.core
@pytest.mark.parametrize(("kind", "arguments"), QUESTIONS.items())
def test_answers_contain_neither_masked_values_nor_computable_hashes(item: Dataset, kind: str, arguments: dict):
    true = column(read(item.spark, item.warehouse, ReadManifest("sample", item.history_spec), "s"), entity_key(item))
    text = json.dumps(ask(item, kind, {"mail", "name"}, **arguments), ensure_ascii=False)
    for value in (
        "ada@x",
        "bob@x",
        "Ada",
        "Adele",
        *true,
        *(sha256(secret.encode()).hexdigest() for secret in ("Ada", "ada@x")),
    ):
        assert value not in text
    assert MASK in text


def test_answer_names_masked_columns_and_masks_null_like_a_value(item: Dataset):
    answer = ask(item, "sample", {"name"})
    assert answer["masked"] == ["name", "row_hash"]
    assert set(column(answer, "name")) == {MASK}
    assert set(column(answer, "city")) == {"Ulm", "Bonn", "Köln"}


def test_versions_of_a_masked_key_are_read_by_its_hash(item: Dataset):
    (first, second) = column(ask(item, "key_search", {"mail"}, text=""), entity_key(item))
    assert first != second
    answer = ask(item, "versions", {"mail", "name"}, entity_key=first)
    assert set(column(answer, "mail")) == {MASK}
    assert len(answer["rows"]) == 2


def test_versions_mark_a_changed_masked_value_without_showing_the_value(item: Dataset):
    true = column(ask(item, "key_search", {"name"}, text="ada"), entity_key(item))
    assert column(ask(item, "versions", {"name"}, entity_key=true[0]), "name") == [MASK, MASK_CHANGED]
    true = column(ask(item, "key_search", {"name"}, text="bob"), entity_key(item))
    assert column(ask(item, "versions", {"name"}, entity_key=true[0]), "name") == [MASK, MASK]


def test_changes_mark_a_changed_masked_value(item: Dataset):
    answer = ask(item, "changes", {"name"}, run_id="run-2")
    at = answer["columns"].index("name")
    assert [(row["before"][at], row["after"][at]) for row in answer["changes"]] == [(MASK, MASK_CHANGED), (MASK, MASK)]


def test_undescribed_column_is_masked(item: Dataset):
    keys = {name: stable("item", name) for name in ("mail", "name")}
    spec = Dataset(None, None, columns={"mail": "string", "name": "string"}, keys=("mail",)).history_spec
    known = Sensitive(frozenset(), frozenset(), frozenset(keys.values()))
    masking = masking_of(spec, known, HistoryPolicy.from_dict({}), "secret")
    answer = read(item.spark, item.warehouse, ReadManifest("sample", spec, masking=masking), "s")
    assert set(column(answer, "city")) == {MASK}
    assert MASK not in column(answer, "name")


def test_as_of_read_of_an_earlier_version_is_masked(item: Dataset):
    answer = ask(item, "as_of", {"name"}, at=DAY[1], known_at="2999-01-01T00:00:00+00:00")
    assert set(column(answer, "name")) == {MASK}
    assert "name" in answer["masked"]


def test_comparison_counts_changed_rows_and_leaves_out_masked_columns(item: Dataset):
    dates = {"by": "dates", "base": DAY[0], "other": DAY[1]}
    difference = ask(item, "compare", {"name"}, **dates)["difference"]
    assert difference["rows"] == {"added": 0, "changed": 1, "gone": 0, "same": 1}
    assert (difference["columns"]["left_out"], difference["changed"]) == (["name"], {"city": 1})
    assert difference["samples"]["changed"] == [{"before": ["bob@x", "Bonn"], "after": ["bob@x", "Köln"]}]
    newest = item.table(item.history_spec).version()
    difference = ask(item, "compare", {"mail"}, by="versions", base=str(newest - 1), other=str(newest))["difference"]
    assert (difference["key"], difference["columns"]["left_out"]) == ([entity_key(item)], ["mail"])
    assert difference["changed"] == {"name": 1, "city": 1}
    there = {"sources": (QuerySource("", item.history_spec),)}
    arguments = {"by": "environments", "base": "prod", "other": "", "warehouse": item.warehouse}
    manifest = ReadManifest("compare", item.history_spec, None, arguments, **there)
    difference = read(item.spark, item.warehouse, manifest, "c")["difference"]
    assert difference["rows"] == {"added": 0, "changed": 0, "gone": 0, "same": 2}
