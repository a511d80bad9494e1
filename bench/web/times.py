"""Server time of pages and planning, and time until Chromium paints a page."""

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
from bench.web.pages import Page, signed_in, statements
from bench.web.served import Web
from elevata.bootstrap.places import ROOT
from elevata.bootstrap.programs import chromium
from tests.services.browser import FLAGS

# Seconds for one page, and how many answers are counted in any case.
_LONGEST, _LEAST = 8.0, 2
# The most used pages; other pages are made of the same parts.
PRINCIPAL = (
    *("home", "inbox", "dataset_list", "dataset_page", "dataset_lineage", "dataset_changes", "source_list"),
    *("run_list", "run_page", "report_list", "report_page", "execution_page", "drift_page", "change_list"),
)
_PAINTED = "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)[0]"
# Fragments that htmx loads afterwards are awaited, so that the next visit does not pay for them.
_IS_LOADED = "!document.querySelectorAll('.htmx-request').length"


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
        busy = web.busy() - before
        if any(status >= 400 for status, *_ in answers):
            raise BenchProblem(f"{page.name} at {page.address} answers {max(status for status, *_ in answers)}")
        times = sorted(spent for *_, spent in answers[1:])
        about = {"page": page.name, "route": page.route, "queries": queries, "kilobytes": round(first[1] / 1024)}
        results.append(about | {"first_ms": round(first[2]), **spread(times), "busy_ms": round(busy / len(times))})
    return results


def _answers(web: Web, page: Page, repeats: int) -> Iterator[tuple[int, int, float]]:
    """Yield ``repeats`` responses, or fewer of a very slow page."""
    began = time.perf_counter()
    for number in range(repeats):
        if number >= _LEAST and time.perf_counter() - began > _LONGEST:
            return
        yield web.get(page.address)


def spread(times: list[float]) -> dict[str, int]:
    return {"median_ms": round(median(times)), "p95_ms": round(percentile(sorted(times), 0.95))}


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
    operations = len(basis.report().operations)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "gathering_seconds": round(gathered, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "operations": operations,
    }


def of_plan(folder: Path) -> dict[str, Any]:
    """Measure ``manage.py plan`` of two state files: the applied and the described state."""
    from architecture.domain.states.state_files import ArchitectureState, dump_state
    from architecture.selectors.dataset_states import applied_states
    from architecture.services.environments import current_environment
    from metadata.selectors.dataset_states import dataset_states

    states = {"previous": applied_states(environment=current_environment()), "desired": dataset_states()}
    command, answer, peak = [sys.executable, "manage.py", "plan", "--json"], folder / "report.json", 0
    for name, some in states.items():
        file = folder / f"{name}.json"
        file.write_text(dump_state(ArchitectureState(some)))
        command += [f"--{name}-state", str(file)]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with answer.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output)
        # Not ``ru_maxrss``: the kernel includes the memory of the parent at the time of the start.
        while process.poll() is None:
            peak = meter.peak_bytes(process.pid) or peak
            time.sleep(0.05)
    seconds, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise BenchProblem(f"manage.py plan ended with {process.returncode}")
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mb": round(peak / 1024**2),
        "operations": len(json.loads(answer.read_text())["operations"]),
    }


def of_paint(web: Web, pages: list[Page], repeats: int) -> list[dict[str, Any]]:
    """Measure the first contentful paint of the main pages, each in a new browser context."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        raise BenchProblem("Chromium is not installed: make test installs it, or leave it out with --no-paint")
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=flags)
        _paint(browser, web, pages[0])  # the browser's own beginnings
        principal = [page for page in pages if page.route in PRINCIPAL]
        times = {page.name: [_paint(browser, web, page) for _ in range(repeats)] for page in principal}
        browser.close()
    return [{"page": name} | spread(painted) for name, painted in times.items()]


def _paint(browser: Any, web: Web, page: Page) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": web.session, "url": web.address}])
    opened = context.new_page()
    opened.goto(f"{web.address}{page.address}")
    painted = _poll(opened, _PAINTED, 200)
    if painted is None:
        raise BenchProblem(f"{page.name} paints nothing")
    opened.wait_for_load_state()
    _poll(opened, _IS_LOADED, 1200)
    context.close()
    return painted


def _poll(opened: Any, question: str, times: int) -> Any:
    """Ask a page until it answers; from here, because the pages' content policy permits no waiting inside them."""
    for _ in range(times):
        if answer := opened.evaluate(question):
            return answer
        opened.wait_for_timeout(50)
    return None
