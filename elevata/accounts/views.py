"""Pages of accounts: the user's own account with its tokens, and all accounts for administrators."""

from typing import Any, ClassVar
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

from elevata.accounts.forms import (
    ROLE_WORDS,
    GrantForm,
    NewPasswordForm,
    NewUserForm,
    PasswordForm,
    PreferenceForm,
    RolesForm,
    TokenForm,
    UserFilter,
)
from elevata.accounts.lockouts import locks, unlock
from elevata.accounts.models import PersonalToken, RoleGrant
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Permission, Place, Role
from elevata.accounts.services import users as services
from elevata.accounts.services.preferences import SESSION_KEY, choose_time_zone
from elevata.accounts.services.tokens import DIGEST_SHOWN, create_token, revoke_token
from elevata.accounts.sign_in import must_replace_password
from elevata.core.errors import MetadataError
from elevata.lists.columns import Column, yes_no
from elevata.web.requests import user_of
from elevata.web.views import REFUSED, CreatePage, FormsPage, ListPage, Page, RowPage

secret = method_decorator(sensitive_post_parameters("old", "password"), name="dispatch")


# --- the user's own account --------------------------------------------------------------------


@secret
class Me(FormsPage):
    """Page of the user's own account: roles, tokens, password, and tokens of the user's service accounts."""

    permissions, open_without_role, template_name = (), True, "accounts/me.html"
    actions = {"token": "create_token", "revoke": "revoke_token", "password": "change_password", "zone": "choose_zone"}

    @property
    def accounts(self) -> list[User]:
        return [account.user for account in _accounts_of(user_of(self.request))]

    def context(self) -> dict[str, Any]:
        user, accounts = user_of(self.request), self.accounts
        names = [account.get_username() for account in accounts]
        return {
            "roles": [(role, ROLE_WORDS[role]) for role in Role if role in roles_of(user)],
            "grants": [(grant, ROLE_WORDS[Role(grant.role)]) for grant in user.role_grants.all()],
            "holders": [(account, _tokens(account)) for account in (user, *accounts)],
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
        revoke_token(token=_named_token(self.request, PersonalToken.objects.filter(user__in=users)))
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


# --- all accounts ------------------------------------------------------------------------------


class ForManagers(Page):
    """Base of pages that need the permission to manage users everywhere: its users can grant themselves any role."""

    permissions, place = (Permission.MANAGE_USERS,), Place


class UserList(ForManagers, ListPage):
    """List of users with their roles, and of locked user names."""

    filterset, template_name = UserFilter, "accounts/list.html"
    columns: ClassVar = (
        Column("Name", {"name": "username", "owner": lambda row: _owner_of(row)}, sort="name"),
        Column("State", {"active": lambda row: yes_no(row.is_active)}, sort="active", descends=True),
        Column("Global roles", {"global roles": lambda row: ", ".join(_global_roles(row))}),
        Column("Scoped roles", {"scoped roles": lambda row: ", ".join(map(str, row.role_grants.all()))}),
        Column("Last sign-in", {"last sign-in": "last_login"}, sort="last_login", descends=True),
    )

    def listed(self) -> QuerySet[User]:
        return _users()

    def context(self) -> dict[str, Any]:
        locked = locks()
        return super().context() | {
            "roles": list(Role),
            "active_states": (("true", "active"), ("false", "inactive")),
            "locks": locked,
            "locked": {lock.name for lock in locked},
        }


@secret
class UserCreate(ForManagers, CreatePage):
    """Page to create a user or a service account."""

    form_class, template_name = NewUserForm, "accounts/new.html"
    page, page_by, message = "user_page", "username", "{row.username} is there."

    def context(self) -> dict[str, Any]:
        return {"names": _possible_owners()}

    def save(self, form: NewUserForm) -> User:
        fields, roles = form.cleaned_data, form.chosen()
        if not fields["owner"]:
            return services.create_user(name=fields["name"], roles=roles, password=fields["password"] or None)
        owner = User.objects.filter(username=fields["owner"]).first()
        if owner is None:
            raise MetadataError("unknown_user", "there is no user with this name", "owner")
        return services.create_service_account(name=fields["name"], owner=owner, roles=roles)


@secret
class UserPage(ForManagers, RowPage, FormsPage):
    """Page of a user: roles, grants, tokens and sign-in."""

    name, template_name = "shown_user", "accounts/user.html"
    actions = {
        "roles": "set_roles",
        "grant": "grant",
        "ungrant": "revoke_grant",
        "revoke": "revoke_token",
        "password": "set_password",
        "out": "deactivate",
        "in": "activate",
        "unlock": "unlock",
    }

    def find(self) -> User:
        return get_object_or_404(_users(), username=self.kwargs["name"])

    def context(self) -> dict[str, Any]:
        user, account = self.row, getattr(self.row, "service_account", None)
        roles = roles_of(user)
        return super().context() | {
            "account": account,
            "accounts": _accounts_of(user),
            "identities": user.identities.all(),
            "tokens": _tokens(user),
            # Prefetched with the user.
            "grants": user.role_grants.all(),
            "locks": locks(user.get_username()),
            "now": timezone.now(),
            "roles_form": RolesForm(initial={f"role_{role.value}": role in roles for role in Role}, prefix="roles"),
            # A link from a place names it.
            "grant_form": GrantForm(prefix="grant", initial={"place": self.request.GET.get("place", "")}),
            "password_form": None if account else NewPasswordForm(prefix="new"),
        }

    def set_roles(self) -> HttpResponse:
        form = RolesForm(self.request.POST, prefix="roles")
        message = f"The roles of {self.row} are saved."
        return self.submit("roles_form", form, lambda: services.set_roles(user=self.row, roles=form.chosen()), message)

    def grant(self) -> HttpResponse:
        form = GrantForm(self.request.POST, prefix="grant")
        return self.submit(
            "grant_form", form, lambda: services.grant_role(user=self.row, **form.given()), "{row} is granted."
        )

    def revoke_grant(self) -> HttpResponse:
        pk = self.request.POST.get("grant", "")
        grant = get_object_or_404(RoleGrant, pk=int(pk) if pk.isdecimal() else 0, user=self.row)
        services.revoke_grant(grant=grant)
        return self.reload(f"{grant} revoked.")

    def revoke_token(self) -> HttpResponse:
        revoke_token(token=_named_token(self.request, PersonalToken.objects.filter(user=self.row)))
        return self.reload("The token is revoked.")

    def set_password(self) -> HttpResponse:
        form = NewPasswordForm(self.request.POST, prefix="new")
        message = f"{self.row} has a new password."
        return self.submit("password_form", form, lambda: services.set_password(user=self.row, **form.given()), message)

    def deactivate(self) -> HttpResponse:
        try:
            services.deactivate_user(user=self.row)
        except MetadataError as error:
            messages.error(self.request, error.one_line())
            return redirect(self.request.path)
        return self.reload(f"{self.row} deactivated.")

    def activate(self) -> HttpResponse:
        services.activate_user(user=self.row)
        return self.reload(f"{self.row} activated.")

    def unlock(self) -> HttpResponse:
        unlock(name=self.row.get_username())
        return self.reload(f"{self.row} unlocked.")


# --- shared --------------------------------------------------------------------------------------


def _named_token(request: HttpRequest, tokens: QuerySet[PersonalToken]) -> PersonalToken:
    """Return the token whose digest begins with the text in the form; 404 unless it is one of ``tokens``."""
    digest = request.POST.get("token", "")
    if len(digest) != DIGEST_SHOWN or not digest.isalnum():
        raise Http404
    return get_object_or_404(tokens, digest__startswith=digest)


def _tokens(user: User) -> list[PersonalToken]:
    return list(PersonalToken.objects.filter(user=user).order_by("-created"))


def _accounts_of(user: User) -> QuerySet:
    return user.service_accounts.select_related("user").order_by("user__username")


def _users() -> QuerySet[User]:
    return User.objects.select_related("service_account__owner").prefetch_related("groups", "role_grants")


def _owner_of(user: User) -> User | None:
    """Return the owner of a service account; None for another user."""
    account = getattr(user, "service_account", None)
    return account.owner if account is not None else None


def _global_roles(user: User) -> list[str]:
    return [group.name for group in user.groups.all()] + ["superuser"] * user.is_superuser


def _possible_owners() -> list[str]:
    """Return the names of the users who can own a service account."""
    users = User.objects.filter(is_active=True, service_account=None).order_by("username")
    return list(users.values_list("username", flat=True))
