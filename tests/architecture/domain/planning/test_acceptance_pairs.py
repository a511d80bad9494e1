"""Pairs of state files and the operations that the contract's table lists for each.

An expected operation is written ``op subject decision`` after its table; ``+hist`` marks the history table.
Operations that are ``metadata_only`` are omitted, as in the contract's cases.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import METADATA_ONLY
from architecture.domain.report import ChangeReport, build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import dump_state, parse_state
from metadata.domain.scope import FILES, Scope
from tests.architecture.domain.test_report import _SCRIPT as FINGERPRINT
from tests.architecture.domain.test_report import AFTER, BEFORE


def col(key: str, name: str = "", type_: str = "string(50)", **fields: Any) -> dict:
    defaults = {"former_names": [], "nullable": True, "role": "attribute", "active": True, "expression": None}
    return {"key": key, "name": name or key, "type": type_, "inputs": [], **defaults, **fields}


ID = col("c1", "id", "integer", role="business_key", nullable=False)
V, W = col("c2", "v"), col("c3", "w", "date")


def ds(*columns: dict, key: str = "d1", name: str = "rc_a", h: bool = False, bare: bool = False, **fields: Any) -> dict:
    defaults = {"schema": "rawcore", "former_names": [], "active": True, "materialization": "table", "historize": h}
    return {"key": key, "name": name, "columns": [*(() if bare else (ID,)), *columns], **defaults, **fields}


def of_type(type_: str) -> dict:
    return col("c2", "v", type_)


def planned(before: list[dict], after: list[dict], *allowed: str) -> ChangeReport:
    files = ({"format": "architecture-state/v1", "datasets": datasets} for datasets in (before, after))
    previous, desired = (parse_state(json.dumps(file)) for file in files)
    policy = PolicySet.of_flags(dict.fromkeys(allowed, True))
    return build_report(CurrentState.of_state(previous), desired, policy, Scope(FILES))


def lines_of(report: ChangeReport) -> list[str]:
    """Return one line for each operation of the report in JSON."""
    lines = []
    for operation in report.as_json()["operations"]:
        if operation["decision"] != METADATA_ONLY:
            subject = operation.get("column") or (f"{operation['from']}>{operation['to']}" if "to" in operation else "")
            table = operation["dataset"].replace("rawcore.", "")
            lines.append(
                " ".join(filter(None, (table, operation["op"], subject, operation["decision"]))).replace("rawcore.", "")
            )
    return sorted(lines)


def codes(report: ChangeReport) -> list[str]:
    return sorted(warning.code for warning in report.warnings)


# --- types: every direction, on base and history ----------------------------------------------

ALTER, REBUILD, RETYPE = "widen_column", "rebuild_table", "retype_column"
TYPES = [
    ("string(20)", "string(21)", ALTER),
    ("string(20)", "text", ALTER),
    ("varchar(20)", "string(20)", ""),
    ("string", "string(2000)", RETYPE),
    ("integer", "bigint", ALTER),
    ("integer", "float", ALTER),
    ("integer", "decimal(10,0)", ALTER),
    ("integer", "decimal(12,2)", ALTER),
    ("integer", "decimal(11,2)", RETYPE),
    ("integer", "decimal(9,0)", RETYPE),
    ("bigint", "decimal(20,0)", ALTER),
    ("bigint", "decimal(22,2)", ALTER),
    ("bigint", "decimal(21,2)", RETYPE),
    ("bigint", "float", RETYPE),
    ("decimal(10,2)", "decimal(11,2)", ALTER),
    ("decimal(10,2)", "decimal(11,3)", ALTER),
    ("decimal(10,2)", "decimal(11,4)", RETYPE),
    ("decimal(10,2)", "decimal(12,1)", RETYPE),
    ("decimal(10,2)", "decimal(8,2)", RETYPE),
    ("decimal(10,2)", "numeric(10,2)", ""),
    ("decimal(10,2)", "float", RETYPE),
    ("decimal(10,2)", "bigint", RETYPE),
    ("float", "decimal(38,10)", RETYPE),
    ("float", "bigint", RETYPE),
    ("double", "float", ""),
    ("date", "timestamp", REBUILD),
    ("timestamp", "date", RETYPE),
    ("timestamp", "timestamptz", ""),
    ("time", "timestamp", RETYPE),
    ("integer", "string", REBUILD),
    ("date", "string", REBUILD),
    ("bool", "string", REBUILD),
    ("boolean", "integer", RETYPE),
    ("integer", "boolean", RETYPE),
    ("binary", "string", RETYPE),
    ("uuid", "string", ALTER),
    ("json", "string", ALTER),
    ("string", "integer", RETYPE),
    ("string", "date", RETYPE),
]


@pytest.mark.parametrize(("before", "after", "op"), TYPES)
def test_type_change_has_the_operation_and_decision_of_the_contract(before: str, after: str, op: str) -> None:
    report = planned([ds(of_type(before))], [ds(of_type(after))])
    decision = {ALTER: "allowed", REBUILD: "needs_approval", RETYPE: "blocked"}.get(op)
    assert lines_of(report) == ([f"rc_a {op} v {decision}"] if op else [])
    assert (report.status, report.destructive) == (
        {"": "no_changes", RETYPE: "blocked"}.get(op, "open"),
        op == RETYPE,
    )


@pytest.mark.parametrize(("before", "after", "op"), [row for row in TYPES if row[2] in (ALTER, REBUILD)])
def test_widened_or_rebuilt_type_changes_base_and_history_alike(before: str, after: str, op: str) -> None:
    report = planned([ds(of_type(before), h=True)], [ds(of_type(after), h=True)])
    decision = "allowed" if op == ALTER else "needs_approval"
    assert lines_of(report) == sorted(f"{table} {op} v {decision}" for table in ("rc_a", "rc_a_hist"))


@pytest.mark.parametrize(
    ("before", "after"),
    [("string(50)", "string(20)"), ("string", "string(9)"), ("bigint", "integer"), ("timestamp", "date")],
)
def test_history_keeps_the_wider_type(before: str, after: str) -> None:
    assert lines_of(planned([ds(of_type(before), h=True)], [ds(of_type(after), h=True)], "type_alter")) == [
        "rc_a retype_column v needs_approval"
    ]


@pytest.mark.parametrize(("before", "after"), [("string", "integer"), ("boolean", "integer"), ("binary", "string")])
def test_history_retires_a_column_of_incompatible_type_and_adds_a_new_one(before: str, after: str) -> None:
    report = planned([ds(of_type(before), h=True)], [ds(of_type(after), h=True)], "type_alter")
    assert lines_of(report) == ["rc_a retype_column v needs_approval", "rc_a_hist add_column v needs_approval"]
    assert ("retire_column", "rawcore.rc_a_hist") in {
        (operation.op, operation.dataset) for operation in report.operations
    }


# --- every other row ---------------------------------------------------------------------------

TWO = [ds(V), ds(V, key="d2", name="rc_b")]
PAIRS: dict[str, tuple] = {
    "a new column cannot have values yet, whatever is said of NULL": (
        [ds()],
        [ds(col("c9", "n", "date", nullable=False))],
        (),
        ["rc_a add_column n allowed"],
    ),
    "rename and not null": (
        [ds(V)],
        [ds(col("c2", "x", nullable=False))],
        (),
        ["rc_a change_logic v needs_approval", "rc_a rename_column v>x allowed"],
    ),
    "rename and narrower": (
        [ds(V)],
        [ds(col("c2", "x", "string(5)"))],
        (),
        ["rc_a rename_column v>x allowed", "rc_a retype_column v blocked"],
    ),
    "dataset renamed with a new column: names are those before": (
        [ds(V)],
        [ds(V, W, name="rc_z")],
        (),
        ["rc_a add_column w allowed", "rc_a rename_table rc_a>rc_z allowed"],
    ),
    "dataset renamed and drops a column": (
        [ds(V, W)],
        [ds(V, name="rc_z")],
        ("drop_columns",),
        ["rc_a drop_column w needs_approval", "rc_a rename_table rc_a>rc_z allowed"],
    ),
    "a dataset that takes another's name and another that takes its": (
        TWO,
        [ds(V, name="rc_b"), ds(V, key="d2", name="rc_a")],
        (),
        ["rc_a rename_table rc_a>rc_b allowed", "rc_b rename_table rc_b>rc_a allowed"],
    ),
    "a new dataset under the name that one gives up": (
        [ds(V)],
        [ds(V, name="rc_z"), ds(W, key="d3")],
        (),
        ["rc_a create_table allowed", "rc_a rename_table rc_a>rc_z allowed"],
    ),
    "key of a dataset and a column moved": (
        [ds(V)],
        [ds(col("x2", "v", "string(60)"), key="d9")],
        (),
        ["rc_a widen_column v allowed"],
    ),
    "retired and retyped: nothing physical": ([ds(V)], [ds(col("c2", "v", "integer", active=False))], (), []),
    "retired dataset with dropped columns: nothing physical": ([ds(V, W)], [ds(V, active=False)], (), []),
    "back again, renamed and wider": (
        [ds(col("c2", "v", active=False))],
        [ds(col("c2", "x", "string(60)"))],
        (),
        ["rc_a rename_column v>x allowed", "rc_a widen_column v allowed"],
    ),
    "key retired without history": (
        [ds(col("k2", "t", role="business_key"))],
        [ds(col("k2", "t", role="business_key", active=False))],
        (),
        ["rc_a change_logic allowed"],
    ),
    "key retired with history": (
        [ds(col("k2", "t", role="business_key"), h=True)],
        [ds(col("k2", "t", role="business_key", active=False), h=True)],
        ("drop_columns", "type_alter", "drop_tables", "drop_history_columns"),
        ["rc_a change_logic blocked"],
    ),
    "key wider with history is the same key": (
        [ds(V, h=True)],
        [ds(ID | {"type": "bigint"}, V, h=True, bare=True)],
        (),
        ["rc_a widen_column id allowed", "rc_a_hist widen_column id allowed"],
    ),
    "history on and a column gone": (
        [ds(V, W)],
        [ds(V, h=True)],
        (),
        ["rc_a drop_column w blocked", "rc_a_hist create_table allowed"],
    ),
    "history off and a column gone": (
        [ds(V, W, h=True)],
        [ds(V)],
        ("drop_columns",),
        ["rc_a drop_column w needs_approval"],
    ),
    "view to table with history": (
        [ds(V, materialization="view")],
        [ds(V, h=True)],
        (),
        ["rc_a create_table needs_approval", "rc_a_hist create_table allowed"],
    ),
    "filter, inputs and policies at once are one change": (
        TWO,
        [ds(V, filter="v > ''", inputs=["d2"], load_policy={"a": 1}, history_policy="x"), TWO[1]],
        (),
        ["rc_a change_logic allowed"],
    ),
    "the same with history": (
        [ds(V, h=True)],
        [ds(V, h=True, filter="v > ''", load_policy="y")],
        (),
        ["rc_a change_logic needs_approval"],
    ),
    "drop first, then the rename onto its name; history keeps its column": (
        [ds(V, W, h=True)],
        [ds(col("c2", "w", former_names=["v"]), h=True)],
        ("drop_columns",),
        ["rc_a drop_column w needs_approval", "rc_a rename_column v>w allowed", "rc_a_hist rename_column v>w allowed"],
    ),
    "Unicode, quotes and a reserved word": (
        [ds(V, W)],
        [ds(col("c2", "Größe `m`"), col("c3", "select", "date"))],
        (),
        ["rc_a rename_column v>Größe `m` allowed", "rc_a rename_column w>select allowed"],
    ),
    "another schema and another name": (
        [ds(V, h=True)],
        [ds(V, h=True, schema="serving", name="a")],
        (),
        ["rc_a rename_table rc_a>serving.a allowed", "rc_a_hist rename_table rc_a_hist>serving.a_hist allowed"],
    ),
    "case only": (
        [ds(V)],
        [ds(col("c2", "V"), name="RC_A")],
        (),
        ["rc_a rename_column v>V allowed", "rc_a rename_table rc_a>RC_A allowed"],
    ),
    "a technical column goes and one of its type comes": (
        [ds(V, col("t1", "t", "integer", role="technical"), h=True)],
        [ds(V, col("c9", "n", "integer"), h=True)],
        ("drop_columns",),
        [
            "rc_a add_column n needs_approval",
            "rc_a drop_column t needs_approval",
            "rc_a_hist add_column n needs_approval",
        ],
    ),
    "a column of a type goes and a technical one of it comes": (
        [ds(V, W)],
        [ds(V, col("t1", "t", "date", role="technical"))],
        ("drop_columns",),
        ["rc_a add_column t needs_approval", "rc_a drop_column w needs_approval"],
    ),
    "a retired column goes and one of its type comes": (
        [ds(V, W | {"active": False}, h=True)],
        [ds(V, col("c9", "n", "date"), h=True)],
        ("drop_columns",),
        [
            "rc_a add_column n needs_approval",
            "rc_a drop_column w needs_approval",
            "rc_a_hist add_column n needs_approval",
        ],
    ),
    "a technical column that follows the name of its table is no other one": (
        [ds(V, col("k1", "rc_a_key", role="technical"))],
        [ds(V, col("k2", "rc_z_key", role="technical"), name="rc_z")],
        ("drop_columns",),
        [
            "rc_a add_column rc_z_key allowed",
            "rc_a drop_column rc_a_key needs_approval",
            "rc_a rename_table rc_a>rc_z allowed",
        ],
    ),
    "an empty policy is none": ([ds(V)], [ds(V, load_policy={}, history_policy="")], (), []),
    "an empty text is no policy either": ([ds(V, load_policy="")], [ds(V)], (), []),
    "inputs that stand twice stand once": (
        [ds(V, col("c4", "up", inputs=["c2"]), inputs=["d2"])],
        [ds(V, col("c4", "up", inputs=["c2", "c2"]), inputs=["d2", "d2"])],
        (),
        [],
    ),
    "an inactive dataset gone": ([ds(V, active=False)], [], (), ["rc_a drop_table blocked"]),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_pair_of_state_files_yields_the_operations_of_the_contract(pair: tuple) -> None:
    before, after, allowed, expected = pair
    report = planned(before, after, *allowed)
    assert lines_of(report) == sorted(expected)
    assert (report.status == "blocked") == any(line.endswith(" blocked") for line in expected)


@pytest.mark.parametrize("h", [False, True])
def test_expression_that_follows_a_rename_without_former_names_is_allowed(h: bool) -> None:
    before = ds(V, col("c4", "up", expression="upper(v)", inputs=["c2"]), h=h)
    after = ds(col("c2", "x"), col("c4", "up", expression="upper(x)", inputs=["c2"]), h=h)
    assert "rc_a change_logic up allowed" in lines_of(planned([before], [after]))


@pytest.mark.parametrize(
    ("text", "decision"),
    [("y - x", "allowed"), ("y - y", "needs_approval"), ("x - y + 1", "needs_approval")],
)
def test_expression_is_allowed_only_if_it_follows_swapped_names_exactly(text: str, decision: str) -> None:
    x, y = col("c5", "x", "integer"), col("c6", "y", "integer")
    computed = col("c4", "diff", "integer", expression="x - y", inputs=["c5", "c6"])
    after = ds(x | {"name": "y"}, y | {"name": "x"}, computed | {"expression": text}, h=True)
    assert f"rc_a change_logic diff {decision}" in lines_of(planned([ds(x, y, computed, h=True)], [after]))


def test_column_keys_may_repeat_from_dataset_to_dataset() -> None:
    """Check equal column keys in two datasets: inputs refer to columns of the same dataset."""
    before = ds(V, col("c4", "up", expression="upper(v)", inputs=["c2"]), h=True)
    after = ds(col("c2", "x", former_names=["v"]), col("c4", "up", expression="upper(x)", inputs=["c2"]), h=True)
    other = ds(V, key="d2", name="rc_b")
    assert "rc_a change_logic up allowed" in lines_of(planned([before, other], [after, other]))


def test_former_name_of_another_existing_dataset_raises_a_warning() -> None:
    report = planned(TWO, [TWO[0], TWO[1] | {"former_names": ["rc_a"]}])
    assert (lines_of(report), codes(report)) == ([], ["DUPLICATE_TABLE"])


# --- one fingerprint ---------------------------------------------------------------------------


def test_fingerprint_ignores_spelling_of_types_and_order() -> None:
    before, after = [ds(of_type("integer"), W)], [ds(of_type("bigint"), W, key="d2", name="rc_b"), ds(W)]
    turned = [dict(reversed(dataset.items())) | {"columns": dataset["columns"][::-1]} for dataset in after[::-1]]
    spelled = [ds(W, of_type("INT"))]
    assert planned(before, after).fingerprint == planned(spelled, turned).fingerprint


@pytest.mark.parametrize("flag", ["drop_columns", "drop_history_columns", "drop_tables", "type_alter"])
def test_fingerprint_covers_each_allow_flag(flag: str) -> None:
    assert planned(TWO, TWO, flag).fingerprint != planned(TWO, TWO).fingerprint


def test_fingerprint_is_the_same_in_two_locales(tmp_path: Path) -> None:
    files = []
    for name, side in (("before", BEFORE), ("after", AFTER)):
        files.append(tmp_path / name)
        files[-1].write_text(dump_state(side), encoding="utf-8")
    fingerprints = set()
    for locale in ("C", "C.UTF-8"):
        command = [sys.executable, "-c", FINGERPRINT, *map(str, files)]
        environment = os.environ | {"LC_ALL": locale, "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
        fingerprints.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(fingerprints) == 1
