"""Change reports: content, fingerprint and formats."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import thread_time

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import Operation, operation_of
from architecture.domain.report import build_report, title_of
from architecture.domain.report_text import as_markdown, as_text
from architecture.domain.scope import keys_in_scope, scope_document
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import dump_state
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope, ScopeProblem
from metadata.domain.state import DatasetState
from tests.architecture.states import column, dataset, report, state

ROOT = Path(__file__).resolve().parents[3]
BEFORE = state(dataset("d1", "", column("k1", "a"), column("k2", "b"), column("k3", "c", "date"), historize=True))
AFTER = state(
    dataset("d1", "", column("k1", "a2"), column("k3", "c", "timestamp"), column("k4", "n"), historize=True),
    dataset("d2"),
)


def fingerprint(**changed: object) -> str:
    arguments = {"current": BEFORE, "desired": AFTER, "policy": PolicySet(), "scope": Scope(), "environment": "dev"}
    arguments |= changed
    current = CurrentState.of_state(arguments.pop("current"))
    return build_report(current, *arguments.values()).fingerprint


def edited(**fields: object):
    return state(replace(AFTER.datasets[0], **fields), *AFTER.datasets[1:])


@pytest.mark.parametrize(
    "changed",
    [
        {"environment": "prod"},
        {"policy": PolicySet.of_flags({"drop_columns": True})},
        {"policy": PolicySet.from_json({"approver_may_execute": False})},
        {"scope": Scope(DATASET, "rawcore.rc_d1")},
        {"scope": Scope(DATASET, "rawcore.rc_d1", target_only=True)},
        {"current": AFTER},
        {"desired": edited(filter="a2 > 1")},
        {"desired": edited(former_names=("rc_old",))},
        {"desired": edited(hash_version=2)},
        {"desired": edited(columns=(replace(AFTER.datasets[0].columns[0], expression="upper(a)"),))},
    ],
    ids=str,
)
def test_fingerprint_covers_everything_that_decides_an_execution(changed: dict) -> None:
    assert fingerprint(**changed) != fingerprint()


def test_fingerprint_ignores_edits_outside_the_scope() -> None:
    scope = Scope(DATASET, "rawcore.rc_d1")
    other = state(AFTER.datasets[0], dataset("d2", "", column("other")))
    assert fingerprint(scope=scope, desired=other) == fingerprint(scope=scope)


def test_fingerprint_ignores_the_labels_of_the_two_sides() -> None:
    assert fingerprint(scope=Scope("files", source="dev", target="test")) == fingerprint(scope=Scope("files"))


_SCRIPT = """
import locale, sys
from architecture.domain.states.current_state import CurrentState
from architecture.domain.change_policy import PolicySet
from architecture.domain.report import build_report
from architecture.domain.states.state_files import parse_state
locale.setlocale(locale.LC_ALL, "")
before, after = (parse_state(open(path, encoding="utf-8").read()) for path in sys.argv[1:])
print(build_report(CurrentState.of_state(before), after, PolicySet()).fingerprint)
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_fingerprint_is_the_same_for_every_hash_seed(locale: str, tmp_path: Path) -> None:
    paths = []
    for name, side in (("before", BEFORE), ("after", AFTER)):
        paths.append(tmp_path / name)
        paths[-1].write_text(dump_state(side), encoding="utf-8")
    fingerprints = set()
    for seed in range(4 if locale == "C" else 2):
        environment = os.environ | {"PYTHONHASHSEED": str(seed), "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", _SCRIPT, *map(str, paths)]
        fingerprints.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(fingerprints) == 1


def test_fingerprint_of_a_report_is_the_same_in_every_release() -> None:
    """Check a fixed fingerprint, because approvals of stored reports refer to it."""
    assert report(state(dataset("d1")), state(dataset("d1", "rc_x"))).fingerprint == (
        "8b02f74ae298ff5c240acbe57534b600de9c962189431a4e2bdd21aa34fe5484"
    )


# --- content ---------------------------------------------------------------------------------


def test_json_has_the_fields_of_the_contract() -> None:
    document = report(BEFORE, AFTER).as_json()
    assert list(document) == ["format", "fingerprint", "scope", "status", "destructive", "operations", "warnings"]
    known = {"op", "dataset", "column", "from", "to", "decision", "code", "message", "destructive"}
    assert {name for operation in document["operations"] for name in operation} <= known
    assert {tuple(warning) for warning in document["warnings"]} == {("code", "dataset", "column", "message")}
    json.dumps(document)


def test_an_operation_is_read_back_from_its_row() -> None:
    for operation in report(BEFORE, AFTER).operations:
        assert operation_of(json.loads(json.dumps(operation.as_row()))) == operation


def test_report_of_equal_states_has_no_changes() -> None:
    change_report = report(BEFORE, BEFORE)
    assert (change_report.status, change_report.risk, change_report.operations) == ("no_changes", "safe", ())


def test_text_lists_status_operations_warnings_and_fingerprint() -> None:
    lines = as_text(report(BEFORE, AFTER)).splitlines()
    assert lines[0].startswith("previous state → desired state: blocked, destructive, 1 blocked, 4 needs approval")
    assert "rename_column rawcore.rc_d1: a → a2" in lines[2]
    assert any(line.strip().startswith("warning  POSSIBLE_RENAME rawcore.rc_d1.n:") for line in lines)
    assert lines[-1].startswith("fingerprint ")


def test_markdown_escapes_column_names() -> None:
    odd = state(dataset("d1", "", column("k1", "a|b <i>*")))
    text = as_markdown(report(state(dataset("d1", "", column("k1", "a"))), odd))
    assert "a → a\\|b \\<i\\>\\*" in text


# --- scope -----------------------------------------------------------------------------------


def datasets() -> tuple[DatasetState, ...]:
    return (
        dataset("r", "raw_a", schema="raw"),
        dataset("s", "stg_a", schema="stage", inputs=("r",)),
        dataset("c", "rc_a", inputs=("s", "source-9")),
        dataset("o", "rc_other"),
    )


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope(ALL), {"r", "s", "c", "o", "gone"}),
        (Scope(SCHEMA, "rawcore"), {"r", "s", "c", "o", "gone"}),
        (Scope(SCHEMA, "stage"), {"r", "s"}),
        (Scope(DATASET, "rawcore.rc_a"), {"r", "s", "c"}),
        (Scope(DATASET, "rawcore.rc_a", target_only=True), {"c"}),
        (Scope(DATASET, "rawcore.rc_gone"), {"gone"}),
        (Scope(SELECTION, "rawcore.rc_gone rawcore.rc_a"), {"r", "s", "c", "gone"}),
    ],
    ids=lambda value: str(value) if isinstance(value, Scope) else "",
)
def test_a_scope_resolves_to_datasets(scope: Scope, names: set[str]) -> None:
    current = CurrentState.of_state(state(dataset("gone", "rc_gone")))
    assert keys_in_scope(scope, current, datasets()) == names


def test_scope_resolves_to_no_dataset_that_it_leaves_out() -> None:
    scope = Scope(SCHEMA, "rawcore", without_blocked=True, without=("c", "s"))
    assert keys_in_scope(scope, CurrentState(), datasets()) == {"r", "o"}


def test_document_of_a_scope_without_blocked_datasets_contains_that() -> None:
    scope = Scope(without_blocked=True, without=("c",))
    assert scope_document(scope, ["raw.raw_a"]) == {"kind": "all", "without_blocked": True, "datasets": ["raw.raw_a"]}


@pytest.mark.parametrize(
    ("words", "exclude", "names"),
    [
        ("tag:finance", "", "rawcore.rc_a rawcore.rc_other"),
        ("layer:stage", "", "stage.stg_a"),
        ("raw.*", "", "raw.raw_a"),
        ("raw.raw_a+", "", "raw.raw_a rawcore.rc_a stage.stg_a"),
        ("+stage.stg_a rawcore.rc_other", "", "raw.raw_a rawcore.rc_other stage.stg_a"),
        ("rawcore.rc_a rawcore.rc_other", "rawcore.rc_a", "rawcore.rc_other"),
        ("raw.raw_a+", "layer:stage tag:finance", "raw.raw_a"),
    ],
)
def test_words_of_a_selection_become_the_names_of_its_datasets(words: str, exclude: str, names: str) -> None:
    scope = Scope(SELECTION, words, exclude=exclude)
    assert scope.has_words
    assert scope.with_names(datasets(), {"c": ["finance"], "o": ["finance"]}) == Scope(SELECTION, names)


def test_a_word_that_selects_nothing_is_refused_in_a_report() -> None:
    with pytest.raises(ScopeProblem, match=r"no dataset is selected by tag:nothing\. A word is"):
        Scope(SELECTION, "rawcore.rc_a tag:nothing").with_names(datasets(), {})


@pytest.mark.parametrize(
    "scope",
    [
        Scope(SCHEMA, "serving"),
        Scope(DATASET, "rawcore.nothing"),
        Scope(SELECTION, "rawcore.rc_a rawcore.nothing"),
    ],
)
def test_scope_with_an_unknown_name_is_refused(scope: Scope) -> None:
    with pytest.raises(ScopeProblem, match="there is no"):
        keys_in_scope(scope, CurrentState(), datasets())


def test_target_only_requires_a_dataset_scope() -> None:
    with pytest.raises(ScopeProblem, match="goes with a dataset"):
        keys_in_scope(Scope(ALL, target_only=True), CurrentState(), datasets())


def test_report_lists_the_datasets_of_its_scope() -> None:
    current = CurrentState.of_state(state())
    change_report = build_report(current, datasets(), PolicySet(), Scope(DATASET, "rawcore.rc_a"))
    assert change_report.as_json()["scope"] == {
        "kind": "dataset",
        "name": "rawcore.rc_a",
        "dependency_mode": "with_dependencies",
        "datasets": ["raw.raw_a", "rawcore.rc_a", "stage.stg_a"],
    }


# --- size ------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_2000_datasets_with_30_columns_take_less_than_5_seconds() -> None:
    def described(renamed: bool):
        ending = "_new" if renamed else ""
        return state(
            *(
                dataset(
                    f"d{n}",
                    f"rc_{n}",
                    *(
                        column(f"k{n}_{m}", f"c{m}{ending if m % 10 == 0 else ''}", inputs=(f"s{m}",))
                        for m in range(30)
                    ),
                    historize=True,
                    inputs=(f"d{n - 1}",),
                )
                for n in range(2000)
            )
        )

    before, after = described(False), described(True)
    started = thread_time()
    change_report = report(before, after)
    assert thread_time() - started < 5
    assert len(change_report.operations) == 2000 * 3 * 2


def test_resolved_scope_keeps_its_datasets_after_a_rename() -> None:
    """Check a scope whose dataset has no longer the name that the scope was requested with."""
    scope = Scope(DATASET, "rawcore.rc_old", keys=frozenset({"d1"}))
    after = state(dataset("d1", "rc_new"), dataset("d2", "rc_b"))
    assert build_report(CurrentState.of_state(after), after, PolicySet(), scope).content["scope"][-1] == ["d1"]


@pytest.mark.parametrize(
    ("datasets", "title"),
    [
        (("raw.raw_crm_customer", "stage.stg_crm_customer", "rawcore.rc_crm_customer"), "crm_customer"),
        (("rawcore.rc_customer", "serving.sales", "rawcore.rc_orders"), "customer, sales and 1 more"),
        (("rawcore.rc_customer", "rawcore.rc_customer_hist", "serving.sales"), "customer, sales"),
        ((), "schema rawcore"),
    ],
)
def test_a_report_is_named_by_the_datasets_that_it_changes(datasets: tuple[str, ...], title: str) -> None:
    operations = [Operation("add_column", name, name) for name in datasets]
    assert title_of(operations, Scope("schema", "rawcore")) == title
