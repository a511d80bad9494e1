"""Forms of architecture control's pages."""

from typing import Any
from uuid import UUID

from django import forms

from architecture.domain.change_policy import DESTRUCTIVE, REVIEW, RISKS, SAFE, PolicySet
from architecture.domain.decisions import ACCEPTABLE
from architecture.domain.policy_rules import RULES, SEVERITIES
from architecture.domain.steps.features import OPEN, SPARK
from elevata.accounts.roles import ROLES, Permission
from elevata.core.errors import as_sentence
from elevata.web.forms import ProductForm
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.forms.scope import ScopeFields

ALONE = "dataset_alone"


class ScopeForm(ScopeFields):
    """Scope of a report."""

    SCOPES = (
        (ALL, "All datasets"),
        (SCHEMA, "One schema"),
        (DATASET, "One dataset and what it depends on"),
        (ALONE, "One dataset alone"),
        (SELECTION, "Selection and what it depends on"),
    )
    NAMED_BY = {**ScopeFields.NAMED_BY, ALONE: DATASET}
    DOING = "report on"

    scope = forms.ChoiceField(initial=ALL, help_text="A report changes nothing. A narrower scope skips other datasets.")
    without_blocked = forms.BooleanField(
        required=False,
        label="Leave out what is blocked",
        help_text="Leaves out datasets with a change that the policy blocks, and changed datasets that read them.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_build_%s", **options})

    def clean_selection(self) -> str:
        """Return the words in one order, so that the same selection is the same scope."""
        return " ".join(sorted(set(self.cleaned_data[SELECTION].split())))

    def scope_chosen(self) -> Scope:
        kind = self.cleaned_data["scope"]
        if kind in (DATASET, ALONE):
            return self.scope_of_kind(DATASET, target_only=kind == ALONE)
        return self.scope_of_kind(kind, without_blocked=self.cleaned_data["without_blocked"])

    @classmethod
    def values_of(cls, scope: Scope) -> dict[str, str]:
        alone = {"scope": ALONE} if scope.target_only else {}
        return super().values_of(scope) | alone | ({"without_blocked": "on"} if scope.without_blocked else {})

    @classmethod
    def of(cls, scope: Scope) -> "ScopeForm":
        """Return the form, filled with a scope."""
        return cls(initial=cls.values_of(scope))


class DecisionForm(forms.Form):
    """Note of an approval or rejection."""

    note = forms.CharField(
        max_length=2000,
        required=False,
        strip=True,
        help_text="Shown to the author and stored in the record. Required when rejecting.",
    )
    readers_lost = forms.BooleanField(
        required=False,
        label="Accept lost readers",
        help_text="Change the tables without writing them anew; the operations name the readers they lose.",
    )
    contracts_broken = forms.BooleanField(
        required=False,
        label="Accept broken contracts",
        help_text="The consumers that the operations name lose what they were promised.",
    )

    def accepted(self) -> dict[str, bool]:
        """Return the consequences that the user accepts with an approval."""
        return {name: True for name in ACCEPTABLE if self.cleaned_data[name]}


class ReasonForm(ProductForm):
    """Reason for an action that cannot be undone."""

    elsewhere = {"NO_REASON": "reason"}

    reason = forms.CharField(
        max_length=200,
        label="Why",
        widget=forms.TextInput(attrs={"autofocus": True}),
        strip=True,
        help_text="Recorded in the change log.",
        error_messages={"required": "Enter a reason. It is stored in the record."},
    )


class AdoptForm(ReasonForm):
    """Datasets (stable keys) whose tables become the baseline, and the reason."""

    dataset = forms.TypedMultipleChoiceField(
        coerce=str,
        help_text="Datasets to adopt.",
        error_messages={"required": "Choose at least one dataset."},
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        vars(self.fields["dataset"])["valid_value"] = _is_key


class UndoForm(ProductForm):
    """Operations of a record (ordinals) to undo, in the tables and, if chosen, in the metadata."""

    operation = forms.TypedMultipleChoiceField(
        coerce=int,
        help_text="Operations to undo.",
        error_messages={"required": "Choose at least one operation to undo."},
    )
    metadata = forms.BooleanField(required=False, help_text="Changes the metadata back at once.")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        vars(self.fields["operation"])["valid_value"] = _is_ordinal


def _is_ordinal(value: str) -> bool:
    """Return True if the text can be an ordinal; the service checks that the record has it."""
    return value.isascii() and value.isdigit() and len(value) < 10


def _is_key(value: str) -> bool:
    """Return True if the text can be a stable key; the service checks that the dataset exists."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


class PolicyForm(forms.Form):
    """An environment's policy: a severity for every rule, approvals for every risk, and two choices."""

    LABELS = {"allow": "allow", "needs_approval": "needs approval", "block": "block"}
    MEANS = {
        SAFE: "Every operation is allowed.",
        REVIEW: "An operation needs approval.",
        DESTRUCTIVE: "An operation is destructive.",
    }

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    approver_may_execute = forms.BooleanField(
        required=False,
        label="Approvers may execute",
        help_text="If off, author, approver and operator must be three different users.",
    )
    automatic_safe_changes = forms.BooleanField(
        required=False,
        label="Loads apply safe changes",
        help_text="If off, pending changes block a load until a report is executed.",
    )

    readers = forms.ChoiceField(
        choices=[(SPARK, "Spark"), (OPEN, "Spark, DuckDB, delta-rs and Polars")],
        label="Readers",
        help_text="Programs that must be able to read every table. More readers make changes of columns slower.",
    )

    count_maintenance = forms.IntegerField(
        min_value=0,
        max_value=9,
        required=False,
        help_text="Approvals that a prune, revert, table acceptance or quarantine decision needs; if empty, those of "
        "safe reports.",
        error_messages={"invalid": "Enter a number from 0 to 9, or nothing."},
    )

    reason = forms.CharField(
        max_length=1000,
        required=False,
        strip=True,
        help_text="Recorded in the change log and shown to the user who accepts a looser policy.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        severities = [(severity, self.LABELS[severity]) for severity in SEVERITIES]
        roles = [("", "any approver")] + [(role.value, role.value) for role in approving_roles()]
        self.fields["role_maintenance"] = forms.ChoiceField(
            choices=roles, required=False, help_text="Role of the users who approve maintenance runs."
        )
        for rule in RULES:
            self.fields[f"severity_{rule.code}"] = forms.ChoiceField(
                choices=severities, help_text=as_sentence(rule.text)
            )
        for risk in RISKS:
            self.fields[f"count_{risk}"] = forms.IntegerField(
                min_value=0,
                max_value=9,
                help_text=self.MEANS[risk],
                error_messages={"required": "Enter a number from 0 to 9."},
            )
            self.fields[f"role_{risk}"] = forms.ChoiceField(
                choices=roles,
                required=False,
                help_text="By the highest risk in a report. Authors cannot approve their own changes.",
            )

    def clean(self) -> dict[str, Any]:
        """Refuse a role of maintenance without a number, which would have no effect."""
        given = super().clean() or self.cleaned_data
        has_no_count = "count_maintenance" in given and given["count_maintenance"] is None
        if given.get("role_maintenance") and has_no_count:
            self.add_error("count_maintenance", "Enter a number from 0 to 9, or choose no role.")
        return given

    @classmethod
    def of(cls, policy: PolicySet, version: int) -> "PolicyForm":
        """Return the form, filled with a policy set."""
        initial: dict[str, Any] = {
            "version": version,
            "approver_may_execute": policy.approver_may_execute,
            "automatic_safe_changes": policy.automatic_safe_changes,
            "readers": policy.readers,
        }
        initial |= {f"severity_{code}": severity for code, severity in policy.severities.items()}
        needs = {**policy.approvals, **({"maintenance": policy.maintenance} if policy.maintenance else {})}
        for risk, need in needs.items():
            initial |= {f"count_{risk}": need.count, f"role_{risk}": need.role}
        return cls(initial=initial)

    def differing(self, defaults: PolicySet) -> dict[str, Any]:
        """Return the choices that differ from the defaults, as an environment stores them."""
        given, default = self.cleaned_data, defaults.as_json()
        severities = {rule.code: given[f"severity_{rule.code}"] for rule in RULES}
        approvals = {risk: {"count": given[f"count_{risk}"], "role": given[f"role_{risk}"]} for risk in RISKS}
        choices: dict[str, Any] = {
            "severities": {code: value for code, value in severities.items() if value != defaults.severities[code]},
            "approvals": {risk: need for risk, need in approvals.items() if need != default["approvals"][risk]},
        }
        for name in ("approver_may_execute", "automatic_safe_changes"):
            if given[name] != default[name]:
                choices[name] = given[name]
        if given["readers"] != defaults.readers:
            choices["readers"] = given["readers"]
        if given["count_maintenance"] is not None:
            choices["maintenance"] = {"count": given["count_maintenance"], "role": given["role_maintenance"]}
        return {name: value for name, value in choices.items() if value != {}}

    def rules(self) -> list[tuple[Any, Any, str]]:
        """Return each rule with its field and its default's name, for the page."""
        return [(rule, self[f"severity_{rule.code}"], rule.flag) for rule in RULES]

    def risks(self) -> list[tuple[str, Any, Any]]:
        """Return each risk, and maintenance, with its two fields, for the page."""
        return [(risk, self[f"count_{risk}"], self[f"role_{risk}"]) for risk in (*RISKS, "maintenance")]


class ProposalForm(forms.Form):
    """Decision on a proposed looser policy, with a note."""

    proposal = forms.UUIDField(widget=forms.HiddenInput)
    note = forms.CharField(max_length=1000, required=False, strip=True, help_text="Shown to the proposer.")


def approving_roles() -> list[Any]:
    """Return the roles whose users may approve."""
    return [role for role, given in ROLES.items() if Permission.APPROVE_REPORTS in given]
