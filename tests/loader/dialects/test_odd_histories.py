"""Histories with odd values, names and times: rendered SQL against the reference, and what is not rendered."""

import json

import pytest

from loader.domain.reference import ReferenceEngine
from loader.domain.reference.case_comparison import Comparison
from loader.domain.reference.cases import Outcome, parse_cases
from loader.services.sql_replay import replay_sql
from tests.loader.dialects.engines import ENGINES, connection_to

DAYS = [f"2026-11-{day:02d}T00:00:00Z" for day in range(1, 10)]
# Words that are no names without quotes, aliases of rendered queries, and characters with a meaning in SQL or messages.
NAMES = ["current_timestamp", "select", "user", "now", "s", "t", "k", "$block1$", "a$block1$b", "a$$b", "%s", "{}"]
TEXTS = ["a\r\nb", "\\", "'", '"', "$$", "$block1$", "%", "{}", "{{ load_run_id }}", "--", ";\n", "\x01", "x" * 100_000]
KEYS = ["a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "i", "I", "İ", "ı", "", "ﬁ", "fi", "\u200ba", "日本", "🛫"]


def outcome_of(engine: str, case: dict) -> Outcome:
    """Replay a case with the rows that the reference has at its end."""
    described = {"id": "odd", "keys": ["id"], "policy": {"input": "snapshot"}} | case
    (parsed,) = parse_cases(json.dumps([described | {"expected": []}]))
    reference = ReferenceEngine(parsed.header())
    for batch in parsed.batches:
        reference.apply(batch)
    rows = Comparison(parsed.types(), parsed.policy).ordered(reference.rows())
    expected = Outcome("", True, "", tuple(rows)).as_json()["actual"]
    (parsed,) = parse_cases(json.dumps([described | {"expected": expected}]))
    (outcome,) = replay_sql([parsed], engine, connection_to(engine))
    return outcome


def batches_of(*rows: list[dict], days: list[str] = DAYS) -> list[dict]:
    return [
        {"at": at, "run_id": f"run-{at}", "rows": delivered, "allow_deletes": True, "allow_empty": True}
        for at, delivered in zip(days, rows, strict=False)
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", [{}, {"deletes": "tombstone"}], ids=["closed", "tombstones"])
def test_columns_with_odd_names_keep_their_history(engine, policy):
    columns = {"id": "integer"} | dict.fromkeys(NAMES, "string")
    first, second = ({"id": 1} | {name: f"{name}{n}" for name in NAMES} for n in (1, 2))
    case = {"columns": columns, "policy": {"input": "snapshot"} | policy, "batches": batches_of([first], [second], [])}
    outcome = outcome_of(engine, case)
    assert (outcome.passed, outcome.message) == (True, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_odd_texts_keep_their_history(engine):
    first, second = ([{"id": n, "v": f"{text}{end}"} for n, text in enumerate(TEXTS)] for end in ("", " "))
    case = {"columns": {"id": "integer", "v": "string"}, "batches": batches_of(first, second, second[::2])}
    outcome = outcome_of(engine, case)
    assert (outcome.passed, outcome.message) == (True, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_that_collations_could_take_for_equal_are_different(engine):
    rows = [{"id": key, "v": number} for number, key in enumerate(KEYS)]
    case = {"columns": {"id": "string", "v": "integer"}, "batches": batches_of(rows, rows[::2], rows)}
    outcome = outcome_of(engine, case)
    assert (outcome.passed, outcome.message) == (True, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_and_values_of_the_first_and_last_year_keep_their_times(engine):
    days = ["0001-01-01T00:00:00Z", "0999-12-31T00:00:00Z", "2026-11-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]
    case = {
        "columns": {"id": "integer", "v": "timestamp", "d": "date"},
        "batches": batches_of(*([{"id": 1, "v": day, "d": day[:10]}] for day in days), days=days),
    }
    outcome = outcome_of(engine, case)
    assert (outcome.passed, outcome.message) == (True, "")


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("duckdb", "\ud800"),
        pytest.param("postgres", "\ud800", marks=pytest.mark.services),
        pytest.param("postgres", "a\x00b", marks=pytest.mark.services),
    ],
    ids=["half a character", "half a character in PostgreSQL", "NUL in PostgreSQL"],
)
def test_text_that_the_database_does_not_hold_is_not_rendered(engine, text):
    case = {"columns": {"id": "integer", "v": "string"}, "batches": batches_of([{"id": 1, "v": text}])}
    outcome = outcome_of(engine, case)
    assert outcome.passed is None
    assert outcome.message.startswith("NOT_RENDERED: ")


def test_nul_in_a_text_keeps_its_history_on_duckdb():
    case = {"columns": {"id": "string"}, "batches": batches_of([{"id": "a\x00"}, {"id": "a"}], [{"id": "a"}])}
    assert outcome_of("duckdb", case).passed


@pytest.mark.parametrize(("type_", "value"), [("uuid", "123E4567-E89B-12D3-A456-426614174000"), ("time", "10:00")])
def test_key_that_becomes_text_and_was_hashed_by_value_is_not_rendered(type_, value):
    before, after = ({"id": type_, "v": "integer"}, {"id": "string", "v": "integer"})
    batches = batches_of([{"id": value, "v": 1}], [{"id": value, "v": 1}])
    batches = [batch | {"columns": columns} for batch, columns in zip(batches, (before, after), strict=True)]
    outcome = outcome_of("duckdb", {"columns": after, "batches": batches})
    assert outcome.passed is None
    assert outcome.message == f"NOT_RENDERED: id: keys of {type_} are not found by string"
