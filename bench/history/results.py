"""Results of the history step: ratios of medians, bounds, tables, and the file of a full run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem
from bench.report import aligned, machine, now, write_result

CASES = ("shallow", "deep", "small", "many", "cluster", "memory", "files")
SHALLOW, DEEP, SMALL, MANY, CLUSTER, MEMORY, FILES = CASES
# Ratio -> (whose median, divided by whose median). Names of entries are in ``bench.history.cases``.
RATIOS = {
    "ours_vs_limit": ("ours", "limit"),
    "ours_public_vs_ours": ("ours_public", "ours"),
    "whole_load_vs_limit": ("whole_load", "limit"),
    "four_step_vs_ours": ("four_step", "ours"),
    "dbt_snapshot_vs_ours": ("dbt_snapshot", "ours"),
    "koheesio_vs_ours": ("koheesio", "ours"),
    "datacoolie_vs_ours": ("datacoolie", "ours"),
    "deep_vs_ours": ("ours_deep", "ours"),
    "small_change_vs_ours": ("ours_small_change", "ours"),
    "small_tables_dbt_snapshot_vs_ours": ("small_tables_dbt_snapshot", "small_tables"),
}


@dataclass(frozen=True)
class CaseBound:
    """Bound of a case; ``what`` names a ratio, or a result whose median in seconds counts."""

    name: str
    case: str
    what: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def wanted(self) -> str:
        return f"<= {self.at_most:g}" if self.at_most is not None else f">= {self.at_least:g}"

    def met(self, value: float) -> bool:
        return value <= self.at_most if self.at_most is not None else value >= self.at_least


BOUNDS = (
    CaseBound("ours against the limit, depth 5", DEEP, "ours_vs_limit", at_most=1.7),
    CaseBound("four_step against ours, depth 0", SHALLOW, "four_step_vs_ours", at_least=3),
    CaseBound("four_step against ours, depth 5", DEEP, "four_step_vs_ours", at_least=3),
    CaseBound("dbt_snapshot against ours, depth 0", SHALLOW, "dbt_snapshot_vs_ours", at_least=2),
    CaseBound("dbt_snapshot against ours, depth 5", DEEP, "dbt_snapshot_vs_ours", at_least=2),
    CaseBound("koheesio against ours, depth 5", DEEP, "koheesio_vs_ours", at_least=1.5),
    CaseBound("datacoolie against ours, depth 5", DEEP, "datacoolie_vs_ours", at_least=1.5),
    CaseBound("whole load against the limit, depth 5", DEEP, "whole_load_vs_limit", at_most=2.5),
    CaseBound("ours at depth 20 against depth 0", SHALLOW, "deep_vs_ours", at_most=1.15),
    CaseBound("ours at a hundredth of the change", SHALLOW, "small_change_vs_ours", at_most=0.6),
    CaseBound("small tables, dbt snapshot against ours", SMALL, "small_tables_dbt_snapshot_vs_ours", at_least=4),
    CaseBound("delta input of 1,000 keys, seconds", SHALLOW, "delta_input", at_most=4),
    CaseBound("500 tables against 50, time per table", MANY, "time_per_table", at_most=1.2),
    CaseBound("20,000,000 keys on a cluster against 1,000,000, time per row", CLUSTER, "time_per_row", at_most=1.5),
)


def ratios(results: list[dict]) -> dict[str, float]:
    """Return the ratios of medians of all measured pairs."""
    medians = {result["name"]: result["median"] for result in results if result["median"]}
    return {
        ratio: round(medians[above] / medians[below], 3)
        for ratio, (above, below) in RATIOS.items()
        if above in medians and below in medians
    }


def time_ratio(counted: list[dict], per: str) -> float | None:
    """Return the last entry's time for one of ``per`` divided by the first entry's; None if one failed or is wrong."""
    if any(entry["median"] is None or "wrong" in entry for entry in counted):
        return None
    first, *_, last = (entry["median"] / entry[per] for entry in counted)
    return round(last / first, 3)


def case_report(rows: int, depth: int, changed_pct: float, results: list[dict]) -> dict[str, Any]:
    """Return one case in the documented form."""
    size = {"rows": rows, "depth": depth, "changed_pct": changed_pct}
    return size | {"results": results, "ratios": ratios(results)}


def held(cases: Mapping[str, dict]) -> list[dict]:
    """Return every bound with its value from the finished cases.

    ``met`` is None if nothing was measured, and for a comparison with a library whose history is wrong. An
    engine of ours with a wrong history misses the bound.
    """
    results = []
    for bound in BOUNDS:
        value, right = _value(cases.get(bound.case), bound.what)
        met = None
        if value is not None:
            peer = bound.what.startswith(("koheesio", "datacoolie"))
            met = (None if peer else False) if not right else bound.met(value)
        results.append({"measure": bound.name, "wanted": bound.wanted, "value": value, "met": met})
    return results


def _value(case: dict | None, what: str) -> tuple[float | None, bool]:
    """Return the measured value, and True if every history behind it is correct."""
    if case is None:
        return None, True
    results = {result["name"]: result for result in case["results"]}
    value = case["ratios"].get(what, results.get(what, {}).get("median"))
    return value, not any("wrong" in results.get(name, {}) for name in RATIOS.get(what, (what,)))


class Record:
    """Result file of a full run, written after every case, so that an interrupted run leaves its finished cases.

    A case's ratios come from one run each; with ``go_on`` the cases of earlier runs stay until they are
    measured again.
    """

    def __init__(self, path: Path, *, go_on: bool = False) -> None:
        self._path = path
        self._cases: dict[str, dict] = _measured_before(path) if go_on and path.exists() else {}

    def add(self, name: str, case: dict) -> None:
        self._cases[name] = {"measured_at": now(), "machine": machine()} | case
        write_result(self._path, self.document())

    def document(self) -> dict[str, list[dict]]:
        """Return every finished case and every bound."""
        cases = [{"case": name} | self._cases[name] for name in CASES if name in self._cases]
        return {"cases": cases, "measures": held(self._cases)}


def _measured_before(path: Path) -> dict[str, dict]:
    try:
        return {case.pop("case"): case for case in json.loads(path.read_text())["cases"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchProblem(f"{path} is no results file of this benchmark: move it away") from error


def table(results: list[dict]) -> str:
    """Return the results as a text table."""
    lines = [("name", "median s", "min s", "cpu s", "read MB", "versions", "open", "")]
    for result in results:
        read = None if result["bytes_read"] is None else result["bytes_read"] / 1e6
        numbers = (result["median"], result["min"], result["cpu_seconds"], read)
        shown = [f"{number:.2f}" if number is not None else "-" for number in numbers]
        counts = ["-" if result[name] is None else str(result[name]) for name in ("versions", "open")]
        lines.append((result["name"], *shown, *counts, f"wrong: {result['wrong']}" if "wrong" in result else ""))
    return aligned(lines)


def ratio_table(by_name: dict[str, float]) -> str:
    """Return the ratios as a text table."""
    return aligned([(name, f"{value:.2f}") for name, value in by_name.items()])


def measure_table(measures: list[dict]) -> str:
    """Return the bounds as a text table with their values."""
    lines = [("measure", "wanted", "found", "")]
    for measure in measures:
        value = "-" if measure["value"] is None else f"{measure['value']:.2f}"
        unmet = "not measured" if measure["value"] is None else "does not count: its history is wrong"
        met = {True: "met", False: "MISSED", None: unmet}[measure["met"]]
        lines.append((measure["measure"], measure["wanted"], value, met))
    return aligned(lines)
