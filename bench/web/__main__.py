"""Web benchmark (``python -m bench.web``): fill, serve, measure."""

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.report import write_result
from bench.web import results
from bench.web.served import database, web
from bench.web.size import Size
from elevata.bootstrap.places import ROOT, relative

OUTPUT = ROOT / "bench" / "web_results.json"
DOCS = ROOT / "docs" / "operate" / "performance.md"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    size = replace(Size(), datasets=options.datasets, seed=options.seed)
    try:
        with database(PLACE / "web"):
            document = _measure(size, options)
    except (BenchProblem, OSError) as problem:
        print(f"bench: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1
    write_result(options.output, document)
    text = results.as_markdown(document)
    if options.docs:
        results.write_into(DOCS, text)
    print(f"\n{text}\n\nwritten to {relative(options.output)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.web", description="Measure every page in front of a large invented control database."
    )
    parser.add_argument("--datasets", type=int, default=Size.datasets, metavar="N", help="datasets (2000)")
    parser.add_argument("--seed", type=int, default=Size.seed, metavar="N", help="another one invents others (7)")
    parser.add_argument("--repeats", type=int, default=20, metavar="N", help="answers that are counted, a page (20)")
    parser.add_argument("--no-paint", action="store_true", help="leave the browser out")
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {relative(DOCS)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="bench/web_results.json")
    return parser


def _measure(size: Size, options: argparse.Namespace) -> dict[str, Any]:
    # Django is set up by now, and not before.
    from bench.web import paint, times
    from bench.web.control import fill
    from bench.web.pages import pages

    document: dict[str, Any] = {
        "size": asdict(size),
    }
    control = fill(size, _say)
    all_pages = pages(control)
    document["report"] = times.of_report(control)
    _say(f"the report of everything: {document['report']}")
    document["plan"] = times.of_plan(PLACE / "web")
    _say(f"plan of two files: {document['plan']}")
    with web(control.people["everything"]) as served:
        document["pages"] = times.of_pages(served, control, all_pages, options.repeats)
        document["paint"] = [] if options.no_paint else paint.of_pages(served, all_pages, max(3, options.repeats // 4))
    return document | {"measures": results.held(document)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
