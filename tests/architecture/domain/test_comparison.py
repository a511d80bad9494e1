"""Side-by-side comparison of the datasets of a report, with their operations."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.domain import comparison
from architecture.domain.change_policy import PolicySet
from architecture.domain.comparison import compare
from architecture.domain.data_contracts import desired_contract
from architecture.domain.dataset_pairs import ColumnRow, DatasetPair, RenderedPair
from architecture.domain.report import build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.tables import ObservedColumn, ObservedTable
from metadata.domain.state import CheckState, ContractState, DatasetState
from tests.architecture.states import EVERYTHING_ALLOWED, column, dataset, report, state

ID = column("id", "id", "integer", role="business_key", nullable=False)


def pairs(before: ArchitectureState | CurrentState, after: ArchitectureState) -> tuple[DatasetPair, ...]:
    """Return the compared datasets of a report that was stored as JSON."""
    return compare(json.loads(json.dumps(report(before, after, EVERYTHING_ALLOWED).content)))


def rendered_pair(before: DatasetState, after: DatasetState, names: dict[str, str] | None = None) -> RenderedPair:
    (pair,) = pairs(state(before), state(after))
    return pair.rendered(names or {})


def side(pieces: tuple) -> str:
    """Return the text of one side, with differing parts in marks: ``«full_name» string(50)``."""
    return " ".join(f"«{piece.text}»" if piece.differs else piece.text for piece in pieces)


def row(rendered: RenderedPair) -> tuple[str, str]:
    (only,) = rendered.columns
    return side(only.before), side(only.after)


def test_unchanged_dataset_is_not_shown():
    same = dataset("d1", "rc_a", ID, column("a"))
    assert pairs(state(same), state(same)) == ()


def test_renamed_column_is_shown_beside_its_former_name_with_its_operation():
    before = dataset("d1", "rc_a", ID, column("c1", "full_name"))
    after = dataset("d1", "rc_a", ID, column("c1", "display_name", former_names=("full_name",)))
    rendered = rendered_pair(before, after)
    assert row(rendered) == ("«full_name» string(50)", "«display_name» string(50)")
    assert rendered.columns[0].operations == (1,)
    assert rendered.unchanged == ("id integer",)
    assert rendered.facts == ()
    assert rendered.pair.change == "changed"


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({"type_": "integer"}, {"type_": "bigint"}, ("c «integer»", "c «bigint»")),
        ({}, {"nullable": False}, ("c string(50) «nullable»", "c string(50) «not null»")),
        ({}, {"active": False}, ("c string(50) «active»", "c string(50) «retired»")),
        (
            {},
            {"role": "business_key", "nullable": False},
            ("c string(50) «nullable» «attribute»", "c string(50) «not null» «business key»"),
        ),
        ({}, {"expression": "upper(c)"}, ("c string(50) «no expression»", "c string(50) «upper(c)»")),
        ({"expression": "trim(c)"}, {"expression": "upper(c)"}, ("c string(50) «trim(c)»", "c string(50) «upper(c)»")),
        ({"inputs": ("k1",)}, {"inputs": ("k1", "k2")}, ("c string(50) «from a.b»", "c string(50) «from a.b, k2»")),
        ({"inputs": ("k1",)}, {}, ("c string(50) «from a.b»", "c string(50) «from no column»")),
    ],
)
def test_differences_of_a_column_are_marked(before: dict[str, Any], after: dict[str, Any], texts: tuple[str, str]):
    left, right = (dataset("d1", "rc_a", ID, column("c", **fields)) for fields in (before, after))
    assert row(rendered_pair(left, right, {"k1": "a.b"})) == texts


def test_unchanged_expression_is_shown_without_a_mark():
    left = dataset("d1", "rc_a", ID, column("c", type_="integer", expression="x + 1"))
    right = dataset("d1", "rc_a", ID, column("c", type_="bigint", expression="x + 1"))
    assert row(rendered_pair(left, right)) == ("c «integer» x + 1", "c «bigint» x + 1")


def test_new_column_has_no_before_side_and_dropped_column_no_after_side():
    before = dataset("d1", "rc_a", ID, column("old"))
    after = dataset("d1", "rc_a", ID, column("new", type_="date"))
    assert [(side(line.before), side(line.after)) for line in rendered_pair(before, after).columns] == [
        ("", "new date"),
        ("old string(50)", ""),
    ]


def test_new_dataset_shows_all_facts_and_columns():
    (pair,) = pairs(state(), state(dataset("d1", "rc_a", historize=True, history_key="h1", filter="v > 1")))
    rendered = pair.rendered({})
    assert pair.change == "new"
    assert [(fact.label, fact.before, fact.after) for fact in rendered.facts] == [
        ("Name", "", "rawcore.rc_a"),
        ("Materialization", "", "table"),
        ("Status", "", "active"),
        ("History", "", "yes"),
        ("Filter", "", "v > 1"),
        ("Hash version", "", "1"),
    ]
    assert [side(line.after) for line in rendered.columns] == ["id integer not null business key", "v string(50)"]
    assert pair.operations == (1, 2)


def test_removed_dataset_shows_all_columns():
    (pair,) = pairs(state(dataset("d1", "rc_a")), state())
    assert (pair.change, pair.after, len(pair.rendered({}).columns)) == ("removed", None, 2)


def test_renamed_dataset_is_one_pair():
    (pair,) = pairs(state(dataset("d1", "rc_a")), state(dataset("d1", "rc_b", former_names=("rc_a",))))
    assert pair.change == "renamed"
    assert [(fact.label, fact.before, fact.after) for fact in pair.facts({})] == [
        ("Name", "rawcore.rc_a", "rawcore.rc_b")
    ]


def test_dataset_with_a_moved_key_is_matched_by_name():
    before, after = dataset("d1", "rc_a"), dataset("d2", "rc_a")
    after = replace(after, columns=(*after.columns, column("new")))
    (pair,) = pairs(state(before), state(after))
    assert (pair.before.key, pair.after.key) == ("d1", "d2")
    assert [side(line.after) for line in pair.rendered({}).columns] == ["new string(50)"]


def test_changed_history_policy_is_shown_by_field():
    before = dataset(historize=True, history_key="h1", history_policy={"input": "snapshot", "deletes": "close"})
    after = dataset(historize=True, history_key="h1", history_policy={"input": "delta", "deletes": "close"})
    assert [vars(fact) for fact in rendered_pair(before, after).facts] == [
        {"label": "History policy: input", "before": "snapshot", "after": "delta"}
    ]


def test_changed_inputs_are_shown_by_name():
    before, after = dataset(inputs=("k1",)), dataset(inputs=("k2", "k1"))
    rendered = rendered_pair(before, after, {"k1": "raw.a", "k2": "raw.b"})
    assert [vars(fact) for fact in rendered.facts] == [{"label": "Inputs", "before": "raw.a", "after": "raw.a, raw.b"}]
    assert rendered.pair.input_keys == {"k1", "k2"}


def test_foreign_key_shows_the_names_of_both_paired_columns():
    before = dataset("d1", "rc_a", ID, column("f", role="foreign_key", inputs=("k1=k2",)))
    after = dataset("d1", "rc_a", ID, column("f", role="foreign_key", inputs=("k1=k3",)))
    (pair,) = compare({"current": [[_row(before), [], []]], "desired": [_row(after)], "operations": []})
    (only,) = pair.rendered({"k1": "a", "k2": "b", "k3": "c"}).columns
    assert side(only.before).endswith("foreign key «from a = b»")
    assert side(only.after).endswith("foreign key «from a = c»")
    assert pair.input_keys == {"k1", "k2", "k3"}


def _row(dataset: DatasetState) -> list[Any]:
    """Return the state of a dataset in the format of the content of a report."""
    change_report = report(state(), state(replace(dataset, columns=(ID,))))
    columns = [
        [c.key, c.name, [], c.type, c.nullable, c.role, c.active, c.expression, list(c.inputs)] for c in dataset.columns
    ]
    return [*change_report.content["desired"][0][:-1], columns]


# --- state of a warehouse ----------------------------------------------------------------------


KEY = "0b3f52d4-6a11-5d3e-9f0c-2d1a44c0a001"


def in_warehouse(*columns: ObservedColumn, has_table: bool = True) -> CurrentState:
    """Return a state in which ``rc_a`` was applied with ``id`` and ``c`` and its table has these columns."""
    applied = dataset(KEY, "rc_a", ID, column("c", type_="integer"))
    tables = {KEY: ObservedTable(KEY, "rawcore.rc_a", columns, 3)} if has_table else {}
    return CurrentState.of_warehouse([applied], tables, [applied])


def observed_column(key: str | None, name: str, type_: str) -> ObservedColumn:
    return ObservedColumn(name, type_, key=key)


def compare_with(current: CurrentState, after: DatasetState) -> tuple[DatasetPair, ...]:
    change_report = build_report(current, [after], PolicySet(), environment="dev")
    return compare(json.loads(json.dumps(change_report.content)))


def test_before_side_shows_the_observed_columns():
    current = in_warehouse(observed_column("id", "id", "int"), observed_column("c", "renamed_by_hand", "bigint"))
    (pair,) = compare_with(current, dataset(KEY, "rc_a", ID, column("c", type_="integer")))
    rows = {side(line.before): side(line.after) for line in pair.rendered({}).columns}
    assert rows["«renamed_by_hand» «bigint»"] == "«c» «integer»"


def test_column_missing_in_the_table_has_no_before_side():
    (pair,) = compare_with(
        in_warehouse(observed_column("id", "id", "int")), dataset(KEY, "rc_a", ID, column("c", type_="integer"))
    )
    assert ("", "c integer") in [(side(line.before), side(line.after)) for line in pair.rendered({}).columns]


def test_missing_table_is_shown_as_a_fact():
    (pair,) = compare_with(in_warehouse(has_table=False), dataset(KEY, "rc_a", ID, column("c", type_="integer")))
    assert [vars(fact) for fact in pair.facts({})] == [{"label": "Warehouse", "before": "table missing", "after": ""}]


# --- any two states --------------------------------------------------------------------------

COLUMNS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["integer", "bigint", "string(50)"]), st.booleans()),
    unique_by=lambda entry: entry[0],
    max_size=5,
)


def _of(columns: list[tuple[str, str, bool]]) -> DatasetState:
    return dataset("d1", "rc_a", ID, *(column(name, type_=type_, nullable=free) for name, type_, free in columns))


@given(COLUMNS, COLUMNS)
def test_every_column_is_shown_on_each_side_that_has_it(left: list, right: list):
    changes = pairs(state(_of(left)), state(_of(right)))
    assert bool(changes) == (sorted(left) != sorted(right))
    for pair in changes:
        rendered = pair.rendered({})
        unchanged = {text.split()[0] for text in rendered.unchanged}
        assert _names(rendered.columns, "before") | unchanged == {n for n, *_ in left} | {"id"}
        assert _names(rendered.columns, "after") | unchanged == {n for n, *_ in right} | {"id"}
        numbers = {number for line in rendered.columns for number in line.operations}
        assert numbers | set(pair.operations) == set(range(1, len(numbers | set(pair.operations)) + 1))


def _names(rows: tuple[ColumnRow, ...], where: str) -> set[str]:
    return {getattr(line, where)[0].text for line in rows if getattr(line, where)}


# Each column of the table: as described, with another name, with another type, or missing.
OBSERVED = st.tuples(
    st.sampled_from([("id", "id", "int"), ("id", "id", "bigint"), None]),
    st.sampled_from([("c", "c", "int"), ("c", "c", "bigint"), ("c", "e", "int"), None]),
    st.sampled_from([("d", "d", "bigint"), ("d", "d", "int"), None]),
    st.sampled_from([None, ("x", "x", "int")]),
)


@given(OBSERVED, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_skipped_datasets_have_no_differences(
    observed: tuple, has_table: bool, active: bool, same: bool, planned: bool
):
    d = column("d", type_="bigint", active=active)
    applied = dataset(KEY, "rc_a", ID, column("c", type_="integer"), d)
    after = applied if same else dataset(KEY, "rc_a", ID, column("c", type_="bigint"), d)
    tables = (
        {KEY: ObservedTable(KEY, "rawcore.rc_a", tuple(observed_column(*args) for args in observed if args), 3)}
        if has_table
        else {}
    )
    change_report = build_report(
        CurrentState.of_warehouse([applied], tables, [after]), [after], PolicySet(), environment="dev"
    )
    content = json.loads(json.dumps(change_report.content))
    if not planned:
        content["operations"] = []
    with pytest.MonkeyPatch.context() as patch:
        differences = compare(content)
        patch.setattr(comparison, "_is_unchanged", lambda *_: False)
        assert differences == compare(content)


def test_changed_select_and_increment_of_a_model_are_shown():
    before = dataset("d1", "totals", schema="serving", select="SELECT id, v FROM rawcore.a")
    after = replace(before, select="SELECT id, v FROM rawcore.b", increment={"by": "key"})
    assert [(fact.label, fact.before, fact.after) for fact in rendered_pair(before, after).facts] == [
        ("SELECT", "SELECT id, v FROM rawcore.a", "SELECT id, v FROM rawcore.b"),
        ("Incremental load: by", "", "key"),
    ]


@pytest.mark.parametrize("select", ["", "SELECT id, v FROM rawcore.a"])
def test_declared_contract_is_shown_and_a_version_alone_is_not(select: str):
    check = CheckState("c1", "ids are there", "not_null", "stop", {"columns": ["id"]})
    without = dataset("d1", "totals", schema="serving", select=select or None)
    promised = replace(without, contract=ContractState((check,)))
    facts = [(fact.label, fact.before, fact.after) for fact in rendered_pair(without, promised).facts]
    assert facts == [("Contract", "", "declared"), ("Promised checks", "", "ids are there")]
    in_force = replace(promised, contract=replace(desired_contract(promised), version="1.0"))
    assert pairs(state(in_force), state(promised)) == ()
