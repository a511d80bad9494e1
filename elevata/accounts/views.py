"""Pages about people: oneself with one's tokens, and, for administrators, everybody."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model, update_session_auth_hash
from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from architecture.models import Environment
from elevata.accounts.lockouts import locks, unlock
from elevata.accounts.session_users import must_replace_password
from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.roles import Permission, Role, needed_role
from metadata.filtersets import PersonFilter
from metadata.forms.people import (
    ROLE_WORDS,
    GrantForm,
    NewPasswordForm,
    NewPersonForm,
    PasswordForm,
    RolesForm,
    TokenForm,
)
from metadata.models import PersonalToken, RoleGrant
from metadata.permissions import may, only, roles_of, without_role
from metadata.services import people as services
from metadata.services.tokens import DIGEST_SHOWN, create_token, revoke_token
from metadata.views.paging import one_page

# Everywhere, not for one place: who manages people may give themselves whatever they like.
managers = only(
    lambda user: may(user, Permission.MANAGE_PEOPLE),
    as_sentence(needed_role(Permission.MANAGE_PEOPLE)),
    needs=frozenset({Permission.MANAGE_PEOPLE}),
)


# --- oneself -------------------------------------------------------------------------------------


@never_cache
@sensitive_post_parameters("old", "password")
@require_http_methods(["GET", "HEAD", "POST"])
@without_role
def me(request: HttpRequest) -> HttpResponse:
    """Show the user's permissions, tokens and password, and the tokens of their service accounts."""
    deeds = {"token": _make_own_token, "revoke": _revoke_own_token, "password": _change_own_password}
    if request.method == "POST":
        return _deed(request, deeds)(request)
    return _me(request)


def _me(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    user, accounts = request.user, [account.user for account in _accounts_of(request.user)]
    context = {
        "roles": [(role, ROLE_WORDS[role]) for role in Role if role in roles_of(user)],
        "grants": [(grant, ROLE_WORDS[Role(grant.role)]) for grant in user.role_grants.select_related("schema")],
        "holders": [(one, _tokens(one)) for one in (user, *accounts)],
        "now": timezone.now(),
        "token_form": TokenForm(accounts=[one.get_username() for one in accounts], prefix="token"),
        "password_form": PasswordForm(prefix="own") if user.has_usable_password() else None,
    } | more
    return render(request, "people/me.html", context, status=status)


def _make_own_token(request: HttpRequest) -> HttpResponse:
    accounts = {account.user.get_username(): account.user for account in _accounts_of(request.user)}
    form = TokenForm(request.POST, accounts=sorted(accounts), prefix="token")
    made = form.attempt(
        lambda: _token_from(form, accounts.get(form.cleaned_data.get("account", ""), request.user)),
    )
    # Shown in this answer and never again: what leads elsewhere would have to keep it meanwhile.
    return _me(request, 200, made=made) if made else _me(request, 422, token_form=form)


def _revoke_own_token(request: HttpRequest) -> HttpResponse:
    mine = [request.user.pk, *(account.user_id for account in _accounts_of(request.user))]
    revoke_token(token=_token(request, PersonalToken.objects.filter(user__in=mine)))
    messages.success(request, "The token is revoked: from now on it is worth nothing.")
    return redirect("me")


def _change_own_password(request: HttpRequest) -> HttpResponse:
    form = _changed_password(request)
    if form is not None:
        return _me(request, 422, password_form=form)
    messages.success(request, "The password is changed.")
    return redirect("me")


@never_cache
@sensitive_post_parameters("old", "password")
@require_http_methods(["GET", "HEAD", "POST"])
@without_role
def own_password(request: HttpRequest) -> HttpResponse:
    """Replace a password that somebody else set; until then every other page leads here."""
    if not must_replace_password(request.user):
        return redirect("me")
    form = _changed_password(request) if request.method == "POST" else PasswordForm(prefix="own")
    if form is None:
        messages.success(request, "The password is yours now.")
        return redirect("home")
    context = {"form": form, "set_by": request.user.temporary_password.set_by}
    return render(request, "people/own_password.html", context, status=422 if form.is_bound else 200)


def _changed_password(request: HttpRequest) -> PasswordForm | None:
    """Change the password as the form asks; return the form with its errors, None if it is changed."""
    form = PasswordForm(request.POST, prefix="own")
    if form.is_valid() and not request.user.check_password(form.cleaned_data["old"]):
        form.add_error("old", "This is not the password that you have now.")
    changed = form.attempt(
        lambda: services.set_password(user=request.user, password=form.cleaned_data["password"]) or True
    )
    if not changed:
        return form
    update_session_auth_hash(request, request.user)
    return None


# --- everybody -----------------------------------------------------------------------------------


@never_cache
@require_safe
@managers
def person_list(request: HttpRequest) -> HttpResponse:
    """Everybody, with their roles, as the address filters them; and who is locked out of sign-in."""
    locked = locks()
    chosen = PersonFilter({"ordering": "name", **request.GET.dict()}, queryset=_people(), request=request)
    context = {
        "filter": chosen,
        # People are few: to count them first would be a query more.
        "page": one_page(request, list(chosen.qs)),
        "roles": list(Role),
        "locks": locked,
        "locked": {one.name for one in locked},
    }
    return render(request, "people/list.html", context)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@managers
def person_new(request: HttpRequest) -> HttpResponse:
    """Somebody new, or a service account."""
    form = NewPersonForm(request.POST if request.method == "POST" else None)
    made = form.attempt(lambda: _made(form)) if request.method == "POST" else None
    if made is None:
        status = 422 if request.method == "POST" else 200
        return render(request, "people/new.html", {"form": form, "names": _names()}, status=status)
    messages.success(request, f"{made.get_username()} is there.")
    return redirect("person_page", made.get_username())


def _made(form: NewPersonForm) -> Any:
    given, roles = form.cleaned_data, form.chosen()
    if not given["owner"]:
        return services.create_person(name=given["name"], roles=roles, password=given["password"] or None)
    owner = get_user_model().objects.filter(username=given["owner"]).first()
    if owner is None:
        raise MetadataError("unknown_person", "there is nobody of this name", "owner")
    return services.create_service_account(name=given["name"], owner=owner, roles=roles)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@managers
def person_page(request: HttpRequest, name: str) -> HttpResponse:
    """One person: roles, what they are granted for one place, tokens, sign-in."""
    person = get_object_or_404(_people(), username=name)
    deeds = {
        "roles": _set_roles,
        "grant": _grant,
        "ungrant": _ungrant,
        "revoke": _revoke,
        "password": _set_password,
        "out": _put_out,
        "in": _put_in,
        "unlock": _unlock,
    }
    if request.method == "POST":
        return _deed(request, deeds)(request, person)
    return _person(request, person)


def _person(request: HttpRequest, person: Any, status: int = 200, **more: Any) -> HttpResponse:
    given, account = roles_of(person), getattr(person, "service_account", None)
    has = {f"role_{role.value}": role in given for role in Role}
    context = {
        "person": person,
        "account": account,
        "accounts": _accounts_of(person),
        "identities": person.identities.all(),
        "tokens": _tokens(person),
        # Fetched with the person.
        "grants": person.role_grants.all(),
        "locks": locks(person.get_username()),
        "now": timezone.now(),
        "roles_form": RolesForm(initial=has, prefix="roles"),
        "grant_form": GrantForm(environments=_environments(), prefix="grant"),
        "password_form": None if account else NewPasswordForm(prefix="new"),
    } | more
    return render(request, "people/person.html", context, status=status)


def _done(request: HttpRequest, person: Any, said: str) -> HttpResponse:
    messages.success(request, said)
    return redirect("person_page", person.get_username())


def _set_roles(request: HttpRequest, person: Any) -> HttpResponse:
    form = RolesForm(request.POST, prefix="roles")
    name = person.get_username()
    if not form.attempt(lambda: services.set_roles(user=person, roles=form.chosen()) or True):
        return _person(request, person, 422, roles_form=form)
    return _done(request, person, f"The roles of {name} are saved.")


def _grant(request: HttpRequest, person: Any) -> HttpResponse:
    form = GrantForm(request.POST, environments=_environments(), prefix="grant")
    made = form.attempt(
        lambda: services.grant_role(user=person, role=form.cleaned_data["role"], **form.chosen()),
    )
    return _done(request, person, f"{made} is granted.") if made else _person(request, person, 422, grant_form=form)


def _ungrant(request: HttpRequest, person: Any) -> HttpResponse:
    pk = request.POST.get("grant", "")
    grant = get_object_or_404(RoleGrant, pk=int(pk) if pk.isdecimal() else 0, user=person)
    services.revoke_grant(grant=grant)
    return _done(request, person, f"{grant} is taken back.")


def _revoke(request: HttpRequest, person: Any) -> HttpResponse:
    revoke_token(token=_token(request, PersonalToken.objects.filter(user=person)))
    return _done(request, person, "The token is revoked.")


def _set_password(request: HttpRequest, person: Any) -> HttpResponse:
    form = NewPasswordForm(request.POST, prefix="new")
    if not form.attempt(
        lambda: services.set_password(user=person, password=form.cleaned_data["password"]) or True,
    ):
        return _person(request, person, 422, password_form=form)
    return _done(request, person, f"{person.get_username()} has a new password.")


def _put_out(request: HttpRequest, person: Any) -> HttpResponse:
    try:
        services.put_out_of_use(user=person)
    except MetadataError as refused:
        messages.error(request, refused.one_line())
        return redirect("person_page", person.get_username())
    return _done(request, person, f"{person.get_username()} is out of use.")


def _put_in(request: HttpRequest, person: Any) -> HttpResponse:
    services.put_into_use(user=person)
    return _done(request, person, f"{person.get_username()} is in use.")


def _unlock(request: HttpRequest, person: Any) -> HttpResponse:
    unlock(name=person.get_username())
    return _done(request, person, f"{person.get_username()} may try again.")


# --- shared --------------------------------------------------------------------------------------


def _deed(request: HttpRequest, deeds: dict[str, Callable[..., HttpResponse]]) -> Callable[..., HttpResponse]:
    """Return the handler of the submitted form. Raise 404 for an unknown one."""
    try:
        return deeds[request.POST.get("do", "")]
    except KeyError:
        raise Http404 from None


def _token_from(form: TokenForm, user: Any) -> tuple[PersonalToken, str]:
    given = form.cleaned_data
    return create_token(user=user, name=given["label"], days=given["days"], scope=given["scope"])


def _token(request: HttpRequest, among: QuerySet[PersonalToken]) -> PersonalToken:
    """The token that the form names by the beginning of its digest; 404 unless it is one of these."""
    named = request.POST.get("token", "")
    if len(named) != DIGEST_SHOWN or not named.isalnum():
        raise Http404
    return get_object_or_404(among, digest__startswith=named)


def _tokens(user: Any) -> list[PersonalToken]:
    return list(PersonalToken.objects.filter(user=user).order_by("-created"))


def _accounts_of(user: Any) -> QuerySet:
    return user.service_accounts.select_related("user").order_by("user__username")


def _people() -> QuerySet[User]:
    granted = Prefetch("role_grants", RoleGrant.objects.select_related("schema"))
    return User.objects.select_related("service_account__owner").prefetch_related("groups", granted)


def _names() -> list[str]:
    """Return the users who can be accountable for a service account."""
    return list(
        User.objects.filter(is_active=True, service_account=None)
        .order_by("username")
        .values_list("username", flat=True)
    )


def _environments() -> list[str]:
    return list(Environment.objects.order_by("name").values_list("name", flat=True))
