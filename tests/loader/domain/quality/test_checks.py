"""Quality checks as SQL, and the evaluation of their numbers."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from loader.contract.check_outcomes import PASSED, QUARANTINED, STOPPED, WARNED, Result, refusal_of, warnings_of
from loader.contract.manifest.checks import CheckSpec
from loader.domain.quality.checks import FAILED, INCOMPUTABLE, TOTAL, VALUE, CompiledCheck, compile_check
from loader.domain.quality.evaluation import evaluate
from loader.domain.quality.sensitive_results import is_sensitive, without_revealing_numbers, without_sensitive
from metadata.domain.quality.check_kinds import QualityProblem
from metadata.domain.types import parse

_TYPES = {"id": "integer", "name": "string", "price": "decimal(10,2)", "at": "timestamp", "day": "date"}
TYPES = {name: parse(text) for name, text in _TYPES.items()}
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def spec(kind: str, severity: str = "warn", past: tuple[int, ...] = (), **arguments) -> CheckSpec:
    return CheckSpec("k", kind, kind, severity, arguments, past=past)


def compiled(kind: str, **options) -> CompiledCheck:
    return compile_check(
        spec(kind, **options), TYPES, {"load_timestamp": "TIMESTAMP '2024-05-01'", "load_run_id": "'r'"}
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "fails"),
    [
        ("not_null", {"columns": ["id", "name"]}, "`id` IS NULL OR `name` IS NULL"),
        ("accepted_values", {"columns": ["name"], "values": ["a", "o'b"]}, "`name` NOT IN ('a', 'o\\'b')"),
        ("range", {"columns": ["price"], "minimum": "0", "maximum": "9.5"}, "`price` < 0 OR `price` > 9.5"),
        ("range", {"columns": ["day"], "minimum": "2024-01-01"}, "`day` < DATE '2024-01-01'"),
        ("pattern", {"columns": ["name"], "pattern": r"\d+"}, r"NOT (`name` RLIKE '\\A(?:\\d+)\\z')"),
        ("length", {"columns": ["name"], "maximum": "3"}, "char_length(`name`) > 3"),
        ("condition", {"condition": "price > 0"}, "NOT (price > 0)"),
        ("condition", {"condition": "at <= {{ load_timestamp }}"}, "NOT (at <= TIMESTAMP '2024-05-01')"),
    ],
)
def test_row_check_compiles_to_the_condition_of_a_failing_row(kind, arguments, fails):
    check = compiled(kind, **arguments)
    assert check.fails == fails
    assert check.numbers == {FAILED: f"count_if({fails})", TOTAL: "count(1)"}


def test_where_limits_the_rows_that_are_checked():
    check = compiled("not_null", columns=["name"], where="id > 5")
    assert check.fails == "(id > 5) AND (`name` IS NULL)"
    assert check.numbers[TOTAL] == "count_if(id > 5)"


def test_a_check_of_a_column_that_is_gone_is_refused():
    with pytest.raises(QualityProblem, match="'former', which is no column of the dataset"):
        compiled("not_null", columns=["former"])


@pytest.mark.parametrize(("severity", "outcome"), [("warn", WARNED), ("quarantine", QUARANTINED), ("stop", STOPPED)])
def test_the_severity_decides_the_outcome_of_failing_rows(severity, outcome):
    check = compiled("not_null", columns=["name"], severity=severity)
    assert evaluate(check, {FAILED: 2, TOTAL: 9}, at=NOON).outcome == outcome
    assert evaluate(check, {FAILED: 0, TOTAL: 9}, at=NOON).outcome == PASSED


def test_result_counts_rows_that_could_not_be_computed_and_names_the_error():
    check = replace(compiled("condition", condition="1 / id > 0"), error="DIVIDE_BY_ZERO")
    result = evaluate(check, {FAILED: 2, TOTAL: 9, INCOMPUTABLE: 1}, at=NOON)
    assert result.line == "condition: 2 rows of 9 failed, 1 of them could not be computed: DIVIDE_BY_ZERO"


@pytest.mark.parametrize(("severity", "stops"), [("warn", False), ("quarantine", True), ("stop", True)])
def test_a_check_that_cannot_run_stops_unless_it_only_warns(severity, stops):
    assert spec("not_null", severity).broken("the column is gone").stops is stops
    assert spec("not_null", "quarantine").result(QUARANTINED).stops is False


def test_a_result_without_a_number_of_rows_counts_the_failed_ones_only():
    assert spec("query").result(WARNED, failed=1).line == "query: 1 row failed"


def hours_ago(hours: float) -> int:
    return int((NOON.timestamp() - hours * 3600) * 1_000_000)


@pytest.mark.parametrize(("age", "outcome"), [(23.9, PASSED), (24, PASSED), (24.1, WARNED)])
def test_freshness_compares_the_newest_value_with_the_time_of_the_run(age, outcome):
    result = evaluate(compiled("freshness", columns=["at"], hours=24), {VALUE: hours_ago(age)}, at=NOON)
    assert (result.outcome, result.high) == (outcome, 24.0)


def test_rows_without_any_time_are_not_fresh():
    result = evaluate(compiled("freshness", columns=["at"], hours=24), {VALUE: None}, at=NOON)
    assert (result.outcome, result.message) == (WARNED, "at has no value")


@pytest.mark.parametrize(("count", "outcome"), [(9, WARNED), (10, PASSED), (20, PASSED), (21, WARNED)])
def test_a_row_count_lies_between_its_limits(count, outcome):
    result = evaluate(compiled("row_count", minimum="10", maximum="20"), {VALUE: count}, at=NOON)
    assert (result.outcome, result.value, result.low, result.high) == (outcome, count, 10.0, 20.0)


def test_a_changed_row_count_passes_while_the_band_is_learned():
    result = evaluate(compiled("row_count_change", past=(100, 100)), {VALUE: 1}, at=NOON)
    assert (result.outcome, result.message) == (PASSED, "learns from the first 5 runs, 2 so far")


def test_a_row_count_outside_the_band_of_the_last_runs_fails():
    past = (1000, 1010, 990, 1005, 995, 1002)
    assert evaluate(compiled("row_count_change", past=past), {VALUE: 1020}, at=NOON).outcome == PASSED
    result = evaluate(compiled("row_count_change", past=past), {VALUE: 500}, at=NOON)
    assert result.outcome == WARNED
    assert result.message.startswith("500 rows, the last runs had ")


@pytest.mark.parametrize(
    ("own", "other", "tolerance", "outcome"),
    [
        ("100.00", "100", "", PASSED),
        ("101", "100", "", WARNED),
        ("101", "100", "0.01", PASSED),
        (None, None, "", PASSED),
        (None, "0", "", WARNED),
    ],
)
def test_totals_may_differ_by_the_tolerance(own, other, tolerance, outcome):
    total = {"aggregate": "sum", "columns": ["price"], "dataset": "a.b", "other_columns": ["price"]}
    check = compiled("total", **total, **({"tolerance": tolerance} if tolerance else {}))
    assert evaluate(check, {VALUE: own}, at=NOON, other=other).outcome == outcome


TOTAL_OF_SALARIES = {"aggregate": "max", "columns": ["price"], "dataset": "hr.salary", "other_columns": ["Salary"]}


@pytest.mark.parametrize(("own", "other"), [(("price",), ()), ((), ("salary",))])
def test_a_total_of_a_sensitive_column_on_either_side_has_no_values(own, other):
    check = compiled("total", **TOTAL_OF_SALARIES)
    differs = evaluate(check, {VALUE: "1.00"}, at=NOON, other="98000.00")
    (result,) = without_sensitive([differs], [replace(check.spec, other_sensitive=other)], own)
    assert (result.outcome, result.value, result.low, result.high) == (WARNED, None, None, None)
    assert result.message == "max of price differs from that of hr.salary.Salary"


def test_the_age_of_a_sensitive_date_is_not_shown():
    check = compiled("freshness", columns=["at"], hours=24)
    (result,) = without_sensitive([evaluate(check, {VALUE: hours_ago(30)}, at=NOON)], [check.spec], ("at",))
    assert (result.outcome, result.value, result.message) == (WARNED, None, "the newest at is older than 24 h")


def test_numbers_of_harmless_columns_are_shown():
    check = compiled("total", **TOTAL_OF_SALARIES)
    differs = evaluate(check, {VALUE: "1.00"}, at=NOON, other="98000.00")
    assert without_sensitive([differs], [check.spec], ("name",)) == [differs]


ROW_COUNT = {"minimum": "1"}
NUMBER_TELLS = (
    ("condition", {"condition": "price > id * 10"}),
    ("row_count", ROW_COUNT | {"where": "price > 90000"}),
    ("row_count_change", {"where": "price > 90000"}),
    ("not_null", {"columns": ["name"], "where": "price > 90000"}),
    ("unique", {"columns": ["name"], "where": "price > 90000"}),
    ("relationship", {"columns": ["id"], "dataset": "a.b", "other_columns": ["id"], "where": "price > 9"}),
    ("query", {"sql": "SELECT 1 FROM a.b LATERAL VIEW explode(split(repeat(',', Price - 1), ',')) WHERE id = 1"}),
    ("query", {"sql": "SELECT DISTINCT * FROM a.b"}),
    ("query", {"sql": "SELECT * FROM a.b UNION SELECT * FROM a.b"}),
    ("query", {"sql": "SELECT * FROM a.b NATURAL JOIN a.c"}),
    ("query", {"sql": "SELECT * FROM a.b WHERE id IN (SELECT price FROM a.c)"}),
    ("query", {"sql": "SELECT * FROM (SELECT DISTINCT * FROM a.b)"}),
    ("query", {"sql": "SELECT *, explode(sequence(1, price)) FROM a.b"}),
    ("query", {"sql": "SELECT price FROM a.b GROUP BY ALL"}),
    ("query", {"sql": "SELECT max(price) AS m FROM a.b HAVING m > 5"}),
)
NUMBER_TELLS_NONE = (
    ("condition", {"condition": "id > 10"}),
    ("row_count", ROW_COUNT),
    ("not_null", {"columns": ["price"]}),
    ("range", {"columns": ["price"], "minimum": "0", "where": "id > 5"}),
    ("unique", {"columns": ["price"]}),
    ("query", {"sql": "SELECT count(*) FROM a.b WHERE id = 1"}),
    ("query", {"sql": "SELECT * FROM a.b WHERE id = 'x'"}),
    ("query", {"sql": "SELECT b.*, b.price AS p FROM a.b AS b WHERE b.id = 1 ORDER BY p LIMIT 5"}),
)


def test_row_count_chosen_by_a_sensitive_column_is_stored_with_its_dataset_and_in_no_message():
    for kind, arguments in NUMBER_TELLS:
        check = spec(kind, "stop", **arguments)
        failed = check.result(STOPPED, failed=91001, total=91001, samples=("id=91001",), message="91001 rows")
        (stored,) = without_sensitive([failed], [check], ("price",), own="own")
        assert (stored.failed, stored.samples, stored.tells) == (91001, (), ("own",)), kind
        assert Result.from_json(stored.as_json()) == stored
        refusal = refusal_of("rc.item", without_revealing_numbers([stored]))
        warnings = warnings_of(without_revealing_numbers([replace(stored, severity="warn")]))
        assert "91001" not in f"{refusal.as_json()} {warnings}", kind


def test_row_count_without_sensitive_values_is_shown():
    for kind, arguments in NUMBER_TELLS_NONE:
        check = spec(kind, **arguments)
        failed = check.result(WARNED, failed=2, total=3)
        assert without_revealing_numbers(without_sensitive([failed], [check], ("price",), own="own")) == [failed], kind


BY_TABLE = (("a.b", ()), ("hr.person", ("salary", "name")))


@pytest.mark.parametrize(
    ("sql", "tells"),
    [
        ("SELECT * FROM a.b WHERE name = 'x'", False),
        ("SELECT * FROM a.b NATURAL JOIN a.b AS c", False),
        ("SELECT * FROM hr.person WHERE id = 1", False),
        ("SELECT * FROM hr.person WHERE Name = 'x'", True),
        ("SELECT 1 FROM a.b AS x JOIN hr.person AS p ON x.id = p.id WHERE x.name = 'x'", False),
        ("SELECT 1 FROM a.b AS x JOIN hr.person AS p ON x.id = p.id WHERE p.name = 'x'", True),
        ("SELECT 1 FROM a.b AS x JOIN hr.person AS p ON x.id = p.id WHERE name = 'x'", True),
        ("SELECT 1 FROM a.b JOIN hr.person USING (name)", True),
        ("SELECT 1 FROM a.b AS x WHERE EXISTS (SELECT 1 FROM hr.person AS x WHERE x.name = 'x')", True),
        ("WITH x AS (SELECT id, name AS n FROM hr.person) SELECT 1 FROM x, a.b WHERE x.n = 'x'", True),
        ("WITH x AS (SELECT * FROM hr.person) SELECT 1 FROM x, a.b AS y WHERE x.id = 1", True),
        ("SELECT 1 FROM hr.person, a.b AS x WHERE hr.person.salary > 1", True),
        ("SELECT 1 FROM hr.person WHERE name.salary > 1 AND 1 IN (SELECT 1 FROM a.b AS name)", True),
    ],
)
def test_query_row_count_reveals_columns_that_are_sensitive_in_their_table(sql, tells):
    check = replace(spec("query", sql=sql), other_sensitive=("name", "salary"), sensitive_by_table=BY_TABLE)
    assert is_sensitive(check, ("name", "id")) is tells


def test_query_over_a_sensitive_column_of_another_table_stores_no_samples():
    joined = spec("query", sql="SELECT n FROM a.n JOIN hr.person p ON p.salary = n")
    check = replace(joined, other_sensitive=("salary",))
    (stored,) = without_sensitive([check.result(WARNED, failed=1, samples=("n=91001",))], [check], (), own="own")
    assert (stored.samples, stored.tells) == ((), ("own",))


def result(severity: str, outcome: str, **values) -> Result:
    return Result("k", "c", "not_null", severity, outcome, **values)


def test_dataset_is_refused_only_by_checks_that_stop():
    warned, stopped = result("warn", WARNED, failed=1, total=5), result("stop", STOPPED, failed=2, total=5)
    refusal = refusal_of("rc.item", [warned, stopped])
    assert (refusal.code, refusal.count) == ("QUALITY_STOPPED", 2)
    assert refusal.message == "rc.item: 1 check failed: c: 2 rows of 5 failed"
    assert warnings_of([warned, stopped]) == ["Check c: 1 row of 5 failed."]
    assert refusal_of("rc.item", [warned]) is None


def test_broken_check_stops_a_load_only_with_severity_stop():
    assert refusal_of("rc.item", [spec("range").broken("no column")]) is None
    assert refusal_of("rc.item", [spec("range", "stop").broken("no column")]) is not None


def test_result_line_contains_no_value_of_a_column():
    result = Result("k", "highest", "total", "warn", WARNED, message="max of price differs from that of a.b: 9 and 10")
    assert result.line == "highest: max of price differs from that of a.b"
