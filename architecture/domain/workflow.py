"""Report states, refusals of workflow steps, and the next action of a user.

Pages, REST and commands share these tables and codes. Services change a state by compare-and-set along the tables,
so that only one of two concurrent steps succeeds.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from elevata.accounts.roles import Role
from elevata.core.errors import ProductError
from elevata.core.installation import user_command
from elevata.core.words import counted
from elevata.jobs import states

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

# --- refusals --------------------------------------------------------------------------------

# code: (message, hint)
CODES: Mapping[str, tuple[str, str]] = {
    "OWN_CHANGE": (
        "authors cannot approve their own changes",
        "ask another approver; this also applies to superusers and tokens",
    ),
    "REPORT_BLOCKED": (
        "the environment's policy blocks operations of the report",
        "change the metadata or the policy, or create a report with a narrower scope",
    ),
    "REPORT_STALE": ("the metadata changed since the report was created", "create a new report and have it approved"),
    "REPORT_SUPERSEDED": ("a newer report of the same scope replaced it", "use the newer report"),
    "REPORT_REJECTED": ("the report was rejected", "change the metadata and create a new report"),
    "NO_CHANGES": ("the report holds no changes", "there is nothing to approve or to execute"),
    "ALREADY_DECIDED": ("this was decided already", "create a new report to decide again"),
    "NO_READER_LOST": ("no operation of the report costs a table readers", "approve it without accepting lost readers"),
    "CONTRACT_BROKEN": (
        "the report breaks a contract, which an approval must accept",
        "ask its consumers, then approve the report and accept the broken contracts",
    ),
    "NO_CONTRACT_BROKEN": ("the report breaks no contract", "approve it without accepting broken contracts"),
    "NO_APPROVAL_NEEDED": ("the report needs no approval in this environment", "preview and execute it"),
    "NOT_APPROVED": ("the report does not have the approvals it needs", "have it approved first"),
    "NO_PREVIEW": ("the report has no preview", "create the preview first"),
    "PREVIEW_STALE": (
        "the statements changed since the preview",
        "create and review a new preview",
    ),
    "TABLE_MOVED": (
        "tables changed since the report was created",
        "check the drift page, then create a new report",
    ),
    "POLICY_MOVED": ("the environment's policy changed since the report was created", "create a new report"),
    "APPROVAL_UNPROVEN": (
        "a decision on the report does not match the audit chain",
        "run 'manage.py verify_audit': the database was changed outside elevata, or the audit key differs",
    ),
    "REPORT_UNPROVEN": (
        "the stored report was altered",
        "run 'manage.py verify_audit', then create a new report",
    ),
    "PREVIEW_UNPROVEN": (
        "the stored preview was altered",
        "run 'manage.py verify_audit', then create a new preview",
    ),
    "PROPOSAL_UNPROVEN": (
        "the stored proposal was altered",
        "run 'manage.py verify_audit', then reject the proposal; it can be proposed again",
    ),
    "APPLIED_UNPROVEN": (
        "the stored applied state was altered",
        "run 'manage.py verify_audit'; restore a backup or adopt the dataset; every author then counts",
    ),
    "EXECUTION_UNPROVEN": (
        "the stored execution was altered",
        "run 'manage.py verify_audit', then abandon the execution and create a new report",
    ),
    "CHANGED_OUTSIDE": (
        "metadata was changed outside of elevata",
        "run 'manage.py verify_audit'; restore the rows or have an administrator run 'manage.py adopt_metadata'",
    ),
    "POLICY_UNPROVEN": (
        "the stored policy of the environment was altered",
        "run 'manage.py verify_audit', then have an administrator save the policy again",
    ),
    "NOT_PERMITTED": ("you are not permitted to do this", "ask an administrator for a role with this permission"),
    "SERVICE_ACCOUNT": (
        "a service account cannot approve, reject or change a policy",
        "ask a user to do it, signed in or with a personal token",
    ),
    "NO_PERSON": (
        "this needs a signed-in user",
        "sign in, or set ELEVATA_TOKEN to a personal token",
    ),
    "RUN_UNAPPROVED": (
        "the run does not have the approvals that the environment's policy needs",
        "ask another user to approve it on the run's page or by 'manage.py approve_maintenance'",
    ),
    "OWN_RUN": (
        "users cannot approve a run that they requested",
        "ask another approver; this also applies to superusers and tokens",
    ),
    "NOT_APPROVABLE": ("the run needs no approval", "see its status on the run's page"),
    "LEASE_HELD": ("another job writes to the dataset", "wait for its end, or cancel it"),
    "ALREADY_EXECUTED": ("the report was already executed", "create a new report for remaining changes"),
    "ALREADY_RUNNING": ("an execution of the report is queued or running", "see that execution"),
    "NOT_RESUMABLE": ("the execution's state does not allow this", "see its page"),
    "UNKNOWN_REPORT": ("there is no such report", "'manage.py plan' makes one"),
    "AMBIGUOUS_REPORT": ("several reports begin with this text", "give the whole id, which 'manage.py plan' prints"),
    "UNKNOWN_RECORD": ("there is no such record", "'manage.py records' lists them"),
    "UNKNOWN_DATASET": ("there is no such dataset", "see the list of datasets"),
    "UNKNOWN_ENVIRONMENT": ("there is no such environment", "see the list of environments"),
    "NOT_OBSERVED": (
        "the warehouse was not scanned yet",
        f"start a worker with '{user_command('serve')}', then refresh",
    ),
    "NO_REASON": ("this needs a reason", "enter a reason"),
    "NOTHING_TO_UNDO": ("nothing of the record can be undone", "make the change by metadata"),
    "UNKNOWN_OPERATION": ("the record has no such operation", "see the operations of the record"),
    "ALREADY_UNDONE": ("this was already undone", "nothing is left to undo"),
    "LATER_OPERATIONS": ("later operations depend on it", "undo the later operations first"),
    "WRITTEN_SINCE": (
        "rows were written since and would be lost",
        "choose other operations, and change this one by metadata and a report",
    ),
    "NOT_UNDOABLE": ("this cannot be undone", "change it by metadata and a report"),
    "ALREADY_APPLIED": (
        "the dataset already has an applied state",
        "remove it from the file, or compare with 'manage.py drift' or 'manage.py plan --desired-state FILE'",
    ),
    "BAD_KEY": (
        "a table lies under its dataset's key, so that is a UUID",
        "export the file with 'manage.py export_state'",
    ),
    "UNKNOWN_LAYER": ("the layer of a schema is not known", "create the schema first, or import the metadata"),
    "POLICY_PROPOSED": (
        "another change of this policy waits for a second user",
        "accept, reject or withdraw it first",
    ),
    "POLICY_OUTDATED": (
        "the policy changed since the proposal",
        "reject it and propose the change again",
    ),
    "OWN_PROPOSAL": (
        "you cannot accept your own proposal",
        "ask another user who manages policies, or withdraw it",
    ),
    "UNKNOWN_PROPOSAL": ("there is no such proposal", "see the policy page"),
    "OTHER_ENVIRONMENT": (
        "it belongs to another environment",
        "do this in the installation of that environment, or make a report or run of this one",
    ),
    "POLICY_CHANGED": ("another user changed the policy", "reload it before changing it"),
}


class Refused(ProductError):
    """Refusal of a workflow step. Nothing was written.

    ``code`` is one of ``CODES``, which have the default message and hint.
    """

    STATUS = 409

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


# --- permissions ------------------------------------------------------------------------------

YES, NO = "approve", "reject"
# Consequences of a report that an approval can accept.
ACCEPTABLE = ("readers_lost", "contracts_broken")


@dataclass(frozen=True)
class Decided:
    """Recorded decision of a user on a fingerprint. ``roles`` are the roles for which it counts.

    ``readers_lost``: the user accepts that tables lose readers.
    """

    user: str
    decision: str
    fingerprint: str
    roles: tuple[str, ...] = ()
    readers_lost: bool = False


@dataclass(frozen=True)
class Need:
    """Required number of approvals, and the approvers' role (empty: any)."""

    count: int = 0
    role: str = ""


def approvers(
    decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]
) -> tuple[str, ...]:
    """Return the users whose approvals count, each once, sorted.

    An approval counts if it is of this fingerprint, by a user with the role (or an admin), and not by an author.
    """
    return tuple(
        sorted(
            {
                decision.user
                for decision in decisions
                if decision.decision == YES
                and decision.fingerprint == fingerprint
                and decision.user not in authors
                and (not need.role or need.role in decision.roles or Role.ADMIN in decision.roles)
            }
        )
    )


def approvals_missing(decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]) -> int:
    """Return the number of missing approvals, never below 0."""
    return max(0, need.count - len(approvers(decisions, fingerprint=fingerprint, need=need, authors=authors)))


def refuse_decision(
    *, status: str, user: str, decision: str, authors: Collection[str], decided: Iterable[Decided], needed: int
) -> None:
    """Raise Refused unless the user may decide on the report now. An author may always reject."""
    refuse_closed(status)
    if status == APPROVED:
        raise Refused("ALREADY_DECIDED", "the report is approved")
    if any(decision.user == user for decision in decided):
        raise Refused("ALREADY_DECIDED", f"{user} has decided on this report already")
    if decision == YES and needed == 0:
        raise Refused("NO_APPROVAL_NEEDED")
    if decision == YES and user in authors:
        raise Refused("OWN_CHANGE", f"{user} is an author of these changes")


def accepts_lost_readers(decisions: Iterable[Decided], fingerprint: str) -> bool:
    """Return True if every user who approved the report accepts that tables lose readers."""
    approvals = [item for item in decisions if (item.decision, item.fingerprint) == (YES, fingerprint)]
    accepted = [approval.readers_lost for approval in approvals]
    return bool(accepted) and all(accepted)


def refuse_closed(status: str) -> None:
    """Raise Refused for a report in a final state."""
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
    user: str,
    approver_may_execute: bool,
) -> None:
    """Raise Refused unless the user may execute the report in its current state."""
    refuse_closed(status)
    decisions = tuple(decisions)
    if any(decision.decision == NO and decision.fingerprint == fingerprint for decision in decisions):
        raise Refused("REPORT_REJECTED")
    missing = approvals_missing(decisions, fingerprint=fingerprint, need=need, authors=authors)
    if missing:
        role = f" by the role {need.role}" if need.role else ""
        raise Refused("NOT_APPROVED", f"{counted(missing, 'more approval')}{role} needed")
    if (
        need.count
        and not approver_may_execute
        and any(decision.user == user and decision.decision == YES for decision in decisions)
    ):
        raise Refused("NOT_PERMITTED", f"{user} approved the report and may not execute it in this environment")


# Next action that a report needs from a user, as listed in the inbox: at most one per report and user.


RESUME, EXECUTE, DECIDE = "resume", "execute", "decide"
REPAIR, RENEW, FOLLOW = "repair", "renew", "follow"
# The report is the user's own and waits for others.
OTHERS = "others"
# In display order: interrupted work comes first.
ASKS = (RESUME, EXECUTE, DECIDE, REPAIR, RENEW, FOLLOW, OTHERS)


@dataclass(frozen=True)
class UserRights:
    """User whose inbox is computed. ``pk`` identifies the creator of a report, the name the authors of its changes."""

    pk: int
    name: str
    may_approve: bool
    may_execute: bool
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """Stored facts about a report.

    ``execution`` is the state of the current execution, empty without one. ``stale`` is the code of the outdated
    part, empty if the report is up to date or was not checked.
    """

    status: str
    fingerprint: str
    need: Need
    authors: frozenset[str] = frozenset()
    made_by: int | None = None
    decided: tuple[Decided, ...] = ()
    approver_may_execute: bool = True
    execution: str = ""
    stale: str = ""

    @property
    def missing(self) -> int:
        """Return the number of missing approvals."""
        return approvals_missing(self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors)

    @property
    def approved_by(self) -> tuple[str, ...]:
        return approvers(self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors)


def asked_of(facts: Facts, user: UserRights) -> str:
    """Return the action that a report needs from the user: one of ``ASKS``, or an empty text.

    Call it only for reports of ``architecture.selectors.environments.reports_in_play``.
    """
    own = user.name in facts.authors or facts.made_by == user.pk
    if facts.status == SUPERSEDED:
        return FOLLOW if facts.made_by == user.pk else ""
    if facts.status in (OPEN, APPROVED):
        return _next_step(facts, user, own) or (OTHERS if own else "")
    asks = {BLOCKED: REPAIR, REJECTED: RENEW}
    return asks.get(facts.status, "") if own else ""


def _next_step(facts: Facts, user: UserRights, own: bool) -> str:
    if facts.execution:
        return RESUME if facts.execution in states.RESTARTABLE and _may_execute(facts, user) else ""
    if facts.stale:
        return RENEW if own else ""
    if _may_execute(facts, user):
        return EXECUTE
    return DECIDE if _may_decide(facts, user) else ""


def _may_execute(facts: Facts, user: UserRights) -> bool:
    if not user.may_execute:
        return False
    try:
        refuse_execution(
            status=facts.status,
            decisions=facts.decided,
            fingerprint=facts.fingerprint,
            need=facts.need,
            authors=facts.authors,
            user=user.name,
            approver_may_execute=facts.approver_may_execute,
        )
    except Refused:
        return False
    return True


def _may_decide(facts: Facts, user: UserRights) -> bool:
    """Return True if the user's approval would count. A user with another role may approve, too, but has no task."""
    role = facts.need.role
    if not user.may_approve or not facts.missing or (role and not {role, Role.ADMIN} & user.roles):
        return False
    try:
        refuse_decision(
            status=facts.status,
            user=user.name,
            decision=YES,
            authors=facts.authors,
            decided=facts.decided,
            needed=facts.need.count,
        )
    except Refused:
        return False
    return True
