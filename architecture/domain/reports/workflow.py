"""States of a report, who may decide on it, and every reason to refuse a step. An execution is a job.

Pages, REST and commands share these tables and codes. Services change a state by compare-and-set
along the tables only, so two people who both believe it is their turn cannot both be right.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from metadata.domain.roles import Role

# --- states ----------------------------------------------------------------------------------

OPEN, BLOCKED, NO_CHANGES = "open", "blocked", "no_changes"
APPROVED, REJECTED, SUPERSEDED = "approved", "rejected", "superseded"

REPORT_STEPS: Mapping[str, frozenset[str]] = {
    OPEN: frozenset({APPROVED, REJECTED, SUPERSEDED}),
    BLOCKED: frozenset(),
    NO_CHANGES: frozenset(),
    APPROVED: frozenset(),
    REJECTED: frozenset(),
    SUPERSEDED: frozenset(),
}

# A step that succeeded is never done again; one that failed is planned anew by the next attempt.
STEP_STEPS: Mapping[str, frozenset[str]] = {
    "planned": frozenset({"succeeded", "failed"}),
    "failed": frozenset({"planned"}),
    "succeeded": frozenset(),
}

# --- refusals --------------------------------------------------------------------------------

# code: (what it says, what to do)
CODES: Mapping[str, tuple[str, str]] = {
    "OWN_CHANGE": (
        "a change is approved by somebody who had no hand in it",
        "ask another person: authors are excluded, superusers and tokens included",
    ),
    "REPORT_BLOCKED": (
        "the report holds operations that the environment's policy blocks",
        "change the metadata or the policy, or make a report of a narrower scope",
    ),
    "REPORT_STALE": ("metadata moved since the report was made", "make the report again and have it approved"),
    "REPORT_SUPERSEDED": ("a newer report of the same scope has taken its place", "go on with the newer one"),
    "REPORT_REJECTED": ("the report was rejected", "change the metadata and make a new report"),
    "NO_CHANGES": ("the report holds no changes", "there is nothing to approve or to execute"),
    "ALREADY_DECIDED": ("this was decided already", "a decision stays as it is; a new report can be made"),
    "NO_APPROVAL_NEEDED": ("the report needs no approval in this environment", "preview and execute it"),
    "NOT_APPROVED": ("the report does not have the approvals it needs", "have it approved first"),
    "NO_PREVIEW": ("the report has no preview", "make the preview first: it shows the statements that will run"),
    "PREVIEW_STALE": (
        "the statements would no longer be those of the preview",
        "make the preview again and look at it",
    ),
    "TABLE_MOVED": (
        "tables of the warehouse are not as the report found them",
        "see the drift page, then make the report again",
    ),
    "POLICY_MOVED": ("the environment's policy moved since the report was made", "make the report again"),
    "APPROVAL_UNPROVEN": (
        "a decision on the report is not in the audit chain as it stands in the database",
        "run 'manage.py verify_audit': the database was changed beside the product, or the audit key is another",
    ),
    "REPORT_UNPROVEN": (
        "the report is not as the product stored it",
        "run 'manage.py verify_audit', then make a new report",
    ),
    "PREVIEW_UNPROVEN": (
        "the preview is not as the product stored it",
        "run 'manage.py verify_audit', then make the preview again",
    ),
    "APPLIED_UNPROVEN": (
        "what was applied is not as the product stored it",
        "run 'manage.py verify_audit'; put a backup back, or adopt the dataset as it is: every author counts then",
    ),
    "EXECUTION_UNPROVEN": (
        "the execution is not as the product stored it",
        "run 'manage.py verify_audit', then abandon the execution and make a new report",
    ),
    "POLICY_UNPROVEN": (
        "the environment's policy is not the one that was last put in force",
        "run 'manage.py verify_audit', then have an administrator save the policy again",
    ),
    "NOT_PERMITTED": ("you are not permitted to do this", "ask an administrator for a role with this permission"),
    "SERVICE_ACCOUNT": (
        "a service account neither approves nor rejects, and changes no policy",
        "let a person do it, signed in or with a token of their own",
    ),
    "NO_PERSON": (
        "this is done by a person, and none is named",
        "sign in, or put a personal token into ELEVATA_TOKEN",
    ),
    "LEASE_HELD": ("something else writes to the dataset", "wait for its end, or cancel it"),
    "ALREADY_EXECUTED": ("the report was executed already", "make a new report if something is left to do"),
    "ALREADY_RUNNING": ("an execution of the report waits or is under way", "follow that one"),
    "NOT_RESUMABLE": ("the execution is not in a state from which that is possible", "look at its page"),
    "UNKNOWN_REPORT": ("there is no such report", "'manage.py plan' makes one"),
    "UNKNOWN_RECORD": ("there is no such record", "'manage.py records' lists them"),
    "UNKNOWN_DATASET": ("there is no such dataset", "look at the list of datasets"),
    "UNKNOWN_ENVIRONMENT": ("there is no such environment", "look at the list of environments"),
    "NOT_OBSERVED": ("the warehouse was not looked at yet", "let a worker observe it: start one with 'make serve'"),
    "UNKNOWN_LOOK": ("you asked for no such look", "ask for one, and use its number"),
    "LOOK_UNFINISHED": ("the look at the warehouse is not finished", "wait for its end, then ask again"),
    "LOOK_FAILED": ("nobody looked at the warehouse", "ask for another look, or take what was seen last"),
    "OTHER_LOOK": ("the look was at other tables", "ask for a look at the tables that this is about"),
    "NO_REASON": ("this needs a reason", "say why: it stays with the record"),
    "NOTHING_TO_UNDO": ("nothing of the record can be undone", "make the change by metadata"),
    "UNKNOWN_OPERATION": ("the record has no such operation", "look at the operations of the record"),
    "ALREADY_UNDONE": ("this was taken back already", "there is nothing left to take back of it"),
    "LATER_OPERATIONS": ("later operations stand on what is to be taken back", "take what was done since back first"),
    "WRITTEN_SINCE": (
        "rows were written since, which going back would take along",
        "choose the other operations, and change this one forward, by the metadata and a report",
    ),
    "NO_WAY_BACK": ("nothing takes this back", "change it forward, by the metadata and a report"),
    "ALREADY_APPLIED": (
        "something was applied of the dataset here already",
        "take it out of the file, or see what differs: 'manage.py drift', 'manage.py plan --desired-state FILE'",
    ),
    "BAD_KEY": (
        "a table lies under its dataset's key, so that is a UUID",
        "take the file from 'manage.py export_state'",
    ),
    "UNKNOWN_LAYER": ("the layer of a schema is not known", "describe the schema first, or import the metadata"),
    "POLICY_PROPOSED": (
        "another change of this policy waits for a second person",
        "have it accepted or rejected, or withdrawn by who proposed it, first",
    ),
    "POLICY_OUTDATED": (
        "the proposal does not come to what was proposed any more",
        "reject it, and propose the change again over the policy in force",
    ),
    "OWN_PROPOSAL": (
        "a looser policy is accepted by somebody who did not propose it",
        "ask another person who manages policies, or withdraw the proposal",
    ),
    "UNKNOWN_PROPOSAL": ("there is no such proposal", "look at the page of the policy"),
    "OTHER_ENVIRONMENT": (
        "the report is of another environment than this installation works in",
        "execute it in the installation of its environment, or make a report of this one",
    ),
    "POLICY_CHANGED": ("somebody else changed the policy in the meantime", "look at it again before changing it"),
}


class Refused(Exception):
    """Refusal of a workflow step. Nothing was written.

    ``code`` is one of ``CODES`` and never changes; ``message`` and ``hint`` are for people.
    """

    def __init__(self, code: str, message: str = "", hint: str = "") -> None:
        text, advice = CODES[code]
        super().__init__(message or text)
        self.code = code
        self.message = message or text
        self.hint = hint or advice

    def one_line(self) -> str:
        return f"{self.message}; {self.hint}"

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


# --- who may do what -------------------------------------------------------------------------

YES, NO = "approve", "reject"


@dataclass(frozen=True)
class Decided:
    """One person's recorded yes or no to one fingerprint; ``roles`` are those it counts for."""

    person: str
    decision: str
    fingerprint: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """Required number of approvals, and the approvers' role (empty: any)."""

    count: int = 0
    role: str = ""


def approvers(
    decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]
) -> tuple[str, ...]:
    """Return the users whose approvals count.

    Of this fingerprint, of the role (or an admin), no author, each once. Sorted.
    """
    return tuple(
        sorted(
            {
                one.person
                for one in decisions
                if one.decision == YES
                and one.fingerprint == fingerprint
                and one.person not in authors
                and (not need.role or need.role in one.roles or Role.ADMIN in one.roles)
            }
        )
    )


def approvals_missing(decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]) -> int:
    """Return the number of missing approvals, never below 0."""
    return max(0, need.count - len(approvers(decisions, fingerprint=fingerprint, need=need, authors=authors)))


def refuse_decision(
    *, status: str, person: str, decision: str, authors: Collection[str], decided: Iterable[Decided], needed: int
) -> None:
    """Refused unless the person may say yes or no to the report now. An author may always say no."""
    refuse_closed(status)
    if status == APPROVED:
        raise Refused("ALREADY_DECIDED", "the report is approved")
    if any(one.person == person for one in decided):
        raise Refused("ALREADY_DECIDED", f"{person} has decided on this report already")
    if decision == YES and needed == 0:
        raise Refused("NO_APPROVAL_NEEDED")
    if decision == YES and person in authors:
        raise Refused("OWN_CHANGE", f"{person} has a hand in what this report changes")


def refuse_closed(status: str) -> None:
    """Refused for reports that nothing can be done with any more."""
    codes = {
        BLOCKED: "REPORT_BLOCKED",
        NO_CHANGES: "NO_CHANGES",
        REJECTED: "REPORT_REJECTED",
        SUPERSEDED: "REPORT_SUPERSEDED",
    }
    if status in codes:
        raise Refused(codes[status])


def refuse_execution(
    *,
    status: str,
    decisions: Iterable[Decided],
    fingerprint: str,
    need: Need,
    authors: Collection[str],
    person: str,
    approver_may_execute: bool,
) -> None:
    """Refused unless a report as it stands may be executed by this person."""
    refuse_closed(status)
    decisions = tuple(decisions)
    if any(one.decision == NO and one.fingerprint == fingerprint for one in decisions):
        raise Refused("REPORT_REJECTED")
    missing = approvals_missing(decisions, fingerprint=fingerprint, need=need, authors=authors)
    if missing:
        role = f" by people of the role {need.role}" if need.role else ""
        raise Refused("NOT_APPROVED", f"{missing} more {'approval' if missing == 1 else 'approvals'}{role} needed")
    if (
        need.count
        and not approver_may_execute
        and any(one.person == person and one.decision == YES for one in decisions)
    ):
        raise Refused("NOT_PERMITTED", f"{person} approved the report and may not execute it in this environment")
