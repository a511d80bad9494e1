"""Publication of names after a load or an execution.

Names are published after the tables are written: an unavailable catalog, or a name that is taken, fails no table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from architecture.domain.states.flat_states import of_row
from architecture.models import Execution
from architecture.services.execution_attempts import ExecutionAttempt
from elevata.core.database import retried
from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import VIEW
from loader.domain.catalogs.publication import INCOMPLETE, UNSUPPORTED, Finding, of_answer
from loader.runner.conversation import Conversation, Stopped
from loader.services.publication import PUBLISH, publish_manifest


@dataclass(frozen=True)
class Publication:
    """Result of publishing: ``findings`` by name that was not published, or ``refusal`` if none was.

    It is ``incomplete`` if nothing was done because all names must be published first.
    """

    findings: Mapping[str, Finding] = field(default_factory=dict)
    refusal: Refusal | None = None
    incomplete: bool = False

    def shows(self, name: str) -> bool:
        """Return True if the catalog showed the name when it was read again."""
        return self.refusal is None and name not in self.findings

    def problem_of(self, name: str) -> Refusal | None:
        """Return the reason why a name is not published; None if it is, or if the catalog cannot have it."""
        finding = self.findings.get(name)
        if finding is None or finding.problem == UNSUPPORTED:
            return self.refusal
        return Refusal("NOT_PUBLISHED", finding.one_line())


def publish_after(*, talk: Conversation, manifest: PublishManifest) -> Publication:
    """Publish names after a load or an execution, and warn about those that could not be published."""
    try:
        finished = talk.ask(PUBLISH, manifest)
    except Stopped:
        stopped = Refusal("WORKER_STOPPED", "the work was stopped", hint="run manage.py publish, or load again")
        finished = {"error": stopped.as_json()}
    if finished.get("error"):
        refusal = Refusal.from_json(finished["error"])
        _warn(talk, f"names were not published: {refusal.one_line()}")
        return Publication(refusal=refusal)
    findings = of_answer(finished["answer"])
    for finding in findings:
        _warn(talk, f"not published: {finding.one_line()}")
    by_name = {finding.name: finding for finding in findings}
    return Publication(by_name, incomplete=finished["answer"].get(INCOMPLETE, False))


def _warn(talk: Conversation, message: str) -> None:
    retried(partial(talk.attempt.say, message, level="warning"))


def publish_execution(
    *, execution: Execution, attempt: ExecutionAttempt, talk: Conversation, needs_views: bool = True
) -> Refusal | None:
    """Publish all names after the steps, and finish the rows that change no table.

    The row of a view gets its statement once the catalog shows the view. With ``needs_views``, the row of a view that
    is not published fails; return the first such error.
    """
    ordinals = retried(attempt.silent_rows)
    rows = retried(lambda: {row.ordinal: row for row in execution.operations.filter(ordinal__in=ordinals)})
    planned = retried(partial(Execution.objects.get, pk=execution.pk)).planned
    desired = {key: of_row(row) for key, row in planned["desired"].items()}
    becoming = [desired[key] for row in rows.values() if (key := str(row.dataset_key)) in desired]
    manifest = retried(partial(publish_manifest, environment=execution.environment, becoming=becoming))
    publication = publish_after(talk=talk, manifest=manifest)
    described = {state.key for state in becoming if state.materialization == VIEW}
    views = {name.dataset: name for name in manifest.names if name.kind == VIEW and name.dataset in described}
    problem = None
    for ordinal, row in rows.items():
        view = views.get(str(row.dataset_key))
        error = publication.problem_of(view.name) if view is not None and needs_views else None
        problem = problem or error
        if view is not None and publication.shows(view.name):
            retried(partial(attempt.step_started, ordinal, statement=view.statement))
        end = partial(attempt.step_finished, ordinal, succeeded=error is None)
        retried(partial(end, error=error.as_json() if error is not None else None))
    return problem
