"""Results as JSON and as tables: ratios of medians, measures, machine."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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


def ratios(results: list[dict]) -> dict[str, float]:
    """Return the ratios of medians of all measured pairs."""
    medians = {result["name"]: result["median"] for result in results if result["median"]}
    return {
        ratio: round(medians[above] / medians[below], 3)
        for ratio, (above, below) in RATIOS.items()
        if above in medians and below in medians
    }


def case_report(rows: int, depth: int, changed_pct: float, results: list[dict]) -> dict:
    """Return one case in the documented form."""
    return {
        "rows": rows,
        "depth": depth,
        "changed_pct": changed_pct,
        "machine": machine(),
        "results": results,
        "ratios": ratios(results),
    }


def write_result(file: Path, result: dict[str, Any]) -> None:
    """Write the result of a benchmark as JSON, with the machine and the time before it."""
    document = {"machine": machine(), "measured_at": datetime.now(UTC).isoformat(timespec="seconds")} | result
    file.write_text(json.dumps(document, indent=2) + "\n")


def machine() -> dict:
    """Return a description of the machine that runs the benchmark."""
    memory = Path("/proc/meminfo")
    model = Path("/proc/cpuinfo")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _field(model, "model name") or platform.machine(),
        "memory_gb": round(int((_field(memory, "MemTotal") or "0 kB").split()[0]) / 1024 / 1024, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _field(file: Path, name: str) -> str | None:
    if not file.is_file():
        return None
    lines = (line.partition(":") for line in file.read_text().splitlines())
    return next((value.strip() for field, _, value in lines if field.strip() == name), None)


def table(results: list[dict]) -> str:
    """Return the results as a text table."""
    heads = ("name", "median s", "min s", "cpu s", "read MB", "versions", "open", "")
    lines = [heads]
    for result in results:
        read = result["bytes_read"]
        numbers = (
            result["median"],
            result["min"],
            result["cpu_seconds"],
            None if read is None else round(read / 1e6, 1),
        )
        shown = [f"{number:.2f}" if number is not None else "-" for number in numbers]
        counts = ["-" if result[name] is None else str(result[name]) for name in ("versions", "open")]
        lines.append((result["name"], *shown, *counts, f"wrong: {result['wrong']}" if "wrong" in result else ""))
    return _aligned(lines)


def ratio_table(by_name: dict[str, float]) -> str:
    """Return the ratios as a text table."""
    return _aligned([(name, f"{value:.2f}") for name, value in by_name.items()])


def measure_table(measures: list[dict]) -> str:
    """Return the measures as a text table with bound and value."""
    lines = [("measure", "wanted", "found", "")]
    for measure in measures:
        value = "-" if measure["value"] is None else f"{measure['value']:.2f}"
        unmet = "not measured" if measure["value"] is None else "does not count: its history is wrong"
        met = {True: "met", False: "MISSED", None: unmet}[measure["met"]]
        lines.append((measure["measure"], measure["wanted"], value, met))
    return _aligned(lines)


def _aligned(lines: list[tuple[str, ...]]) -> str:
    """Return aligned columns: the first to the left, numbers to the right, the last unpadded."""
    if not lines:
        return ""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    shown = []
    for line in lines:
        numbers = [text.rjust(width) for text, width in zip(line[1:-1], widths[1:-1], strict=True)]
        shown.append("  ".join((line[0].ljust(widths[0]), *numbers, line[-1])).rstrip())
    return "\n".join(shown)
