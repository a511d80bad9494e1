"""``manage.py plan --dialect``: statements of each operation of two state files."""

import json
from pathlib import Path

import pytest

from architecture.domain.states.state_files import ArchitectureState, dump_state
from tests.architecture.commands.test_plan import DROPPED, RENAMED, files, run
from tests.architecture.states import column, dataset, state

__all__ = ["files"]


@pytest.mark.parametrize("dialect", ["bigquery", "databricks", "duckdb", "fabric", "mssql", "postgres", "snowflake"])
def test_json_has_the_statements_of_each_operation(files, capsys, dialect):
    assert run(*files(RENAMED), "--format", "json", "--dialect", dialect) == 0
    (operation,) = json.loads(capsys.readouterr().out)["operations"]
    assert operation["op"] == "rename_column"
    assert operation["statements"]
    assert all(text.endswith(";") for text in operation["statements"])


def test_text_and_markdown_print_the_statements(files, capsys):
    statement = 'ALTER TABLE "rawcore"."rc_d1" RENAME COLUMN "a" TO "a2";'
    for format_ in ("text", "markdown"):
        assert run(*files(RENAMED), "--format", format_, "--dialect", "postgres") == 0
        assert statement in capsys.readouterr().out


def test_blocked_operation_has_no_statement(files, capsys):
    assert run(*files(DROPPED), "--format", "json", "--dialect", "duckdb") == 0
    (operation,) = json.loads(capsys.readouterr().out)["operations"]
    assert (operation["decision"], operation["statements"]) == ("blocked", [])


def with_key(type_: str, *, historize: bool = False, role: str = "business_key") -> ArchitectureState:
    columns = column("k1", "id", type_, role=role, nullable=role != "business_key"), column("k2", "v")
    return state(dataset("d1", "", *columns, historize=historize))


def statements_of(files, capsys, before: ArchitectureState, after: ArchitectureState, dialect: str) -> list[list[str]]:
    arguments = files(after)
    Path(arguments[1]).write_text(dump_state(before), encoding="utf-8")
    assert run(*arguments, "--format", "json", "--dialect", dialect) == 0
    return [operation["statements"] for operation in json.loads(capsys.readouterr().out)["operations"]]


@pytest.mark.parametrize("dialect", ["databricks", "duckdb"])
@pytest.mark.parametrize("type_", ["uuid", "time", "json"])
def test_key_hashed_by_value_that_becomes_text_is_not_rendered(files, capsys, type_, dialect):
    before, after = (with_key(each, historize=True) for each in (type_, "string"))
    reason = f"id {type_} → string: rendered loads do not find the stored keys of a {type_}"
    assert statements_of(files, capsys, before, after, dialect) == [
        [f"-- NOT_RENDERED: widen_column rawcore.{table}: {reason}"] for table in ("rc_d1", "rc_d1_hist")
    ]


def test_attribute_hashed_by_value_that_becomes_text_needs_no_statement(files, capsys):
    before, after = (with_key(each, role="attribute") for each in ("uuid", "string"))
    assert statements_of(files, capsys, before, after, "duckdb") == [[]]


def test_key_that_a_rebuild_hashes_anew_is_rendered(files, capsys):
    before, after = with_key("uuid"), with_key("string(36)")
    ((*_, hashed),) = statements_of(files, capsys, before, after, "duckdb")
    assert hashed.startswith('UPDATE "rawcore"."rc_d1"\nSET\n  "rc_d1_key" = sha256(')
    assert "lower(" not in hashed


def test_dialect_needs_both_state_files_or_none(files, capsys):
    previous = files(RENAMED)[:2]
    assert run(*previous, "--dialect", "duckdb") == 4


@pytest.mark.parametrize(("dialect", "physical"), [("mssql", "datetime2(7)"), ("mssql", "bit"), ("postgres", "int8")])
def test_state_files_may_have_types_of_the_dialect(files, capsys, dialect, physical):
    arguments = files(RENAMED)
    for path in map(Path, arguments[1::2]):
        document = json.loads(path.read_text())
        document["datasets"][0]["columns"][0]["type"] = physical
        path.write_text(json.dumps(document))
    assert run(*arguments, "--format", "json", "--dialect", dialect) == 0
    capsys.readouterr()
    assert run(*arguments) == 4
    assert f"{physical!r}" in capsys.readouterr().err


def test_type_that_the_dialect_does_not_have_is_refused(files, capsys):
    arguments = files(RENAMED)
    path = Path(arguments[1])
    document = json.loads(path.read_text())
    document["datasets"][0]["columns"][0]["type"] = "geography"
    path.write_text(json.dumps(document))
    assert run(*arguments, "--dialect", "mssql") == 4
    assert "geography" in capsys.readouterr().err


def test_unknown_dialect_is_refused(files):
    assert run(*files(RENAMED), "--dialect", "oracle") == 4
