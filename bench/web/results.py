"""Measures of the web app, and their tables for the docs."""

from pathlib import Path
from typing import Any

from bench.problem import BenchProblem

SERVER_MS, PAINT_MS, PLAN_SECONDS = 300, 1000, 60
# Parts that follow their page by htmx: they may take as long as they have to.
PARTS = {
    "home_now": "the home page asks every two seconds",
    "home_warehouse": "follows the home page",
    "inbox_rows": "follows the inbox: makes reports again, for a second and a half",
    "report_standing": "follows the report's page: makes the report again",
    "report_behind": "follows the page of a long report",
    "report_differences": "follows the report's page",
    "report_downstream": "follows the report's page",
}
# No pages: files of all there is, made as they are sent.
FILES = {
    "change_file": "a file: the whole change log",
    "api-change-export": "a file: the whole change log",
    "api-metadata-export": "a file: all metadata as YAML",
}
_BEGIN, _END = "<!-- bench.web: begin -->", "<!-- bench.web: end -->"
_SLOWEST = 12


def held(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every measure with its worst value, and if it was met."""
    pages = [one for one in document["pages"] if is_shell(one)]
    found = [_server(pages, "busy_ms", "processor time"), _server(pages, "median_ms", "median until it is there")]
    if document.get("paint"):
        slowest = max(document["paint"], key=lambda one: one["median_ms"])
        found.append(
            {
                "measure": "first contentful paint, the slowest page's median",
                "wanted": f"< {PAINT_MS} ms",
                "value": f"{slowest['median_ms']} ms ({slowest['page']})",
                "met": slowest["median_ms"] < PAINT_MS,
            }
        )
    return found


def _server(pages: list[dict[str, Any]], name: str, what: str) -> dict[str, Any]:
    worst = max(pages, key=lambda one: one[name])
    over = sum(one[name] >= SERVER_MS for one in pages)
    return {
        "measure": f"{len(pages)} pages and API answers: {what}, the slowest",
        "wanted": f"< {SERVER_MS} ms",
        "value": f"{worst[name]} ms ({worst['page']})" + (f"; {over} are over it" if over else ""),
        "met": not over,
    }


def is_shell(page: dict[str, Any]) -> bool:
    return page["route"] not in PARTS | FILES


def as_markdown(document: dict[str, Any]) -> str:
    """Return the results as a table for docs/operate/performance.md."""
    pages = document["pages"]
    shells = sorted((one for one in pages if is_shell(one)), key=lambda one: -one["busy_ms"])
    parts = [one for one in pages if not is_shell(one)]
    paint = {one["page"]: one for one in document.get("paint", ())}
    lines = ["| measure | wanted | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {one['measure']} | {one['wanted']} | {one['value']} | {'met' if one['met'] else '**missed**'} |"
        for one in document["measures"]
    ]
    lines += ["", f"The {_SLOWEST} slowest and the principal pages (all are in `bench/web_results.json`):", ""]
    lines += ["| page | queries | processor | median | p95 | kB | first paint |", "|---|---|---|---|---|---|---|"]
    slowest = {one["page"] for one in shells[:_SLOWEST]}
    for one in shells:
        if one["page"] in slowest or one["page"] in paint:
            seen = f"{paint[one['page']]['median_ms']} ms" if one["page"] in paint else ""
            lines.append(_row(one) + f" {seen} |")
    lines += ["", "| part | queries | processor | median | p95 | kB | |", "|---|---|---|---|---|---|---|"]
    lines += [_row(one) + f" {(PARTS | FILES)[one['route']]} |" for one in parts]
    return "\n".join(lines)


def _row(one: dict[str, Any]) -> str:
    name = one["page"].replace("|", " ")
    times = " | ".join(f"{one[side]} ms" for side in ("busy_ms", "median_ms", "p95_ms"))
    return f"| {name} | {one['queries']} | {times} | {one['kilobytes']} |"


def write_into(file: Path, text: str, marks: tuple[str, str] = (_BEGIN, _END)) -> None:
    """Write the tables between their marks in the file."""
    before, begin, rest = file.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise BenchProblem(f"{file.name} has no place for the tables: {marks[0]} … {marks[1]}")
    file.write_text(f"{before}{begin}\n{text}\n{end}{after}")
