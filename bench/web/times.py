"""Server time of pages and planning."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from bench.problem import BenchProblem
from bench.processes import meter
from bench.web.control import Control
from bench.web.pages import Page
from bench.web.queries import signed_in, statements
from bench.web.served import Web
from elevata.bootstrap.places import ROOT

_KILO = 1024
_LOOKS_EVERY = 0.05  # seconds
# Seconds for one page, and how many answers are counted in any case.
_LONGEST, _LEAST = 8.0, 2


def of_pages(web: Web, control: Control, pages: list[Page], repeats: int) -> list[dict[str, Any]]:
    """Measure each page: queries, the first response, then median and 95th percentile of ``repeats``.

    ``busy_ms`` is the CPU time of web server and database per response: its duration on an idle machine.
    """
    client = signed_in(control.people["everything"])
    web.get("/")  # the first request of all imports the pages' modules
    results = []
    for page in pages:
        queries = len(statements(client, page))
        first = web.get(page.address)
        before = web.busy()
        answers = [first, *_answers(web, page, repeats)]
        busy = sum(spent - before.get(pid, 0) for pid, spent in web.busy().items())
        if any(status >= 400 for status, *_ in answers):
            raise BenchProblem(f"{page.name} at {page.address} answers {max(status for status, *_ in answers)}")
        times = sorted(spent for *_, spent in answers[1:])
        results.append(
            {
                "page": page.name,
                "route": page.route,
                "queries": queries,
                "kilobytes": round(answers[0][1] / 1024),
                "first_ms": round(answers[0][2]),
                "median_ms": round(median(times)),
                "p95_ms": round(percentile(times, 0.95)),
                "busy_ms": round(busy / len(times)),
            }
        )
    return results


def _answers(web: Web, page: Page, repeats: int) -> Iterator[tuple[int, int, float]]:
    """Yield ``repeats`` responses, or fewer of a very slow page."""
    began = time.perf_counter()
    for number in range(repeats):
        if number >= _LEAST and time.perf_counter() - began > _LONGEST:
            return
        yield web.get(page.address)


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest of the sorted numbers that is not exceeded by this share of them."""
    return ordered[max(0, ceil(len(ordered) * share) - 1)]


def of_report(control: Control) -> dict[str, Any]:
    """Measure building the report of everything described.

    A report's page does the same to check if the report is up to date.
    """
    from architecture.services.reports import basis_of

    began, cpu = time.perf_counter(), time.process_time()
    basis = basis_of(control.everything)
    gathered = time.perf_counter() - began
    made = basis.report()
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2),
        "gathering_seconds": round(gathered, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "operations": len(made.operations),
    }


def of_plan(folder: Path) -> dict[str, Any]:
    """Measure ``manage.py plan`` of two state files: the applied and the described state."""
    from architecture.domain.states.state_files import ArchitectureState, dump_state
    from architecture.selectors.dataset_states import applied_states
    from architecture.services.environments import current_environment
    from metadata.selectors.dataset_states import dataset_states

    states = {"A": applied_states(environment=current_environment()), "B": dataset_states()}
    for name, some in states.items():
        (folder / f"{name}.json").write_text(dump_state(ArchitectureState(some)))
    command = [sys.executable, "manage.py", "plan", "--json"]
    command += ["--previous-state", str(folder / "A.json"), "--desired-state", str(folder / "B.json")]
    began = time.perf_counter()
    with (folder / "report.json").open("w") as answer:
        process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdout=answer)
        status, used, peak = _waited_for(process)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchProblem(f"manage.py plan ended with {process.returncode}")
    report = json.loads((folder / "report.json").read_text())
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(peak / _KILO**2),
        "file_mb": [round((folder / f"{name}.json").stat().st_size / _KILO**2, 1) for name in states],
        "operations": len(report["operations"]),
    }


def _waited_for(process: subprocess.Popen) -> tuple[int, resource.struct_rusage, int]:
    """Return exit status, resource usage, and the peak memory in bytes of a process.

    Not ``ru_maxrss``: the kernel includes the memory of the parent at the time of the start.
    """
    peak = 0
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return status, used, peak
        peak = meter.peak_bytes(process.pid) or peak  # the process ends in this moment
        time.sleep(_LOOKS_EVERY)
