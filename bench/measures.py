"""Measures of the product: each with its case, its bound and its result."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.report import RATIOS

CASES = SHALLOW, DEEP, SMALL, MANY, CLUSTER, MEMORY, FILES = (
    "shallow",
    "deep",
    "small",
    "many",
    "cluster",
    "memory",
    "files",
)


@dataclass(frozen=True)
class Measure:
    """Measure with a bound; ``what`` names a ratio, or a result whose median in seconds counts."""

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


MEASURES = (
    Measure("ours against the limit, depth 5", DEEP, "ours_vs_limit", at_most=1.7),
    Measure("four_step against ours, depth 0", SHALLOW, "four_step_vs_ours", at_least=3),
    Measure("four_step against ours, depth 5", DEEP, "four_step_vs_ours", at_least=3),
    Measure("dbt_snapshot against ours, depth 0", SHALLOW, "dbt_snapshot_vs_ours", at_least=2),
    Measure("dbt_snapshot against ours, depth 5", DEEP, "dbt_snapshot_vs_ours", at_least=2),
    Measure("koheesio against ours, depth 5", DEEP, "koheesio_vs_ours", at_least=1.5),
    Measure("datacoolie against ours, depth 5", DEEP, "datacoolie_vs_ours", at_least=1.5),
    Measure("whole load against the limit, depth 5", DEEP, "whole_load_vs_limit", at_most=2.5),
    Measure("ours at depth 20 against depth 0", SHALLOW, "deep_vs_ours", at_most=1.15),
    Measure("ours at a hundredth of the change", SHALLOW, "small_change_vs_ours", at_most=0.6),
    Measure("small tables, dbt snapshot against ours", SMALL, "small_tables_dbt_snapshot_vs_ours", at_least=4),
    Measure("delta input of 1,000 keys, seconds", SHALLOW, "delta_input", at_most=4),
    Measure("500 tables against 50, time per table", MANY, "time_per_table", at_most=1.2),
    Measure("20,000,000 keys on a cluster against 1,000,000, time per row", CLUSTER, "time_per_row", at_most=1.5),
)


def held(cases: Mapping[str, dict]) -> list[dict]:
    """Return every measure with its value from the finished cases.

    ``met`` is None if nothing was measured, and for a comparison with a library whose history is wrong. An
    engine of ours with a wrong history fails the measure.
    """
    results = []
    for measure in MEASURES:
        value, right = _value(cases.get(measure.case), measure.what)
        met = None
        if value is not None:
            peer = measure.what.startswith(("koheesio", "datacoolie"))
            met = (None if peer else False) if not right else measure.met(value)
        results.append({"measure": measure.name, "wanted": measure.wanted, "value": value, "met": met})
    return results


def _value(case: dict | None, what: str) -> tuple[float | None, bool]:
    """Return the measured value, and True if every history behind it is correct."""
    if case is None:
        return None, True
    results = {result["name"]: result for result in case["results"]}
    names = RATIOS.get(what, (what,))
    value = case["ratios"].get(what, results.get(what, {}).get("median"))
    return value, not any("wrong" in results.get(name, {}) for name in names)
