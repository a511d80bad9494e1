"""Forms of architecture control's pages."""

from typing import Any
from uuid import UUID

from django import forms

from architecture.domain.policy import DESTRUCTIVE, REVIEW, RISKS, RULES, SAFE, SEVERITIES, PolicySet
from architecture.domain.reports.scope import ALL, DATASET, SCHEMA, Scope
from elevata.core.errors import as_sentence
from metadata.domain.roles import ROLES, Permission

ALONE = "dataset_alone"


class ScopeForm(forms.Form):
    """Scope of a report."""

    SCOPES = (
        (ALL, "Everything"),
        (SCHEMA, "One schema"),
        (DATASET, "One dataset and what it depends on"),
        (ALONE, "One dataset alone"),
    )

    scope = forms.ChoiceField(
        choices=SCOPES,
        initial=ALL,
        help_text="A report changes nothing. A narrower scope skips other datasets.",
    )
    schema = forms.CharField(max_length=100, required=False, help_text="All its datasets, and what they read.")
    dataset = forms.CharField(
        max_length=310, required=False, help_text="Begin to type: the names that are described are offered."
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        needed = {SCHEMA: "schema", DATASET: "dataset", ALONE: "dataset"}.get(cleaned.get("scope", ""))
        if needed and not cleaned.get(needed) and needed not in self.errors:
            self.add_error(needed, f"Choose a {needed}, or make a report of everything.")
        return cleaned

    def scope_chosen(self) -> Scope:
        kind = self.cleaned_data["scope"]
        if kind == ALL:
            return Scope()
        if kind == SCHEMA:
            return Scope(SCHEMA, self.cleaned_data["schema"].strip())
        return Scope(DATASET, self.cleaned_data["dataset"].strip(), target_only=kind == ALONE)

    @classmethod
    def of(cls, scope: Scope) -> "ScopeForm":
        """The form filled with a scope that was asked for before."""
        kind = ALONE if scope.target_only else scope.kind
        return cls(initial={"scope": kind, SCHEMA: scope.name, DATASET: scope.name})


class DecisionForm(forms.Form):
    """A yes or no, with a word about it."""

    note = forms.CharField(
        max_length=2000,
        required=False,
        strip=True,
        help_text="Shown to the author and stored in the record. Required when rejecting.",
    )


class ReasonForm(forms.Form):
    """Reason for an action that cannot be undone."""

    reason = forms.CharField(
        max_length=200,
        strip=True,
        help_text="Recorded in the change log.",
        error_messages={"required": "Say why: it stays with the record."},
    )


class AdoptForm(ReasonForm):
    """Datasets (stable keys) whose tables are taken as they are, and why."""

    dataset = forms.TypedMultipleChoiceField(
        coerce=str,
        help_text="Those whose tables are right as they were seen.",
        error_messages={"required": "Choose at least one dataset."},
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["dataset"].valid_value = _is_key


class UndoForm(forms.Form):
    """Operations of a record (ordinals) that are to be taken back."""

    operation = forms.TypedMultipleChoiceField(
        coerce=int,
        help_text="Each is taken back by the steps beside it.",
        error_messages={"required": "Choose at least one operation to take back."},
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["operation"].valid_value = _is_ordinal


def _is_ordinal(value: str) -> bool:
    """Return whether the text can be an ordinal; the service checks that the record has it."""
    return value.isascii() and value.isdigit() and len(value) < 10


def _is_key(value: str) -> bool:
    """Return whether the text can be a stable key; the service checks that the dataset exists."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


class PolicyForm(forms.Form):
    """An environment's policy: a severity for every rule, approvals for every risk, and two choices."""

    LABELS = {"allow": "allow", "needs_approval": "needs approval", "block": "block"}
    MEANS = {
        SAFE: "Every operation is allowed.",
        REVIEW: "Something needs a person's look.",
        DESTRUCTIVE: "Something is lost.",
    }

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    approver_may_execute = forms.BooleanField(
        required=False,
        label="Who approved a report may execute it, too",
        help_text="Switched off, a third person is needed: author, approver, operator.",
    )
    automatic_safe_changes = forms.BooleanField(
        required=False,
        label="Loads carry out pending changes by themselves where all of them are safe and no approval is needed",
        help_text="Switched off, every change needs a report, and a load that meets one is blocked.",
    )

    reason = forms.CharField(
        max_length=1000,
        required=False,
        strip=True,
        help_text="It stays in the change log, and whoever accepts a looser policy reads it.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        severities = [(severity, self.LABELS[severity]) for severity in SEVERITIES]
        roles = [("", "anybody who may approve")] + [(role.value, role.value) for role in approving_roles()]
        for rule in RULES:
            self.fields[f"severity_{rule.code}"] = forms.ChoiceField(
                choices=severities, help_text=as_sentence(rule.text)
            )
        for risk in RISKS:
            self.fields[f"count_{risk}"] = forms.IntegerField(
                min_value=0,
                max_value=9,
                help_text=self.MEANS[risk],
                error_messages={"required": "Say how many, 0 to 9."},
            )
            self.fields[f"role_{risk}"] = forms.ChoiceField(
                choices=roles,
                required=False,
                help_text="By the highest risk in a report. Authors cannot approve their own changes.",
            )

    @classmethod
    def of(cls, policy: PolicySet, version: int) -> "PolicyForm":
        """The form filled with a policy set."""
        initial: dict[str, Any] = {
            "version": version,
            "approver_may_execute": policy.approver_may_execute,
            "automatic_safe_changes": policy.automatic_safe_changes,
        }
        initial |= {f"severity_{code}": severity for code, severity in policy.severities.items()}
        for risk, need in policy.approvals.items():
            initial |= {f"count_{risk}": need.count, f"role_{risk}": need.role}
        return cls(initial=initial)

    def differing(self, defaults: PolicySet) -> dict[str, Any]:
        """Return the choices that differ from the defaults, as an environment stores them."""
        given, default = self.cleaned_data, defaults.as_json()
        severities = {rule.code: given[f"severity_{rule.code}"] for rule in RULES}
        approvals = {risk: {"count": given[f"count_{risk}"], "role": given[f"role_{risk}"]} for risk in RISKS}
        found: dict[str, Any] = {
            "severities": {code: value for code, value in severities.items() if value != defaults.severities[code]},
            "approvals": {risk: need for risk, need in approvals.items() if need != default["approvals"][risk]},
        }
        for name in ("approver_may_execute", "automatic_safe_changes"):
            if given[name] != default[name]:
                found[name] = given[name]
        return {name: value for name, value in found.items() if value != {}}

    def rules(self) -> list[tuple[Any, Any, str]]:
        """Each rule with its field and its default's name, for the page."""
        return [(rule, self[f"severity_{rule.code}"], rule.flag) for rule in RULES]

    def risks(self) -> list[tuple[str, Any, Any]]:
        """Each risk with its two fields, for the page."""
        return [(risk, self[f"count_{risk}"], self[f"role_{risk}"]) for risk in RISKS]


class ProposalForm(forms.Form):
    """The looser policy that is decided on, with a word about it."""

    proposal = forms.UUIDField(widget=forms.HiddenInput)
    note = forms.CharField(max_length=1000, required=False, strip=True, help_text="Shown to the proposer.")


def approving_roles() -> list[Any]:
    """Roles whose people may approve at all; asking for another one could never be met."""
    return [role for role, given in ROLES.items() if Permission.APPROVE_REPORTS in given]
