"""``manage.py plan --dialect``: statements of each operation of two state files."""

import json
from pathlib import Path

import pytest

from tests.architecture.commands.test_plan import DROPPED, RENAMED, files, run

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
