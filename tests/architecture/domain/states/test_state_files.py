"""State files: strict parsing, and a canonical text of equal states."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architecture.domain.states.flat_states import as_row, column_pairs, flat, of_row
from architecture.domain.states.json_positions import offset_of
from architecture.domain.states.state_files import StateProblem, dump_state, parse_state
from metadata.domain.state import ReferenceState
from tests.architecture.states import column, dataset, state

COLUMN = {
    "key": "c1",
    "name": "full_name",
    "former_names": [],
    "type": "string(50)",
    "nullable": True,
    "role": "attribute",
    "active": True,
    "expression": None,
    "inputs": [],
}
DATASET = {
    "key": "d1",
    "schema": "rawcore",
    "name": "rc_customer",
    "former_names": [],
    "active": True,
    "materialization": "table",
    "historize": False,
    "columns": [COLUMN, COLUMN | {"key": "c2", "name": "id"}],
}
FILE = {"format": "architecture-state/v1", "datasets": [DATASET, DATASET | {"key": "d2", "name": "rc_order"}]}


def with_value(path: list, value: Any) -> str:
    """Return the file with another value at a path; ``del`` removes the field."""
    document = json.loads(json.dumps(FILE))
    owner = document
    for part in path[:-1]:
        owner = owner[part]
    if value == "del":
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return json.dumps(document, indent=1)


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        (["format"], "architecture-state/v2", "format", "is not known"),
        (["format"], None, "format", "is not known"),
        (["colour"], "red", "colour", "is not known"),
        (["datasets"], {}, "datasets", "must be a list"),
        (["datasets", 1], 7, "datasets[1]", "must be an object"),
        (["datasets", 1, "layer"], "raw", "datasets[1].layer", "is not known"),
        (["datasets", 1, "name"], "del", "datasets[1].name", "is missing"),
        (["datasets", 1, "key"], "d1", "datasets[1].key", "occurs twice"),
        (["datasets", 1, "name"], "RC_Customer", "datasets[1].name", "occurs twice"),
        (["datasets", 1, "name"], "rc order", "datasets[1].name", "must hold only"),
        (["datasets", 1, "name"], "rc_order_hist", "datasets[1].name", "is reserved"),
        (["datasets", 1, "active"], "yes", "datasets[1].active", "must be true or false, not text"),
        (["datasets", 1, "historize"], 1, "datasets[1].historize", "must be true or false, not a number"),
        (["datasets", 1, "materialization"], "cube", "datasets[1].materialization", "must be one of table, view"),
        (["datasets", 1, "filter"], 1, "datasets[1].filter", "must be text or null"),
        (["datasets", 1, "load_policy"], ["a"], "datasets[1].load_policy", "must be an object, text or null"),
        (["datasets", 1, "load_policy"], {"a": 1.5}, "datasets[1].load_policy", "more than one spelling"),
        (["datasets", 1, "columns", 0, "type"], "strong", "datasets[1].columns[0].type", "is not a type"),
        (["datasets", 1, "columns", 0, "type"], None, "datasets[1].columns[0].type", "must be visible text"),
        (["datasets", 1, "columns", 0, "role"], "key", "datasets[1].columns[0].role", "must be one of"),
        (["datasets", 1, "columns", 0, "name"], " ", "datasets[1].columns[0].name", "must be visible text"),
        (["datasets", 1, "columns", 0, "name"], "a\nb", "datasets[1].columns[0].name", "control character"),
        (["datasets", 1, "columns", 0, "inputs"], "a", "datasets[1].columns[0].inputs", "must be a list, not text"),
        (["datasets", 1, "columns", 0, "pii"], True, "datasets[1].columns[0].pii", "is not known"),
        (["datasets", 1, "columns", 1, "key"], "c1", "datasets[1].columns[1].key", "occurs twice"),
        (["datasets", 1, "columns", 1, "name"], "FULL_NAME", "datasets[1].columns[1].name", "occurs twice"),
    ],
)
def test_invalid_value_is_refused_with_its_path(path: list, value: Any, where: str, message: str) -> None:
    with pytest.raises(StateProblem) as problem:
        parse_state(with_value(path, value), "a.json")
    assert (problem.value.field, message in problem.value.message) == (where, True)


def test_refusal_names_file_and_line() -> None:
    text = with_value(["datasets", 1, "columns", 0, "type"], "strong")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "strong" in line)
    with pytest.raises(StateProblem) as problem:
        parse_state(text, "a.json")
    assert problem.value.one_line().startswith(f"a.json:{line}: datasets[1].columns[0].type: 'strong'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"format": NaN, "datasets": []}', "NaN is no value"),
        ('{"format": "architecture-state/v1", "datasets": [], "datasets": []}', "'datasets' is given twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_text_that_is_no_state_is_refused(text: str, message: str) -> None:
    with pytest.raises(StateProblem, match=message):
        parse_state(text)


def test_types_of_other_systems_are_normalised() -> None:
    (parsed, _) = parse_state(with_value(["datasets", 0, "columns", 0, "type"], "VARCHAR(20)")).datasets
    assert parsed.columns[0].type == "string(20)"


def test_retired_column_may_share_the_name_of_an_active_one() -> None:
    columns = [COLUMN, COLUMN | {"key": "c2", "active": False}]
    assert len(parse_state(with_value(["datasets", 0, "columns"], columns)).datasets[0].columns) == 2


@pytest.mark.parametrize("name", ["filter", "inputs", "load_policy", "history_policy"])
def test_an_absent_field_and_null_both_mean_none(name: str) -> None:
    assert parse_state(with_value(["datasets", 0, name], None)) == parse_state(json.dumps(FILE))


def test_order_of_fields_columns_and_datasets_is_ignored() -> None:
    turned = json.loads(json.dumps(FILE))
    turned["datasets"] = [dict(reversed(entry.items())) for entry in reversed(turned["datasets"])]
    for entry in turned["datasets"]:
        entry["columns"] = [dict(reversed(column.items())) for column in reversed(entry["columns"])]
    assert parse_state(json.dumps(turned)) == parse_state(json.dumps(FILE))


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=10).filter(
    str.strip
)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(texts, texts, st.booleans()), max_size=4, unique_by=(lambda row: row[0], lambda row: row[1].lower())
    ),
    texts,
    st.none() | st.dictionaries(texts, st.integers() | texts, max_size=2),
)
def test_a_state_is_read_back_byte_for_byte(columns: list, former: str, policy: dict | None) -> None:
    described = [column(key, name, "decimal(10,2)", nullable=null) for key, name, null in columns]
    text = dump_state(state(dataset("d1", "a", *described, former_names=(former,), load_policy=policy), dataset("d0")))
    assert dump_state(parse_state(text)) == text


def test_foreign_key_is_written_as_a_technical_column() -> None:
    reference = ReferenceState("r1", "rc_country_key", "d9", (("c1", "k1"),))
    (parsed,) = parse_state(dump_state(state(dataset("d1", references=(reference,))))).datasets
    (written,) = [each for each in parsed.columns if each.key == "r1"]
    assert (written.name, written.role, written.inputs) == ("rc_country_key", "technical", ("c1=k1",))


def test_row_stores_references_as_columns() -> None:
    reference = ReferenceState("r1", "rc_country_key", "d9", (("c1", "k1"),))
    row = json.loads(json.dumps(as_row(dataset("d1", references=(reference,), history_key="h1"))))
    assert of_row(row) == of_row(as_row(of_row(row)))
    assert [column.key for column in of_row(row).columns] == ["id", "v", "r1"]


def test_offset_of_returns_the_position_of_a_path_in_the_text() -> None:
    text = '{"a": [1, {"b c": "x"}]}'
    assert text[offset_of(text, ("a", 1, "b c")) :].startswith('"x"')
    assert text[offset_of(text, ("a", 1, "nothing")) :].startswith('{"b c"')


@pytest.mark.parametrize(("rule", "inputs"), [("keep", ("c1=k1",)), ("null", ("c1=k1", "unknown_parent=null"))])
def test_a_rule_for_unknown_parents_is_an_input_of_the_foreign_key(rule: str, inputs: tuple[str, ...]) -> None:
    reference = ReferenceState("r1", "rc_country_key", "d9", (("c1", "k1"),), rule)
    foreign_key = flat(dataset("d1", references=(reference,))).columns[-1]
    assert foreign_key.inputs == inputs
    assert column_pairs(foreign_key) == ("c1=k1",)
