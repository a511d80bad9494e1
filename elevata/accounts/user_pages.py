"""Pages of all users and service accounts, for administrators."""

from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone

from elevata.accounts.filtersets import UserFilter
from elevata.accounts.forms import GrantForm, NewPasswordForm, NewUserForm, RolesForm
from elevata.accounts.lockouts import locks, unlock
from elevata.accounts.models import PersonalToken, RoleGrant
from elevata.accounts.permissions import roles_of
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.accounts.services import users as services
from elevata.accounts.services.tokens import revoke_token
from elevata.accounts.views import accounts_of, named_token, secret, tokens_of
from elevata.core.errors import MetadataError
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from elevata.web.views import CreatePage, FormsPage, Page, RowPage


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
    page, page_by, message = "user_page", "username", "User {row.username} created."

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
            "accounts": accounts_of(user),
            "identities": user.identities.all(),
            "tokens": tokens_of(user),
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
        revoke_token(token=named_token(self.request, PersonalToken.objects.filter(user=self.row)))
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
