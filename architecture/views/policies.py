"""An environment's policy: rule by rule what it allows, and how many people must agree."""

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from architecture.domain.reports.workflow import Refused
from architecture.models import Environment
from architecture.report_details import environments
from architecture.report_places import place_of_environment
from architecture.selectors import open_proposal
from architecture.services.policies.policies import (
    accept_policy,
    default_policy,
    policy_of,
    reject_policy,
    tightening_of,
    update_policies,
    withdraw_policy,
)
from architecture.services.states.environments import current_environment
from architecture.views.decisions import as_shown, status_of
from architecture.views.forms import PolicyForm, ProposalForm
from elevata.core.errors import MetadataError
from metadata.change_log import entries, shown
from metadata.domain.roles import Permission
from metadata.permissions import may, people_who_may, permitted

LATEST = 10


@require_safe
def own_policy(request: HttpRequest) -> HttpResponse:
    """The policy of the environment that this installation works in."""
    return redirect("policy_page", current_environment().name)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.MANAGE_POLICIES, methods=("POST",))
def policy_page(request: HttpRequest, name: str) -> HttpResponse:
    """The policy in force; who may, changes it here. Everybody else sees it."""
    environment = current_environment() if name == settings.ENVIRONMENT else get_object_or_404(Environment, name=name)
    if request.method != "POST":
        return _page(request, environment, PolicyForm.of(policy_of(environment), environment.policies_version))
    if request.POST.get("do"):
        return _decide(request, environment)
    form = PolicyForm(request.POST)
    if not form.is_valid():
        return _page(request, environment, form, status=422)
    chosen = {} if "defaults" in request.POST else form.differing(default_policy())
    try:
        proposal = update_policies(
            environment=environment,
            policies=chosen,
            expected_version=form.cleaned_data["version"],
            person=request.user,
            reason=form.cleaned_data["reason"],
        )
    except (Refused, MetadataError) as refused:
        return _page(request, environment, form, refused=refused)
    if proposal is None:
        messages.success(request, "The policy is in force. Reports made under the old one are outdated now.")
    else:
        messages.warning(request, "Nothing changed yet: the change is looser, so it waits for a second person.")
    return redirect("policy_page", environment.name)


def _decide(request: HttpRequest, environment: Environment) -> HttpResponse:
    """Accept, reject or withdraw the proposal that the form names."""
    decisions = {
        "accept": (accept_policy, "The looser policy is in force. Reports made under the old one are outdated now."),
        "reject": (reject_policy, "The looser policy is rejected. The policy in force stays."),
        "withdraw": (withdraw_policy, "The proposal is withdrawn. The policy in force stays."),
    }
    form = ProposalForm(request.POST)
    if request.POST["do"] not in decisions or not form.is_valid():
        raise Http404
    proposal = get_object_or_404(environment.proposals, proposal_id=form.cleaned_data["proposal"])
    decide, said = decisions[request.POST["do"]]
    note = {} if decide is withdraw_policy else {"note": form.cleaned_data["note"]}
    try:
        decide(proposal=proposal, person=request.user, **note)
    except (Refused, MetadataError) as refused:
        shown_form = PolicyForm.of(policy_of(environment), environment.policies_version)
        return _page(request, environment, shown_form, refused=refused)
    messages.success(request, said)
    return redirect("policy_page", environment.name)


def _page(
    request: HttpRequest,
    environment: Environment,
    form: PolicyForm,
    *,
    refused: Refused | MetadataError | None = None,
    status: int = 200,
) -> HttpResponse:
    changes = entries().filter(subject_kind="policy", subject_key=environment.name)[:LATEST]
    place = place_of_environment(environment)
    proposal = open_proposal(environment)
    deciding = people_who_may(Permission.MANAGE_POLICIES, place) if proposal is not None else []
    context = {
        "tab": "policies",
        "proposal": proposal,
        "stricter": tightening_of(proposal) if proposal is not None else (),
        "deciders": [one.get_username() for one in deciding if one.pk != proposal.proposed_by_id],
        "environment": environment,
        "environments": list(environments()),
        "form": form,
        "defaults": default_policy(),
        "may_manage": may(request.user, Permission.MANAGE_POLICIES, on=place),
        "changes": shown(changes),
        "refused": as_shown(refused, request.user) if refused is not None else None,
    }
    status = status_of(refused) if refused is not None else status
    return render(request, "architecture/policy_page.html", context, status=status)
