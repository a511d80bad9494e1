"""Page of a dataset's history policy: form, example, and effects of a change."""

from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError, as_sentence
from elevata.web.views import EditPage
from loader.domain.historization.policy_outcome import outcome
from loader.domain.historization.policy_sample import make_sample
from loader.selectors.policy_effects import policy_change
from metadata.domain.history.history_columns import time_type
from metadata.domain.history.history_facts import history_facts
from metadata.domain.history.history_policy import APPEND, HistoryPolicy
from metadata.domain.history.load_types import load_type
from metadata.forms.history_policy import PolicyForm
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.permissions import may_change
from metadata.services.datasets.targets import update_target_dataset
from metadata.views.base import TABLES_CHANGE, DatasetPage, dataset_here

SHOW = "show"


class DatasetPolicy(DatasetPage, EditPage):
    """Page of a dataset's history policy; users who may change metadata edit it, with a preview of the effect."""

    permissions, methods = (Permission.CHANGE_METADATA,), ("POST",)
    form_class, service = PolicyForm, staticmethod(update_target_dataset)
    template_name, page = "loader/datasets/dataset_policy.html", "dataset_policy"
    message = f"History policy saved. {TABLES_CHANGE}"

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row}

    @property
    def described(self) -> TargetDataset:
        """Return the dataset with the policy; for a history, its base."""
        return self._base if self.row.history_of_id else self.row

    @cached_property
    def _base(self) -> TargetDataset:
        return dataset_here(self.row.history_of.key)

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        without = _reason_without(self.row)
        if without:
            return self.render(described=self.described, may_edit=False, without=without)
        return self.show(PolicyForm.of(self.described, dataset=self.described))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if self.row.history_of_id or _reason_without(self.row):
            return redirect("dataset_policy", self.described.key)
        return super().post(request, **kwargs)

    def process(self, form: PolicyForm) -> HttpResponse:
        if SHOW not in self.request.POST:
            return super().process(form)
        form.is_valid()
        return self.show(form)

    def show(self, form: PolicyForm, *, status: int = 200) -> HttpResponse:
        described = self.described
        stored = HistoryPolicy.from_dict(described.history_policy)
        types = {name: str(type_) for name, type_ in form.types.items()}
        may_edit = described is self.row and may_change(self.request.user, self.row)
        return self.render(
            status=status,
            described=described,
            may_edit=may_edit,
            without="",
            form=form,
            groups=form.groups(),
            facts=history_facts(described.name, stored, time_type(stored, types)),
            shown=form.is_bound and status == 200,
            unused=form.not_applying(),
            touched=form.is_bound and bool(form.changed_data),
            **_effect(described, form, stored),
        )


def _reason_without(dataset: TargetDataset) -> str:
    """Return the reason why the dataset has no history policy; empty if it can have one."""
    if dataset.history_of_id:
        return ""
    if dataset.schema.layer != TargetSchema.Layer.RAWCORE:
        return f"Layer {dataset.schema.layer} keeps no history; rawcore does."
    if dataset.materialization != TargetDataset.Materialization.TABLE:
        return "Views store no rows, so no history of them is kept."
    return "" if dataset.active else "The dataset is retired: it is not loaded and its history does not grow."


def _effect(dataset: TargetDataset, form: PolicyForm, stored: HistoryPolicy) -> dict[str, Any]:
    """Return the effect of the chosen policy on the sample rows and the history, or the reason why it has none."""
    if form.is_bound and form.policy is None:
        return {"problems": [(form[name], errors) for name, errors in form.errors.items() if name in form.fields]}
    policy = form.policy or stored
    historize = form.cleaned_data["historize"] if form.is_bound else dataset.historize
    shown = {"load_type": load_type(policy, historize=historize)}
    if policy.input == APPEND:
        return shown | {"nothing": "Every row is added under the ID of its run, and a run's rows can be reverted."}
    if not form.business_key:
        return shown | {"nothing": "The dataset has no business key. Only append does without one."}
    try:
        form.check(policy)
    except MetadataError as error:
        return shown | {"nothing": as_sentence(error.message)}
    column_types = {c.name: c.type for c in form.columns if c.role != TargetColumn.Role.TECHNICAL}
    extra_types = {name: form.types[name] for name in policy.uncompared if name in form.types}
    return shown | {
        "outcome": outcome(make_sample(policy, form.business_key, column_types | extra_types)),
        "change": policy_change(dataset, policy, historize=historize),
        "historize": historize,
        "column_count": len(column_types),
    }
