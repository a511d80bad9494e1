"""Command that shows the exact statements of a change report."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.report_commands import REFUSED_EXIT, report_argument
from architecture.models import Preview
from architecture.permissions import must_be_permitted, place_of_report
from architecture.selectors.reports import report_named
from architecture.services.previews import make_preview
from architecture.services.refreshes import CannotRefresh, refresh_now
from architecture.services.reports import tables_of
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, CommandExit, ProductCommand
from elevata.accounts.roles import Permission


class Command(ProductCommand):
    help = (
        "Scan the tables of a change report and show its statements, in order, as the user of "
        "the token in ELEVATA_TOKEN. Ends with 0, 1 if the tables cannot be scanned, 2 if it is refused."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--local", action="store_true", help="refresh in this process")

    def run(self, *, report: str, local: bool, **_: Any) -> None:
        row, user = report_named(report), current_actor().user
        must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(row))
        try:
            refresh_now(environment=row.environment, keys=tables_of(row), sizes=True, local=local or None)
        except CannotRefresh as problem:
            raise CommandExit(FAILED, problem.one_line(), problem.code) from problem
        preview = make_preview(report=row, user=user)
        self.print_json(described(preview))
        if not self._as_json:
            for line in _lines(preview):
                self.say(line)


def described(preview: Preview) -> dict[str, Any]:
    steps = preview.document["steps"]
    return {
        "format": preview.document["format"],
        "report": str(preview.report.report_id),
        "report_fingerprint": preview.report.fingerprint,
        "fingerprint": preview.fingerprint,
        "environment": preview.document["environment"],
        "observed_at": preview.observed_at.isoformat() if preview.observed_at else None,
        "steps": [
            {
                "step": place,
                "op": step["op"],
                "dataset": f"{step['table']['schema']}.{step['table']['name']}",
                "table": step["table"]["key"],
                "operation": step["operation"],
                "statement": step["statement"],
                "assumes": step["assumes"],
            }
            for place, step in enumerate(steps)
        ],
        "views": preview.document.get("views", []),
        "sizes": preview.sizes,
        "estimate": preview.estimate,
    }


def _lines(preview: Preview) -> list[str]:
    shown = described(preview)
    lines = []
    for step in shown["steps"]:
        lines.append(f"-- {step['step'] + 1}. {step['op']} {step['dataset']}{_size(preview, step['table'])}")
        lines += [*step["statement"].split("\n"), ""]
    for view in shown["views"]:
        lines.append(f"-- {'create' if view['new'] else 'change'} the view {view['name']}")
        lines += [*view["statement"].split("\n"), ""]
    if not lines:
        lines.append("no statement is needed: the change is one of metadata only")
    rewritten = ", ".join(sorted(preview.estimate.get("rewritten", {}))) or "nothing"
    return [*lines, f"rewritten: {rewritten}", f"fingerprint {preview.fingerprint}"]


def _size(preview: Preview, key: str) -> str:
    size = preview.sizes.get(key)
    if not size:
        return ""
    rows = f"{size['rows']:,} rows" if size.get("rows") is not None else "rows not counted"
    return f" ({rows}, {size.get('bytes', 0):,} bytes in {size.get('files', 0):,} files)"
