"""The exact statements of a change report."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.decision_command import REFUSED_EXIT, report_argument
from architecture.models import Preview
from architecture.report_places import place_of_report
from architecture.selectors import report_named
from architecture.services.actors import must_be_permitted
from architecture.services.reports.previews import make_preview
from architecture.services.reports.reports import tables_of
from architecture.services.states.observed_states import CannotLook, look
from elevata.core.cli import FAILED, CommandExit, ProductCommand
from metadata.domain.roles import Permission
from metadata.services.actor import current_actor


class Command(ProductCommand):
    help = (
        "Look at the tables of a change report and show the statements that would be run, in order, as the person "
        "whose personal token is in ELEVATA_TOKEN. Ends with 0, 1 if the tables cannot be "
        "looked at, 2 if it is refused."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--local", action="store_true", help="look at the tables in this process")

    def run(self, *, report: str, local: bool, **_: Any) -> None:
        found, person = report_named(report), current_actor().user
        must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(found))
        try:
            look(environment=found.environment, keys=tables_of(found), sizes=True, local=local or None)
        except CannotLook as problem:
            raise CommandExit(FAILED, problem.one_line(), problem.code) from problem
        preview = make_preview(report=found, person=person)
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
        "sizes": preview.sizes,
        "estimate": preview.estimate,
    }


def _lines(preview: Preview) -> list[str]:
    shown = described(preview)
    lines = []
    for step in shown["steps"]:
        lines.append(f"-- {step['step'] + 1}. {step['op']} {step['dataset']}{_size(preview, step['table'])}")
        lines += [*step["statement"].splitlines(), ""]
    if not lines:
        lines.append("no statement is needed: the change is one of metadata only")
    rewritten = ", ".join(sorted(preview.estimate.get("rewritten", {}))) or "nothing"
    return [*lines, f"written anew: {rewritten}", f"fingerprint {preview.fingerprint}"]


def _size(preview: Preview, key: str) -> str:
    size = preview.sizes.get(key)
    if not size:
        return ""
    rows = f"{size['rows']:,} rows" if size.get("rows") is not None else "rows not counted"
    return f" ({rows}, {size.get('bytes', 0):,} bytes in {size.get('files', 0):,} files)"
