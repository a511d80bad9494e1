"""Refusals of workflow steps: their codes with messages and hints, shared by pages, REST and commands."""

from collections.abc import Mapping

from elevata.core.errors import ProductError

# code: (message, hint)
CODES: Mapping[str, tuple[str, str]] = {
    "OWN_CHANGE": (
        "authors cannot approve their own changes",
        "ask another approver; this also applies to superusers and tokens",
    ),
    "REPORT_BLOCKED": (
        "the environment's policy blocks operations of the report",
        "change the metadata or the policy, create a report without what is blocked, or withdraw this one",
    ),
    "REPORT_STALE": ("the metadata changed since the report was created", "create a new report and have it approved"),
    "REPORT_SUPERSEDED": ("a newer report of the same scope replaced it", "use the newer report"),
    "REPORT_REJECTED": ("the report was rejected", "change the metadata and create a new report"),
    "REPORT_WITHDRAWN": ("the report was withdrawn", "create a new report"),
    "NOT_WITHDRAWABLE": ("only a blocked report can be withdrawn", "have an approver reject it"),
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
        "ask another user to approve it on the run's page",
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
        "refresh as soon as a worker is running",
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
