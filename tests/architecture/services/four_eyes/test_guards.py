"""Guards of four eyes: the property test fails without each of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from architecture.domain import decisions
from architecture.domain.planning import column_pairs, datasets, downstream, logic, plan, row_rules
from architecture.permissions import who_answers
from architecture.services import execution_checks, executions, reports
from elevata.accounts.actors import acting_as
from elevata.audit.services.transactions import writing
from loader.models import LoadRun
from loader.services.loads import load_runs
from loader.services.maintenance import approvals, runs
from loader.services.sources import proposals, uploads
from tests.architecture.services.four_eyes.edits import Change, SetExpression, SetSource, SwitchHistory
from tests.architecture.services.four_eyes.judge import Broken
from tests.architecture.services.four_eyes.test_property import (
    BY_DAY,
    FourEyes,
    lasting,
    make_shop,
    own_heads,
    settings_for,
)

__all__ = ["own_heads"]

pytestmark = [pytest.mark.django_db, pytest.mark.embedded_only]


# Places of datasets and columns in the lists of the edits.
ORDER, SALE, AMOUNT_OF_ORDER = 1, 2, 3


def prepare(*changes: Change) -> None:
    """Edit the shop so that sequences need a guard: ann edits, the others approve."""
    lasting().carry_everything_out(0, list(changes), [1, 2])
    assert LoadRun.objects.latest("pk").status == "succeeded"


def without_authors(patch: pytest.MonkeyPatch) -> None:
    """Let the authors of a change approve it."""
    refuse, approvers = decisions.refuse_decision, decisions.approvers
    patch.setattr(decisions, "refuse_decision", lambda **asked: refuse(**asked | {"authors": ()}))
    patch.setattr(decisions, "approvers", lambda decided, **asked: approvers(decided, **asked | {"authors": ()}))


def without_downstream(patch: pytest.MonkeyPatch) -> None:
    """Let no change reach a downstream history."""
    patch.setattr(plan, "carried_downstream", lambda drafts, same, downstream: drafts)


def without_comparison(patch: pytest.MonkeyPatch) -> None:
    """Let no change of logic make a history compare differently."""
    moved = logic.Moved.and_
    patch.setattr(
        logic.Moved,
        "and_",
        lambda self, what, *, compares, alters=None: moved(
            self, what, compares=False, alters=compares if alters is None else alters
        ),
    )


def without_checks(patch: pytest.MonkeyPatch) -> None:
    """Let checks decide rows of histories without a planned operation."""
    patch.setattr(row_rules, "_are_same_checks", lambda before, after, names: True)


def without_sources(patch: pytest.MonkeyPatch) -> None:
    """Let source options decide rows of histories without a planned operation."""
    patch.setattr(row_rules, "_changed_choices", lambda before, after: [])


def without_approvals(patch: pytest.MonkeyPatch) -> None:
    """Let maintenance runs need no approval."""
    for module in (load_runs, runs):
        patch.setattr(module, "refuse_unapproved", lambda run: None)


def without_requesters(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the maintenance runs that they requested."""
    patch.setattr(approvals, "requesters", lambda run: frozenset())


def without_repeaters(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the maintenance runs that they repeated."""
    patch.setattr(approvals, "requesters", lambda run: frozenset({who_answers(run.requested_by)}))


def without_repetitions(patch: pytest.MonkeyPatch) -> None:
    """Let approvals of a maintenance run count when it is repeated after its end."""
    patch.setattr(load_runs, "next_repetition", lambda run: {})


def without_environment_of_reports(patch: pytest.MonkeyPatch) -> None:
    """Let reports be executed in the installation of another environment."""
    patch.setattr(executions, "refuse_elsewhere", lambda environment, subject: None)


def without_environment_of_approvals(patch: pytest.MonkeyPatch) -> None:
    """Let maintenance runs be approved in the installation of another environment."""
    patch.setattr(approvals, "refuse_elsewhere", lambda environment, subject: None)


def without_environment_of_runs(patch: pytest.MonkeyPatch) -> None:
    """Let runs be repeated in the installation of another environment."""
    patch.setattr(load_runs, "refuse_elsewhere", lambda environment, subject: None)


def without_typed_columns(patch: pytest.MonkeyPatch) -> None:
    """Let the types of new source columns decide rows of histories without a planned operation."""
    same = row_rules._is_same_contract
    patch.setattr(row_rules, "_is_same_contract", lambda *sides, checks_values: same(*sides, checks_values=False))
    prepare(SetSource("faulty_rows", "quarantine"))


def without_selects(patch: pytest.MonkeyPatch) -> None:
    """Let the SELECTs of models change without a planned operation."""
    moved = datasets.dataset_moved
    patch.setattr(
        datasets,
        "dataset_moved",
        lambda before, after, *named: moved(replace(before, select=after.select), after, *named),
    )


def without_row_inputs(patch: pytest.MonkeyPatch) -> None:
    """Let columns that decide the rows of a model change without an operation on its history."""
    patch.setattr(downstream, "decides_rows", lambda text, tables, names: False)
    prepare(SwitchHistory(ORDER), SwitchHistory(SALE))


def without_ghosts(patch: pytest.MonkeyPatch) -> None:
    """Let references add rows to histories of parents without a planned operation."""
    changed = logic.changed_rules
    patch.setattr(downstream, "GHOST", "")
    patch.setattr(
        logic, "changed_rules", lambda *sides: ((text, by and "ghost" not in text) for text, by in changed(*sides))
    )


def without_held_back(patch: pytest.MonkeyPatch) -> None:
    """Let references remove rows from histories of children without a planned operation."""
    for module in (column_pairs, downstream, logic):
        patch.setattr(module, "QUARANTINE", "")


def without_requesters_of_undos(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the undo reports that they requested."""
    patch.setattr(reports, "who_answers", lambda user: "")
    prepare(SetExpression(AMOUNT_OF_ORDER, "coalesce({}, 'none')", 0))


def without_marks_of_undos(patch: pytest.MonkeyPatch) -> None:
    """Let the authors of undone changes approve them again."""
    patch.setattr(execution_checks, "mark_before", lambda report: report.through)
    prepare(SetExpression(AMOUNT_OF_ORDER, "coalesce({}, 'none')", 0))
    lasting().undo(1, 0, None, False, [2])
    assert FourEyes.succeeded["undo"]


def without_acceptors(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the changes of a source that they accepted."""

    @contextmanager
    def unsigned(reason: str) -> Iterator[None]:
        with acting_as(None), writing(reason):
            yield

    patch.setattr(proposals, "writing", unsigned)


def without_uploaders(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the columns of the deliveries that they uploaded, which the source takes at once."""
    record = uploads.record_change
    patch.setattr(uploads, "record_change", lambda **entry: record(**entry | {"dataset_key": None}))
    lasting().change_policy(0, ("safe", 1))
    prepare(SetSource("new_columns", "take"))


GUARDS = [without_authors, without_downstream, without_comparison, without_checks, without_sources]
GUARDS += [without_approvals, without_requesters, without_repeaters, without_repetitions]
GUARDS += [without_typed_columns, without_selects, without_row_inputs, without_ghosts, without_held_back]
GUARDS += [without_requesters_of_undos, without_marks_of_undos, without_acceptors, without_uploaders]
GUARDS += [without_environment_of_reports, without_environment_of_approvals, without_environment_of_runs]


@pytest.mark.nightly
@pytest.mark.takes(seconds=60)
@pytest.mark.usefixtures("own_heads")
@pytest.mark.parametrize("take_out", GUARDS)
def test_property_test_fails_without_each_guard(take_out: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shop()
    FourEyes.succeeded.clear()
    take_out(monkeypatch)
    unshrunk = settings(settings_for(BY_DAY), max_examples=100, phases=[Phase.generate])
    with pytest.raises(Broken):
        run_state_machine_as_test(FourEyes, settings=unshrunk)
