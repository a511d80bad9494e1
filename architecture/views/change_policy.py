"""Change policy of an environment: its rules, approvals, and proposals of a looser policy."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_safe

from architecture.forms import PolicyForm, ProposalForm
from architecture.models import Environment
from architecture.permissions import place_of_environment
from architecture.selectors.environments import environments, open_proposal
from architecture.services.change_policy import (
    accept_policy,
    default_policy,
    policy_of,
    reject_policy,
    tightening_of,
    update_policies,
    withdraw_policy,
)
from architecture.services.environments import current_environment
from architecture.views.refusals import as_shown
from elevata.accounts.access import holders
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.audit.selectors import entries
from elevata.core.errors import ProductError
from elevata.web.views import REFUSED, RowPage
from metadata.selectors.change_log import shown_entries

LATEST = 10
# By the button: the service, and the message afterwards.
_DECISIONS = {
    "accept": (accept_policy, "The looser policy is in force. Reports made under the old one are outdated now."),
    "reject": (reject_policy, "The looser policy is rejected. The policy in force stays."),
    "withdraw": (withdraw_policy, "The proposal is withdrawn. The policy in force stays."),
}


@require_safe
def own_policy(request: HttpRequest) -> HttpResponse:
    """Redirect to the policy of this installation's environment."""
    return redirect("policy_page", current_environment().name)


class PolicyPage(RowPage):
    """The policy in force. Users with the permission change it here, and decide on proposals."""

    permissions, methods = (Permission.MANAGE_POLICIES,), ("POST",)
    model, name, by, page = Environment, "environment", "name", "policy_page"
    template_name = "architecture/policy_page.html"

    def find(self) -> Environment:
        return current_environment() if self.kwargs["name"] == settings.ENVIRONMENT else super().find()

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show(self.form_in_force())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if request.POST.get("do"):
            return self.decide(request.POST["do"])
        form = PolicyForm(request.POST)
        if not form.is_valid():
            return self.show(form, status=REFUSED)
        try:
            proposal = update_policies(
                environment=self.row,
                policies={} if "defaults" in request.POST else form.differing(default_policy()),
                expected_version=form.cleaned_data["version"],
                user=request.user,
                reason=form.cleaned_data["reason"],
            )
        except ProductError as error:
            return self.show(form, refused=error)
        if proposal is None:
            messages.success(request, "The policy is in force. Reports made under the old one are outdated now.")
        else:
            messages.warning(request, "Proposal saved. A looser policy needs a second user.")
        return redirect(self.address(self.row))

    def decide(self, decision: str) -> HttpResponse:
        """Accept, reject or withdraw the proposal that the form names."""
        form = ProposalForm(self.request.POST)
        if decision not in _DECISIONS or not form.is_valid():
            raise Http404
        proposal = get_object_or_404(self.row.proposals, proposal_id=form.cleaned_data["proposal"])
        service, message = _DECISIONS[decision]
        note = {} if service is withdraw_policy else {"note": form.cleaned_data["note"]}
        try:
            service(proposal=proposal, user=self.request.user, **note)
        except ProductError as error:
            return self.show(self.form_in_force(), refused=error)
        messages.success(self.request, message)
        return redirect(self.address(self.row))

    def form_in_force(self) -> PolicyForm:
        return PolicyForm.of(policy_of(self.row), self.row.policies_version)

    def show(self, form: PolicyForm, *, refused: ProductError | None = None, status: int = 200) -> HttpResponse:
        changes = entries().filter(subject_kind="policy", subject_key=self.row.name)[:LATEST]
        place = place_of_environment(self.row)
        proposal = open_proposal(self.row)
        deciding = holders(Permission.MANAGE_POLICIES, place) if proposal is not None else []
        return self.render(
            status=refused.status if refused is not None else status,
            tab="policies",
            proposal=proposal,
            stricter=tightening_of(proposal) if proposal is not None else (),
            deciders=[
                user.get_username() for user in deciding if proposal is None or user.pk != proposal.proposed_by_id
            ],
            environments=list(environments()),
            form=form,
            defaults=default_policy(),
            may_manage=may(self.request.user, Permission.MANAGE_POLICIES, on=place),
            changes=shown_entries(changes),
            refused=as_shown(refused, self.request.user) if refused is not None else None,
        )
