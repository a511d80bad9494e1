"""An environment's policy: rule by rule what it allows, and how many people must agree."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from architecture.domain.workflow import Refused
from architecture.models import Environment
from architecture.places import place_of_environment
from architecture.services.environments import current_environment
from architecture.services.policies import default_policy, policy_of, update_policies
from architecture.shown import environments
from architecture.views.deciding import as_shown, status_of
from architecture.views.forms import PolicyForm
from metadata.change_log import entries, shown
from metadata.domain.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.permissions import may, permitted

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
    form = PolicyForm(request.POST)
    if not form.is_valid():
        return _page(request, environment, form, status=422)
    chosen = {} if "defaults" in request.POST else form.differing(default_policy())
    try:
        update_policies(
            environment=environment,
            policies=chosen,
            expected_version=form.cleaned_data["version"],
            person=request.user,
        )
    except (Refused, MetadataError) as refused:
        return _page(request, environment, form, refused=refused)
    messages.success(request, "The policy is in force. Reports made under the old one are stale now.")
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
    context = {
        "tab": "policies",
        "environment": environment,
        "environments": list(environments()),
        "form": form,
        "defaults": default_policy(),
        "may_manage": may(request.user, Permission.MANAGE_POLICIES, on=place_of_environment(environment)),
        "changes": shown(changes),
        "refused": as_shown(refused, request.user) if refused is not None else None,
    }
    status = status_of(refused) if refused is not None else status
    return render(request, "architecture/policy_page.html", context, status=status)
