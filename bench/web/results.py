"""Bounds of the web app, and tables of the results for the docs."""

from typing import Any

SERVER_MS, PAINT_MS = 300, 1000
# Pages with limits of their own: routes and the longest response time in milliseconds, at the default size.
LIMITS: dict[str, tuple[frozenset[str], int]] = {
    "search": (frozenset({"search"}), 200),
    "lineage by column": (frozenset({"column_lineage"}), 500),
    "health": (frozenset({"health_page"}), 300),
    "charts": (frozenset({"home_charts", "dataset_charts", "run_charts"}), 300),
}
# Parts that follow their page by htmx: they may take as long as they have to.
PARTS = {
    "home_now": "polled by the home page every two seconds",
    "home_warehouse": "follows the home page",
    "inbox_rows": "follows the inbox: creates reports again, for up to 1.5 s",
    "report_status": "follows the report's page: creates the report again",
    "report_behind": "follows the page of a long report",
    "report_differences": "follows the report's page",
    "report_downstream": "follows the report's page",
}
# Not pages: large files that are streamed.
FILES = {
    "change_file": "a file: the whole change log",
    "api-change-export": "a file: the whole change log",
    "api-metadata-export": "a file: all metadata as YAML",
}
_SLOWEST = 12


def evaluate(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every bound by name, with its worst value and whether it is met."""
    shells = [page for page in document["pages"] if is_shell(page)]
    limited = frozenset().union(*(routes for routes, _ in LIMITS.values()))
    pages = [page for page in shells if page["route"] not in limited]
    subject = f"{len(pages)} pages and API answers"
    results = {
        f"{subject}: processor time, slowest page": _server(pages, "busy_ms"),
        f"{subject}: median response time, slowest page": _server(pages, "median_ms"),
    }
    for name, (routes, limit) in LIMITS.items():
        if own := [page for page in shells if page["route"] in routes]:
            results[f"{name}: median response time, slowest page"] = _server(own, "median_ms", limit)
    if document.get("paint"):
        slowest = max(document["paint"], key=lambda page: page["median_ms"])
        results["first contentful paint, the slowest page's median"] = {
            "wanted": f"< {PAINT_MS} ms",
            "value": f"{slowest['median_ms']} ms ({slowest['page']})",
            "met": slowest["median_ms"] < PAINT_MS,
        }
    return results


def _server(pages: list[dict[str, Any]], name: str, limit: int = SERVER_MS) -> dict[str, Any]:
    worst = max(pages, key=lambda page: page[name])
    over = sum(page[name] >= limit for page in pages)
    return {
        "wanted": f"< {limit} ms",
        "value": f"{worst[name]} ms ({worst['page']})" + (f"; {over} are over it" if over else ""),
        "met": not over,
    }


def is_shell(page: dict[str, Any]) -> bool:
    return page["route"] not in PARTS | FILES


def as_markdown(document: dict[str, Any]) -> str:
    """Return the results as a table for docs/operate/performance.md."""
    pages = document["pages"]
    shells = sorted((page for page in pages if is_shell(page)), key=lambda page: -page["busy_ms"])
    parts = [page for page in pages if not is_shell(page)]
    paint = {entry["page"]: entry for entry in document.get("paint", ())}
    lines = ["| bound | wanted | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {row['wanted']} | {row['value']} | {'met' if row['met'] else '**missed**'} |"
        for name, row in document["bounds"].items()
    ]
    lines += ["", f"The {_SLOWEST} slowest and the principal pages (all are in `bench/web_results.json`):", ""]
    lines += ["| page | queries | processor | median | p95 | kB | first paint |", "|---|---|---|---|---|---|---|"]
    slowest = {page["page"] for page in shells[:_SLOWEST]}
    for shell in shells:
        if shell["page"] in slowest or shell["page"] in paint:
            seen = f"{paint[shell['page']]['median_ms']} ms" if shell["page"] in paint else ""
            lines.append(_row(shell) + f" {seen} |")
    lines += ["", "| part | queries | processor | median | p95 | kB | |", "|---|---|---|---|---|---|---|"]
    lines += [_row(part) + f" {(PARTS | FILES)[part['route']]} |" for part in parts]
    return "\n".join(lines)


def _row(page: dict[str, Any]) -> str:
    name = page["page"].replace("|", " ")
    times = " | ".join(f"{page[side]} ms" for side in ("busy_ms", "median_ms", "p95_ms"))
    return f"| {name} | {page['queries']} | {times} | {page['kilobytes']} |"
