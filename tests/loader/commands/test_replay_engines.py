"""``manage.py replay --engine``: cases through rendered SQL."""

import json

import pytest

from elevata.accounts.cli import CommandExit
from tests.loader.commands.test_replay import CASE, cases, run

__all__ = ["cases"]
FEED = {
    "id": "feed",
    "keys": ["id"],
    "columns": {"id": "integer", "v": "string"},
    "policy": {"input": "cdc", "time": "seq"},
    "batches": [{"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": 1, "v": "a", "op": "I", "seq": 1}]}],
    "expected": [],
}
REFUSED = CASE | {
    "id": "refused",
    "batches": [*CASE["batches"], {"at": "2024-01-02T00:00:00Z", "run_id": "s", "rows": [{"v": "b"}], "error": True}],
}
ENGINES = ["duckdb", pytest.param("postgres", marks=pytest.mark.services)]


@pytest.mark.parametrize("engine", ENGINES)
def test_replay_runs_cases_through_rendered_sql(cases, engine):
    outcomes = {item["id"]: item for item in json.loads(run(cases(CASE, REFUSED, FEED), "--engine", engine, "--json"))}
    assert {id_: outcome["passed"] for id_, outcome in outcomes.items()} == {"one": True, "refused": True, "feed": None}
    assert outcomes["feed"]["message"].startswith("NOT_RENDERED: ")
    assert set(outcomes["one"]) == {"id", "passed", "message", "actual"}


def test_case_that_is_not_rendered_neither_passes_nor_fails(cases):
    assert "1 cases, all as expected, 1 not rendered" in run(cases(CASE, FEED), "--engine", "duckdb")


def test_case_that_differs_exits_with_1(cases):
    other = CASE | {"expected": [CASE["expected"][0] | {"v": "b"}]}
    with pytest.raises(CommandExit, match="1 of 1 cases differ: one") as end:
        run(cases(other), "--engine", "duckdb")
    assert end.value.returncode == 1


def test_url_is_permitted_with_postgres_only(cases):
    with pytest.raises(CommandExit, match="--url") as end:
        run(cases(CASE), "--engine", "duckdb", "--url", "postgresql://localhost/x")
    assert end.value.returncode == 4


def test_unreachable_server_is_refused(cases):
    with pytest.raises(CommandExit, match="cannot be reached"):
        run(cases(CASE), "--engine", "postgres", "--url", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")
