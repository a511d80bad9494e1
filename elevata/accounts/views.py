"""Pages of accounts: the user's own account with its tokens."""

from typing import Any
from zoneinfo import available_timezones

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from elevata.accounts.forms import ROLE_WORDS, PasswordForm, PreferenceForm, TokenForm
from elevata.accounts.models import PersonalToken
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.accounts.services import users as services
from elevata.accounts.services.preferences import SESSION_KEY, choose_time_zone
from elevata.accounts.services.tokens import DIGEST_SHOWN, create_token, revoke_token
from elevata.accounts.sign_in import must_replace_password
from elevata.core.errors import MetadataError
from elevata.web.requests import user_of
from elevata.web.views import REFUSED, FormsPage, Page

secret = method_decorator(sensitive_post_parameters("old", "password"), name="dispatch")


@secret
class Me(FormsPage):
    """Page of the user's own account: roles, tokens, password, and tokens of the user's service accounts."""

    permissions, open_without_role, template_name = (), True, "accounts/me.html"
    actions = {"token": "create_token", "revoke": "revoke_token", "password": "change_password", "zone": "choose_zone"}

    @property
    def accounts(self) -> list[User]:
        return [account.user for account in accounts_of(user_of(self.request))]

    def context(self) -> dict[str, Any]:
        user, accounts = user_of(self.request), self.accounts
        names = [account.get_username() for account in accounts]
        return {
            "roles": [(role, ROLE_WORDS[role]) for role in Role if role in roles_of(user)],
            "grants": [(grant, ROLE_WORDS[Role(grant.role)]) for grant in user.role_grants.all()],
            "holders": [(account, tokens_of(account)) for account in (user, *accounts)],
            "now": timezone.now(),
            "zone_form": PreferenceForm(initial={"time_zone": self.request.session.get(SESSION_KEY, "")}, prefix="own"),
            "time_zones": sorted(available_timezones()),
            "token_form": TokenForm(accounts=names, prefix="token"),
            "password_form": PasswordForm(prefix="own") if user.has_usable_password() else None,
        }

    def create_token(self) -> HttpResponse:
        accounts = {account.get_username(): account for account in self.accounts}
        form = TokenForm(self.request.POST, accounts=sorted(accounts), prefix="token")
        token = form.attempt(
            lambda: create_token(user=accounts.get(form.chosen_account, self.request.user), **form.given())
        )
        # The token is shown in this response only: after a redirect it would have to be stored until it is shown.
        return self.render(token=token) if token else self.render(status=REFUSED, token_form=form)

    def revoke_token(self) -> HttpResponse:
        users = [self.request.user, *self.accounts]
        revoke_token(token=named_token(self.request, PersonalToken.objects.filter(user__in=users)))
        return self.reload("Token revoked.")

    def choose_zone(self) -> HttpResponse:
        form, request = PreferenceForm(self.request.POST, prefix="own"), self.request
        return self.submit(
            "zone_form",
            form,
            lambda: choose_time_zone(user=request.user, session=request.session, **form.given()),
            "Time zone saved.",
        )

    def change_password(self) -> HttpResponse:
        form = PasswordForm(self.request.POST, prefix="own")
        return self.submit("password_form", form, lambda: _change_password(self.request, form), "Password changed.")


@secret
class OwnPassword(Page):
    """Page to replace a temporary password; until then all other pages redirect to it."""

    permissions, open_without_role, template_name = (), True, "accounts/own_password.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(PasswordForm(prefix="own")) if must_replace_password(request.user) else redirect("me")

    def post(self, request: HttpRequest) -> HttpResponse:
        if not must_replace_password(request.user):
            return redirect("me")
        form = PasswordForm(request.POST, prefix="own")
        if not form.attempt(lambda: _change_password(request, form)):
            return self.show(form, status=REFUSED)
        messages.success(request, "Password changed.")
        return redirect("home")

    def show(self, form: PasswordForm, *, status: int = 200) -> HttpResponse:
        return self.render(form=form, set_by=user_of(self.request).temporary_password.set_by, status=status)


def _change_password(request: HttpRequest, form: PasswordForm) -> bool:
    """Change the user's own password and keep the session. Raise MetadataError if the current password is wrong."""
    if not request.user.check_password(form.cleaned_data["old"]):
        raise MetadataError("wrong_password", "the current password is wrong", "old")
    services.set_password(user=request.user, password=form.cleaned_data["password"])
    update_session_auth_hash(request, user_of(request))
    return True


def named_token(request: HttpRequest, tokens: QuerySet[PersonalToken]) -> PersonalToken:
    """Return the token whose digest begins with the text in the form; 404 unless it is one of ``tokens``."""
    digest = request.POST.get("token", "")
    if len(digest) != DIGEST_SHOWN or not digest.isalnum():
        raise Http404
    return get_object_or_404(tokens, digest__startswith=digest)


def tokens_of(user: User) -> list[PersonalToken]:
    return list(PersonalToken.objects.filter(user=user).order_by("-created"))


def accounts_of(user: User) -> QuerySet:
    return user.service_accounts.select_related("user").order_by("user__username")
