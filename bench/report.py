"""Result files, text tables, and tables of the docs."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem


def write_result(file: Path, result: dict[str, Any]) -> None:
    """Write the result of a benchmark as JSON, with the machine and the time before it."""
    document = {"machine": machine(), "measured_at": now()} | result
    file.parent.mkdir(parents=True, exist_ok=True)
    pending = file.with_suffix(".new")
    pending.write_text(json.dumps(document, indent=2) + "\n")
    pending.replace(file)


def now() -> str:
    """Return the time in UTC, as results have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
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


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Return aligned columns: the first to the left, numbers to the right, the last unpadded."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))] if lines else []
    shown = []
    for line in lines:
        numbers = [text.rjust(width) for text, width in zip(line[1:-1], widths[1:-1], strict=True)]
        shown.append("  ".join((line[0].ljust(widths[0]), *numbers, line[-1])).rstrip())
    return "\n".join(shown)


def write_into(file: Path, text: str, name: str) -> None:
    """Write tables into a page of the docs, between the comments of the measure ``name``."""
    begin_mark, end_mark = (f"<!-- bench.{name}: {place} -->" for place in ("begin", "end"))
    before, begin, rest = file.read_text().partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise BenchProblem(f"{file.name} has no place for the tables: {begin_mark} … {end_mark}")
    file.write_text(f"{before}{begin}\n{text}\n{end}{after}")
