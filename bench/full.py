"""``make bench``: all measures in one run, results written after every case."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from bench import cases
from bench.case import Bench, say
from bench.measures import DEEP, FILES, MEMORY, SHALLOW, SMALL, held
from bench.report import case_report, machine

MEMORY_ROWS = 5_000_000
FILES_LOADS = 100
SMALL_ROWS = 1000


@dataclass(frozen=True)
class Size:
    """How large a full run is; the measures are about the defaults."""

    rows: int = 1_000_000
    depth: int = 5
    flat_depth: int = cases.FLAT_DEPTH
    changed_pct: float = 10
    tables: int = 100
    repeats: int = 5
    memory: bool = False
    files: bool = False


class Record:
    """``results.json`` as it grows: a run that breaks leaves what it has."""

    def __init__(self, path: Path) -> None:
        self._path, self._started = path, time.time()
        self._cases: dict[str, dict] = {}

    def add(self, name: str, case: dict) -> None:
        self._cases[name] = case
        self._path.parent.mkdir(parents=True, exist_ok=True)
        pending = self._path.with_suffix(".new")
        pending.write_text(json.dumps(self.document(), indent=2) + "\n")
        pending.replace(self._path)

    def document(self) -> dict:
        """Every case so far and every measure."""
        return {
            "machine": machine(),
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
            "seconds": round(time.time() - self._started),
            "cases": [{"case": name} | case for name, case in self._cases.items()],
            "measures": held(self._cases),
        }


def run(size: Size, work: Path, record: Record, *, keep: bool = False) -> dict:
    """The cases in the order of what they need: histories are built once and deepened."""
    shallow = cases.shallow_entries(size.flat_depth)
    deep = cases.plain_entries(cases.ENGINES, size.depth)
    plans = cases.shallow_plans(size.rows, size.changed_pct, max(size.flat_depth, size.depth))
    with Bench(plans, work, keep=keep) as bench:
        cases.make_sources(bench, shallow + deep)
        for name, depth, entries in ((SHALLOW, 0, shallow), (DEEP, size.depth, deep)):
            say(f"case {name}")
            results = cases.measure(bench, entries, size.repeats)
            record.add(name, case_report(size.rows, depth, size.changed_pct, results))
    small = cases.plans(SMALL_ROWS, size.changed_pct, 0)
    say(f"case {SMALL}")
    with Bench(small, work, keep=keep) as bench:
        results = cases.small_tables(bench, size.tables, size.repeats)
        record.add(SMALL, case_report(SMALL_ROWS, 0, size.changed_pct, results) | {"tables": size.tables})
    if size.memory:
        say(f"case {MEMORY}")
        with Bench(cases.plans(MEMORY_ROWS, size.changed_pct, 0), work, keep=keep) as bench:
            record.add(MEMORY, cases.memory(bench, MEMORY_ROWS))
    if size.files:
        say(f"case {FILES}")
        with Bench(cases.plans(SMALL_ROWS, size.changed_pct, FILES_LOADS - 1), work, keep=keep) as bench:
            record.add(FILES, cases.files(bench, FILES_LOADS))
    return record.document()
