"""Next step of a dataset, source, load run, report or execution: the one thing that is to be done now.

Pages, REST and commands show the same step; ``loader.selectors.next_steps`` reads the facts.
"""

from dataclasses import dataclass

from architecture.domain import report_states
from elevata.jobs import states

WAIT, RESUME = "wait", "resume"
# Steps of a report.
APPROVE, PREVIEW, EXECUTE, OPEN_NEWER = "approve", "create_preview", "execute", "open_newer_report"
# A report is needed; the change policy blocks the changes; it blocks the removal of a column that can be retired.
CREATE_REPORT, CHANGE_METADATA, RETIRE = "create_report", "change_metadata", "retire_instead"
# Steps of a source.
REVIEW_PROPOSAL, GENERATE = "review_proposal", "generate_targets"
# Steps of loads.
APPROVE_RUN, LOAD_REST, LOAD_AGAIN, LOAD = "approve_run", "load_the_rest", "load_again", "load"
NOTHING = "nothing"
STEPS = (
    *(WAIT, RESUME, APPROVE, PREVIEW, EXECUTE, OPEN_NEWER, CREATE_REPORT, CHANGE_METADATA, RETIRE),
    *(REVIEW_PROPOSAL, GENERATE, APPROVE_RUN, LOAD_REST, LOAD_AGAIN, LOAD, NOTHING),
)


@dataclass(frozen=True)
class Facts:
    """Facts about a dataset, source, load run, report or execution; each default says that there is no such thing.

    ``execution`` and ``run`` are the states of the newest ones, ``report`` that of the report that covers the changes
    (``missing``: approvals that it lacks; ``is_outdated``, ``is_previewed``). ``pending`` is the number of changes that
    are not in the warehouse, ``undecided`` the number of those that no load applies by itself, ``blocked`` of those
    that the policy blocks. ``is_retirable``: a blocked removal is of a column that can be retired. ``has_rest``: the
    run refused rows that can be left out. ``is_behind``: the tables have changed since the newest load, or there was
    none.
    """

    execution: str = ""
    run: str = ""
    is_unapproved: bool = False
    has_rest: bool = False
    report: str = ""
    missing: int = 0
    is_outdated: bool = False
    is_previewed: bool = False
    is_retirable: bool = False
    pending: int = 0
    undecided: int = 0
    blocked: int = 0
    has_proposal: bool = False
    lacks_targets: bool = False
    is_behind: bool = False


def next_step(facts: Facts) -> str:
    """Return the next step, one of ``STEPS``.

    Work under way comes first, then interrupted work, then changes of tables, because loads wait for them.
    """
    if facts.execution in states.ACTIVE or facts.run in states.ACTIVE:
        return WAIT
    if facts.execution in states.RESTARTABLE:
        return RESUME
    return _step_of_report(facts) or _step_of_changes(facts) or _step_of_source(facts) or _step_of_loads(facts)


def _step_of_report(facts: Facts) -> str:
    if facts.execution == states.SUCCEEDED:
        return ""
    if facts.report == report_states.SUPERSEDED:
        return OPEN_NEWER
    if facts.report == report_states.BLOCKED and not facts.is_outdated:
        return RETIRE if facts.is_retirable else CHANGE_METADATA
    if facts.report == report_states.REJECTED:
        return CREATE_REPORT
    if facts.report not in (report_states.OPEN, report_states.APPROVED, report_states.BLOCKED):
        return ""
    if facts.is_outdated:
        return CREATE_REPORT
    if facts.missing:
        return APPROVE
    return EXECUTE if facts.is_previewed else PREVIEW


def _step_of_changes(facts: Facts) -> str:
    if facts.blocked:
        return CHANGE_METADATA
    if facts.undecided:
        return CREATE_REPORT
    return ""


def _step_of_source(facts: Facts) -> str:
    if facts.has_proposal:
        return REVIEW_PROPOSAL
    return GENERATE if facts.lacks_targets else ""


def _step_of_loads(facts: Facts) -> str:
    if facts.is_unapproved:
        return APPROVE_RUN
    if facts.run in states.RESTARTABLE:
        return LOAD_REST if facts.has_rest else LOAD_AGAIN
    return LOAD if facts.pending or facts.is_behind else NOTHING
