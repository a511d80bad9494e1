"""API benchmark (``python -m bench.api``): open-loop requests against a large control database."""

import argparse
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.report import write_result
from bench.web.results import write_into
from bench.web.served import database, web
from bench.web.size import Size
from elevata.bootstrap.places import ROOT, relative

OUTPUT = ROOT / "bench" / "api_results.json"
DOCS = ROOT / "docs" / "operate" / "performance.md"
MARKS = ("<!-- bench.api: begin -->", "<!-- bench.api: end -->")
P95_MS = 250
# As docker-compose.yml and docs/operate/operations.md start it.
_WORKERS, _THREADS = 2, 4


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        with database(PLACE / "api"):
            document = _measure(options)
    except (BenchProblem, OSError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    write_result(options.output, document)
    text = as_markdown(document)
    if options.docs:
        write_into(DOCS, text, MARKS)
    print(f"\n{text}\n\nwritten to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, metavar="N", help="in all (20000)")
    parser.add_argument("--rate", type=float, default=20, metavar="N", help="a second (20)")
    parser.add_argument("--clients", type=int, default=20, metavar="N", help="programs that ask (20)")
    parser.add_argument("--datasets", type=int, default=Size.datasets, metavar="N", help="datasets (2000)")
    parser.add_argument("--docs", action="store_true", help=f"write the table into {relative(DOCS)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/api_results.json")
    return parser


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    # Django is set up by now, and not before.
    from bench.api.clients import Client, in_turns
    from bench.api.requests import requests
    from bench.web.control import fill
    from elevata.accounts.services.tokens import create_token
    from elevata.audit.models import ChangeLogEntry
    from elevata.audit.services.verification import verify_chain

    size = Size(datasets=options.datasets)
    control = fill(size, lambda line: print(line, file=sys.stderr, flush=True))
    logged = ChangeLogEntry.objects.count()
    each, editors = options.requests // options.clients, control.people["editors"]
    asked = [list(requests(each, size.seed, number, options.clients)) for number in range(options.clients)]
    tokens = [create_token(user=editors[number % len(editors)], name=f"c{number}")[1] for number in range(len(asked))]
    with web(control.people["everything"], workers=_WORKERS, threads=_THREADS) as served:
        served.get("/healthz")
        answers = in_turns([Client(served.port, token) for token in tokens], asked, options.rate)
    written = sum(1 for answer in answers if answer.name == "change of a column" and not answer.problem)
    document = {
        "size": asdict(size),
        "rate": options.rate,
        "clients": options.clients,
        "answers": len(answers),
        "problems": dict(Counter(answer.problem for answer in answers if answer.problem).most_common(10)),
        "writes": written,
        "writes_logged": ChangeLogEntry.objects.count() - logged,
        "chain": "intact" if verify_chain().intact else "broken",
        "all": _times([answer.ms for answer in answers]),
        "by_kind": {
            name: _times([answer.ms for answer in answers if answer.name == name])
            for name in sorted({answer.name for answer in answers})
        },
    }
    return document


def _times(ms: list[float]) -> dict[str, float]:
    ms = sorted(ms)
    at = {"median_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    quantiles = {name: round(ms[min(len(ms) - 1, int(part * len(ms)))]) for name, part in at.items()}
    return {"count": len(ms)} | quantiles | {"longest_ms": round(ms[-1])}


def as_markdown(document: dict[str, Any]) -> str:
    """Return the results as a table for docs/operate/performance.md."""
    all_, problems = document["all"], sum(document["problems"].values())
    met = "met" if all_["p95_ms"] < P95_MS and not problems else "**missed**"
    lines = [
        f"{document['answers']} answers at {document['rate']:g} requests a second from {document['clients']} clients, "
        f"one in ten a write: p95 {all_['p95_ms']} ms (wanted: under {P95_MS}), {problems} errors — {met}. "
        f"{document['writes']} writes, {document['writes_logged']} entries in the change log, "
        f"the chain is {document['chain']}.",
        "",
        "| request | count | median | p95 | p99 | longest |",
        "|---|---|---|---|---|---|",
    ]
    for name, times in document["by_kind"].items():
        spent = " | ".join(f"{times[measure]} ms" for measure in ("median_ms", "p95_ms", "p99_ms", "longest_ms"))
        lines.append(f"| {name} | {times['count']} | {spent} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
