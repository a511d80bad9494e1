"""Full benchmark of ``make bench``: all measures in one run, with results written after every case."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from bench.history import cases
from bench.history.case import Bench, say
from bench.measures import CASES, CLUSTER, DEEP, FILES, MANY, MEMORY, SHALLOW, SMALL, held
from bench.problem import BenchProblem
from bench.report import case_report, machine
from tests.services.spark_cluster import running_cluster

MEMORY_ROWS = 5_000_000
FILES_LOADS = 100
SMALL_ROWS = 1000
MANY_TABLES = 50, 500
CLUSTER_ROWS = 1_000_000, 20_000_000
EXECUTOR_MEMORY = "1g"


@dataclass(frozen=True)
class Size:
    """Size of a full run; the measures refer to the defaults."""

    rows: int = 1_000_000
    depth: int = 5
    flat_depth: int = cases.FLAT_DEPTH
    changed_pct: float = 10
    tables: int = 100
    repeats: int = 5
    cases: tuple[str, ...] = (SHALLOW, DEEP, SMALL)


class Record:
    """Incremental ``results.json``, so that an interrupted run leaves its finished cases.

    A case's ratios come from one run each; with ``go_on`` the cases of earlier runs stay until they are
    measured again.
    """

    def __init__(self, path: Path, *, go_on: bool = False) -> None:
        self._path, self._started = path, time.time()
        self._cases: dict[str, dict] = _measured_before(path) if go_on else {}

    def add(self, name: str, case: dict) -> None:
        self._cases[name] = {"measured_at": _now(), "machine": machine()} | case
        self._path.parent.mkdir(parents=True, exist_ok=True)
        pending = self._path.with_suffix(".new")
        pending.write_text(json.dumps(self.document(), indent=2) + "\n")
        pending.replace(self._path)

    def document(self) -> dict:
        """Return every finished case and every measure."""
        return {
            "machine": machine(),
            "started_at": _now(self._started),
            "seconds": round(time.time() - self._started),
            "cases": [{"case": name} | self._cases[name] for name in CASES if name in self._cases],
            "measures": held(self._cases),
        }


def _now(moment: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _measured_before(path: Path) -> dict[str, dict]:
    if not path.exists():
        return {}
    try:
        cases = json.loads(path.read_text())["cases"]
        return {case.pop("case"): case for case in cases}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchProblem(f"{path} is no results file of this benchmark: move it away") from error


def run(size: Size, work: Path, record: Record, *, keep: bool = False) -> dict:
    """Run the cases in an order in which histories are built once and then deepened."""
    if {SHALLOW, DEEP} & set(size.cases):
        _large(size, work, record, keep)
    if SMALL in size.cases:
        say(f"case {SMALL}")
        with Bench(cases.plans(SMALL_ROWS, size.changed_pct, 0), work, keep=keep) as bench:
            results = cases.small_tables(bench, size.tables, size.repeats)
            record.add(SMALL, case_report(SMALL_ROWS, 0, size.changed_pct, results) | {"tables": size.tables})
    if MANY in size.cases:
        record.add(MANY, _many(size, work, keep))
    if CLUSTER in size.cases:
        record.add(CLUSTER, _on_cluster(size, work, keep))
    if MEMORY in size.cases:
        say(f"case {MEMORY}")
        with Bench(cases.plans(MEMORY_ROWS, size.changed_pct, 0), work, keep=keep) as bench:
            record.add(MEMORY, cases.memory(bench, MEMORY_ROWS))
    if FILES in size.cases:
        say(f"case {FILES}")
        with Bench(cases.plans(SMALL_ROWS, size.changed_pct, FILES_LOADS - 1), work, keep=keep) as bench:
            record.add(FILES, cases.files(bench, FILES_LOADS))
    return record.document()


def _many(size: Size, work: Path, keep: bool) -> dict:
    """Measure load runs over few and over many small tables."""
    counted = []
    for tables in MANY_TABLES:
        say(f"case {MANY}: {tables} tables")
        with Bench(cases.plans(SMALL_ROWS, size.changed_pct, 0), work, keep=keep) as bench:
            counted.append(cases.many_tables(bench, tables, size.repeats))
    return {"counted": counted, "results": [], "ratios": {"time_per_table": time_ratio(counted, "tables")}}


def _on_cluster(size: Size, work: Path, keep: bool) -> dict:
    """Measure a load of few and of many rows on a standalone cluster of two workers with a core each."""
    counted = []
    for rows in CLUSTER_ROWS:
        say(f"case {CLUSTER}: {rows:,} rows")
        with (
            running_cluster(work.parent / "cluster", memory=EXECUTOR_MEMORY) as master,
            Bench(cases.plans(rows, size.changed_pct, 0), work, keep=keep, master=master) as bench,
        ):
            counted.append(cases.cluster(bench, rows))
    return {"counted": counted, "results": [], "ratios": {"time_per_row": time_ratio(counted, "rows")}}


def time_ratio(counted: list[dict], per: str) -> float | None:
    """Return the last entry's time for one of ``per`` divided by the first entry's; None if one failed or is wrong."""
    if any(entry["median"] is None or "wrong" in entry for entry in counted):
        return None
    first, *_, last = (entry["median"] / entry[per] for entry in counted)
    return round(last / first, 3)


def _large(size: Size, work: Path, record: Record, keep: bool) -> None:
    entries = {}
    if SHALLOW in size.cases:
        entries[SHALLOW] = 0, cases.shallow_entries(size.flat_depth)
    if DEEP in size.cases:
        entries[DEEP] = size.depth, cases.plain_entries(cases.ENGINES, size.depth)
    plans = cases.shallow_plans(size.rows, size.changed_pct, max(size.flat_depth, size.depth))
    with Bench(plans, work, keep=keep) as bench:
        cases.make_sources(bench, [entry for _, several in entries.values() for entry in several])
        for name, (depth, several) in entries.items():
            say(f"case {name}")
            results = cases.measure(bench, several, size.repeats)
            record.add(name, case_report(size.rows, depth, size.changed_pct, results))
