"""The web app: fill a large control database, serve it, and measure every page."""

from typing import Any

from bench.runner import Measure, Run, say
from bench.web import results
from bench.web.served import database, web
from bench.web.size import Size


def take(run: Run) -> dict[str, Any]:
    options = run.options
    run.enter(database(run.folder))
    # Django is set up by now, and not before.
    from bench.web import times
    from bench.web.control import fill
    from bench.web.pages import pages

    control = fill(Size(datasets=options.datasets, seed=options.seed), say)
    all_pages = pages(control)
    document: dict[str, Any] = {"report": times.of_report(control), "plan": times.of_plan(run.folder)}
    say(f"report of everything, plan of two files: {document}")
    served = run.enter(web(control.people["everything"], run.folder))
    document["pages"] = times.of_pages(served, control, all_pages, options.rounds)
    document["paint"] = [] if options.no_paint else times.of_paint(served, all_pages, max(3, options.rounds // 4))
    return document | {"bounds": results.evaluate(document)}


MEASURE = Measure(
    take,
    sizes={"datasets": Size.datasets, "seed": Size.seed, "no_paint": False},
    rounds=20,
    markdown=results.as_markdown,
)
