"""Command that creates a change report: of metadata against the warehouse, of two state files, or of one file."""

from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from architecture.domain.change_policy import FLAGS, PolicySet
from architecture.domain.dialect_statements import RENDERER, statements_of_files, with_statements
from architecture.domain.report import STATUS_BLOCKED, STATUS_NO_CHANGES, ChangeReport, build_report
from architecture.domain.report_text import as_markdown, as_text
from architecture.domain.states.current_state import CurrentState
from architecture.management.report_commands import read_state
from elevata.accounts.cli import INVALID, CommandExit, ProductCommand
from metadata.domain.scope import FILES, Scope
from metadata.management.scope_options import add_scope_options, scope_of_options

TEXT, JSON, MARKDOWN = "text", "json", "markdown"
# Report, its id if it is stored, and the statements of each operation if a dialect is asked for.
_Planned = tuple[ChangeReport, str, list[list[str]] | None]
DESTRUCTIVE_EXIT, BLOCKED_EXIT, CHANGES_EXIT = 3, 2, 1


class Command(ProductCommand):
    help = (
        "Compare the desired state with the current one and report the changes. Ends with 0; with --fail-on "
        "also with 3 (destructive), 2 (blocked), 1 (changes or warnings), in that order; 4 on invalid input."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        scope = parser.add_argument_group("against the warehouse")
        add_scope_options(scope, selects_inputs=True)
        scope.add_argument("--target-only", action="store_true", help="with --dataset: without its inputs")
        scope.add_argument(
            "--without-blocked",
            action="store_true",
            help="leave out datasets with a change that the policy blocks, and changed datasets that read them",
        )
        scope.add_argument("--environment", metavar="E", help="default: the installation's own")
        files = parser.add_argument_group(
            "state files",
            "Two are compared and no warehouse is touched. Without B, the metadata are what should be there; without "
            "A, what was applied and is seen in the environment is what is there, and its policy decides.",
        )
        files.add_argument("--previous-state", metavar="A", type=Path, help="what is there")
        files.add_argument("--desired-state", metavar="B", type=Path, help="what should be there")
        files.add_argument(
            "--allow",
            metavar="NAME",
            action="append",
            choices=FLAGS,
            default=[],
            help=f"require approval instead of blocking: {', '.join(FLAGS)}; repeatable",
        )
        files.add_argument("--source-label", metavar="L", default="", help="what A is called, such as dev")
        files.add_argument("--target-label", metavar="L", default="", help="what B is called, such as test")
        names = sorted(RENDERER.get().titles)
        parser.add_argument("--dialect", choices=names, help="print the statements of each operation in an SQL dialect")
        parser.add_argument("--format", choices=(TEXT, JSON, MARKDOWN), help="default: text; --json means json")
        parser.add_argument(
            "--fail-on",
            action="append",
            choices=("changes", "warnings", "blocked", "destructive"),
            default=[],
            help="end with another code than 0 if there are any; repeatable",
        )

    def run(self, **options: Any) -> None:
        as_json = self._as_json
        self._as_json = as_json or options["format"] == JSON
        if as_json and options["format"] not in (None, JSON):
            raise CommandExit(INVALID, f"--json and --format {options['format']} exclude each other", "usage")
        # A report of files is not stored, so it has no id for approve, preview and execute.
        report, kept, statements = self._of_files(options) if _means_files(options) else self._of_warehouse(options)
        if self._as_json:
            described = report.as_json() if statements is None else with_statements(report.as_json(), statements)
            self.print_json(described | ({"report": kept} if kept else {}))
        else:
            markdown = options["format"] == MARKDOWN
            self.say(as_markdown(report) if markdown else as_text(report))
            for line in _printed(report, statements or [], markdown=markdown):
                self.say(line)
            if kept:
                self.say(f"\nReport `{kept}`" if markdown else f"report {kept}")
        code = exit_code(report, options["fail_on"])
        if code:
            raise CommandExit(code)

    @staticmethod
    def _of_files(options: dict[str, Any]) -> _Planned:
        _refuse_beside_files(options)
        # Each file is read once: it may be a pipe.
        files = (options["previous_state"], options["desired_state"])
        previous, desired = (file and read_state(file, options["dialect"]) for file in files)
        labels = {"source": options["source_label"], "target": options["target_label"]}
        policy = PolicySet.of_flags(dict.fromkeys(options["allow"], True))
        if previous and desired:
            report = build_report(CurrentState.of_state(previous), desired, policy, Scope(FILES, **labels))
            dialect = options["dialect"]
            return report, "", statements_of_files(previous, desired, report, dialect) if dialect else None
        # A comparison of two files needs no services and none of their imports.
        from architecture.services.state_import import report_from, report_onto

        if previous:
            return report_from(previous, policy=policy, **labels), "", None
        return report_onto(desired, environment=options["environment"] or "", **labels), "", None

    @staticmethod
    def _of_warehouse(options: dict[str, Any]) -> _Planned:
        from architecture.services.dialects import statements_of_report
        from architecture.services.reports import plan_report

        more = {name: options[name] for name in ("target_only", "without_blocked")}
        scope = scope_of_options(options, **more)
        report, kept = plan_report(scope=scope, environment=options["environment"] or "")
        statements = statements_of_report(kept, options["dialect"]) if options["dialect"] else None
        return report, str(kept.report_id), statements


def _printed(report: ChangeReport, statements: Sequence[list[str]], *, markdown: bool) -> Iterator[str]:
    """Yield the statements of each operation as text or Markdown."""
    for operation, texts in zip(report.operations, statements, strict=False):
        if texts:
            yield f"\n### {operation.describe()}\n\n```sql" if markdown else f"\n-- {operation.describe()}"
            yield "\n".join(texts)
            if markdown:
                yield "```"


def _means_files(options: dict[str, Any]) -> bool:
    names = ("previous_state", "desired_state", "allow", "source_label", "target_label")
    return any(options[name] for name in names)


def _refuse_beside_files(options: dict[str, Any]) -> None:
    """Refuse options that cannot be combined with state files."""
    only_desired = options["previous_state"] is None and options["desired_state"] is not None
    if options["previous_state"] is None and not only_desired:
        message = "--allow and the labels go with --previous-state, --desired-state or both"
        raise CommandExit(INVALID, message, "usage")
    if options["dialect"] and (options["previous_state"] is None or options["desired_state"] is None):
        message = "--dialect with state files needs both, --previous-state and --desired-state"
        raise CommandExit(INVALID, message, "usage")
    scope = ("all", "schema", "dataset", "select", "exclude", "target_only", "without_blocked")
    for name in (*scope, *(() if only_desired else ("environment",))):
        if options[name]:
            raise CommandExit(INVALID, f"--{name.replace('_', '-')} does not go with state files", "usage")
    if only_desired and options["allow"]:
        message = "--allow does not go with --desired-state alone: the environment's own policy decides"
        raise CommandExit(INVALID, message, "usage")


def exit_code(report: ChangeReport, fail_on: Collection[str]) -> int:
    """Return the exit code: the worst of the conditions in ``fail_on`` that the report meets."""
    if "destructive" in fail_on and report.destructive:
        return DESTRUCTIVE_EXIT
    if "blocked" in fail_on and report.status == STATUS_BLOCKED:
        return BLOCKED_EXIT
    changed = "changes" in fail_on and report.status != STATUS_NO_CHANGES
    warned = "warnings" in fail_on and report.warnings
    return CHANGES_EXIT if changed or warned else 0
