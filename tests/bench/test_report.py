"""Ratios, measures and the form of the results."""

import json

import pytest

from bench.history.case import Entry, difference, result
from bench.history.cases import plain_entries
from bench.history.results import (
    BOUNDS,
    DEEP,
    Record,
    case_report,
    held,
    measure_table,
    ratios,
    table,
    time_ratio,
)
from bench.problem import BenchProblem
from bench.report import write_result

LOADS = [{"seconds": s, "cpu_seconds": 2 * s, "bytes_read": 100} for s in (3.0, 1.0, 2.0, 5.0, 4.0)]
END = {"versions": 12, "open": 10, "checksum": "7"}


def timed(name: str, seconds: float, **more) -> dict:
    return {"name": name, "median": seconds} | more


def test_result_has_the_fields_of_the_contract():
    assert result("ours", LOADS, END, None) == {
        "name": "ours",
        "seconds": [3.0, 1.0, 2.0, 5.0, 4.0],
        "median": 3.0,
        "min": 1.0,
        "cpu_seconds": 6.0,
        "bytes_read": 100,
        "versions": 12,
        "open": 10,
    }


def test_failed_result_has_a_reason_and_no_numbers():
    row = result("dbt_snapshot", [], None, "failed: no")
    assert (row["seconds"], row["median"], row["versions"], row["wrong"]) == ([], None, None, "failed: no")


def test_unknown_bytes_are_null():
    assert result("ours", [LOADS[0] | {"bytes_read": None}], END, None)["bytes_read"] is None


def test_ratios_use_only_measured_medians():
    values = ratios([timed("ours", 2.0), timed("limit", 1.0), timed("four_step", 7.0), timed("koheesio", None)])
    assert values == {"ours_vs_limit": 2.0, "four_step_vs_ours": 3.5}


def test_case_report_has_the_fields_of_the_contract():
    report = case_report(500, 2, 10.0, [result("ours", LOADS, END, None)])
    assert list(report) == ["rows", "depth", "changed_pct", "results", "ratios"]
    assert json.loads(json.dumps(report)) == report


def test_difference_reports_wrong_versions_open_versions_or_values():
    assert difference(END, END) is None
    assert difference(END | {"open": 11}, END) == "11 open versions, should be 10"
    assert difference(END | {"versions": 9, "shortcoming": "loses"}, END) == "loses: 9 versions, should be 12"
    assert "other keys, intervals or values" in difference(END | {"checksum": "8"}, END)


def test_whole_load_entry_is_added_after_ours():
    assert plain_entries(["limit", "ours"], 3) == [
        Entry("ours", "ours", 3),
        Entry("whole_load", "ours", 3, how="whole", kind="source", label="3-whole"),
        Entry("limit", "limit", 3),
    ]
    assert plain_entries(["small_tables"], 3) == []


def test_measures_are_met_missed_or_open():
    results = [timed("ours", 2.0), timed("limit", 1.0), timed("four_step", 7.0)]
    case = {"results": results, "ratios": ratios(results)}
    verdicts = {measure["measure"]: measure["met"] for measure in held({DEEP: case})}
    assert verdicts["ours against the limit, depth 5"] is False
    assert verdicts["four_step against ours, depth 5"] is True
    assert verdicts["four_step against ours, depth 0"] is None
    assert len(verdicts) == len(BOUNDS)


def test_measure_ignores_a_wrong_peer_and_fails_for_a_wrong_engine_of_ours():
    results = [timed("ours", 1.0, wrong="x"), timed("limit", 1.0), timed("koheesio", 9.0, wrong="y")]
    case = {"results": results, "ratios": ratios(results)}
    verdicts = {measure["measure"]: measure["met"] for measure in held({DEEP: case})}
    assert verdicts["koheesio against ours, depth 5"] is None
    assert verdicts["ours against the limit, depth 5"] is False


def test_results_file_is_written_after_every_case(tmp_path):
    record = Record(tmp_path / "results.json")
    for number, name in enumerate(("shallow", "deep"), start=1):
        record.add(name, case_report(500, number, 10.0, []))
        written = json.loads((tmp_path / "results.json").read_text())
        assert [case["case"] for case in written["cases"]] == ["shallow", "deep"][:number]
        assert len(written["measures"]) == len(BOUNDS)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_repeated_case_replaces_its_results_and_keeps_the_others(tmp_path):
    first = Record(tmp_path / "results.json")
    for name in ("deep", "shallow"):
        first.add(name, case_report(500, 0, 10.0, []))
    Record(tmp_path / "results.json", go_on=True).add("deep", case_report(700, 0, 10.0, []))
    written = json.loads((tmp_path / "results.json").read_text())
    assert [(case["case"], case["rows"]) for case in written["cases"]] == [("shallow", 500), ("deep", 700)]


def test_record_refuses_to_continue_a_file_without_results(tmp_path):
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(BenchProblem, match="is no results file"):
        Record(tmp_path / "results.json", go_on=True)


def test_tables_show_failures_and_missing_measures():
    shown = table([result("ours", LOADS, END, None), result("koheesio", [], None, "failed: no")])
    assert shown.splitlines()[1].split() == ["ours", "3.00", "1.00", "6.00", "0.00", "12", "10"]
    assert shown.endswith("wrong: failed: no")
    assert "not measured" in measure_table(held({}))


def test_time_ratio_compares_times_per_table():
    assert time_ratio([{"tables": 50, "median": 25.0}, {"tables": 500, "median": 300.0}], "tables") == 1.2


@pytest.mark.parametrize("last", [{"median": None}, {"median": 9.0, "wrong": "8 versions, should be 9"}])
def test_time_ratio_is_none_for_a_failed_or_wrong_result(last):
    assert time_ratio([{"rows": 10, "median": 1.0}, {"rows": 20} | last], "rows") is None


def test_a_measure_of_a_case_without_engines_has_its_ratio():
    many = next(
        measure for measure in held({"many": {"results": [], "ratios": {"time_per_table": 1.1}}}) if measure["met"]
    )
    assert (many["value"], many["wanted"]) == (1.1, "<= 1.2")


def test_a_written_result_names_the_machine_and_the_time(tmp_path):
    write_result(tmp_path / "r.json", {"rows": 3})
    written = json.loads((tmp_path / "r.json").read_text())
    assert list(written) == ["machine", "measured_at", "rows"]
    assert written["machine"]["cpus"] >= 1
