"""People, their roles and their tokens."""

from collections.abc import Iterable
from datetime import timedelta
from hmac import compare_digest
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils import timezone
from knox.crypto import hash_token
from knox.settings import CONSTANTS, knox_settings

from metadata.domain.errors import MetadataError
from metadata.domain.roles import ROLES, Role
from metadata.models import PersonalToken
from metadata.permissions import roles_of
from metadata.services.changelog import record_change
from metadata.services.common import writing

LONGEST_DAYS = 366
_USED_EVERY = timedelta(minutes=1)
# Enough of a token's digest to tell tokens apart.
_DIGEST_SHOWN = 32


def create_person(*, name: str, roles: Iterable[Role | str], password: str | None = None) -> Any:
    """Somebody new. Without a password nobody signs in as them; their tokens work."""
    with writing():
        if get_user_model().objects.filter(username=name).exists():
            raise MetadataError("name_taken", "somebody has this name already", "name", name)
        return ensure_person(name=name, roles=roles, password=password)


def ensure_person(*, name: str, roles: Iterable[Role | str], password: str | None = None) -> Any:
    """The person with exactly these roles, made if they are not there; a given password is set.

    Raises MetadataError: ``invalid`` for a name or a role that can't be, ``weak_password``.
    """
    wanted = frozenset(_role(role) for role in roles)
    with writing():
        user = get_user_model().objects.filter(username=name).first()
        fresh = user is None
        user = user or get_user_model()(username=name)
        before = {} if fresh else _told(user)
        if password is not None:
            _check_password(password, user)
            user.set_password(password)
        elif fresh:
            user.set_unusable_password()
        if not user.is_active:
            user.is_active = True
        try:
            user.full_clean(exclude=["password"])
        except ValidationError as error:
            raise MetadataError("invalid", error.messages[0], "name", name) from None
        user.save()
        others = user.groups.exclude(name__in=[role.value for role in ROLES])
        user.groups.set([*others, *_groups(wanted)])
        after = _told(user)
        if password is not None and not fresh:
            after["password"] = "changed"
        if before != after:
            record_change(
                action="created" if fresh else "changed",
                subject_kind="person",
                subject_key=name,
                subject_name=name,
                before=before,
                after=after,
            )
        return user


def create_token(*, user: Any, name: str = "", days: int | None = None) -> tuple[PersonalToken, str]:
    """A token for a person, and its text, which is stored nowhere and can't be shown again.

    ``days`` is how long it is good, 1 to 366; the setting's 90 if it is not given.
    """
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise MetadataError("invalid", f"must be 1 to {LONGEST_DAYS}, not {days}", "days")
    if not user.is_active:
        raise MetadataError("invalid", "is out of use", "name", user.get_username())
    with writing():
        lasting = knox_settings.TOKEN_TTL if days is None else timedelta(days=days)
        token, text = PersonalToken.objects.create(user=user, expiry=lasting, name=name)
        record_change(
            action="created",
            subject_kind="token",
            subject_key=token.digest[:_DIGEST_SHOWN],
            subject_name=str(token),
            after=_told_token(token),
        )
        return token, text


def revoke_tokens(*, user: Any, name: str | None = None) -> int:
    """From now on these tokens (all of the person's, or those of this name) are worth nothing."""
    with writing():
        tokens = PersonalToken.objects.select_for_update().filter(user=user)
        revoked = list(tokens if name is None else tokens.filter(name=name))
        for token in revoked:
            record_change(
                action="deleted",
                subject_kind="token",
                subject_key=token.digest[:_DIGEST_SHOWN],
                subject_name=str(token),
                before=_told_token(token),
            )
            token.delete()
        return len(revoked)


def person_named(name: str) -> Any:
    """The person of this name; MetadataError ``unknown_person`` if there is none."""
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise MetadataError("unknown_person", "there is nobody of this name", "name", name)
    return user


def token_in_use(text: str) -> PersonalToken:
    """The token of this text, with its person. MetadataError: ``token_invalid``, ``token_expired``."""
    token = None
    # No token holds anything else, and PostgreSQL can't even be asked for some of it.
    if text.isascii() and text.isprintable():
        token = _token_of(text)
    if token is None:
        raise MetadataError("token_invalid", "the personal token is not known, or was revoked")
    now = timezone.now()
    if token.expiry is not None and token.expiry <= now:
        raise MetadataError("token_expired", f"the personal token expired on {token.expiry:%Y-%m-%d %H:%M} UTC")
    if not token.user.is_active:
        raise MetadataError("token_invalid", "the personal token's person is out of use")
    if token.last_used_at is None or now - token.last_used_at >= _USED_EVERY:
        PersonalToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _token_of(text: str) -> PersonalToken | None:
    known = PersonalToken.objects.filter(token_key=text[: CONSTANTS.TOKEN_KEY_LENGTH]).select_related("user")
    digest = hash_token(text)
    return next((row for row in known if compare_digest(row.digest, digest)), None)


def sync_roles(*, app_label: str) -> None:
    """Make the groups of the roles give exactly what the table says, as far as ``app_label`` goes."""
    known = {
        f"{app_label}.{codename}": pk
        for codename, pk in Permission.objects.filter(content_type__app_label=app_label).values_list("codename", "pk")
    }
    for group in _groups(frozenset(ROLES)):
        wanted = {known[name] for name in map(str, ROLES[Role(group.name)]) if name in known}
        given = set(group.permissions.filter(content_type__app_label=app_label).values_list("pk", flat=True))
        group.permissions.add(*(wanted - given))
        group.permissions.remove(*(given - wanted))


def _groups(roles: frozenset[Role]) -> list[Group]:
    names = [role.value for role in roles]
    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    Group.objects.bulk_create([Group(name=name) for name in names if name not in found], ignore_conflicts=True)
    return list(Group.objects.filter(name__in=names)) if len(found) < len(names) else list(found.values())


def _role(given: Role | str) -> Role:
    try:
        return Role(given)
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise MetadataError("invalid", f"there is no role {given!r}; known are {known}", "role") from None


def _check_password(password: str, user: Any) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise MetadataError("weak_password", " ".join(error.messages), "password", user.get_username()) from None


def _told(user: Any) -> dict[str, Any]:
    roles = sorted(role.value for role in roles_of(user))
    return {"name": user.get_username(), "active": user.is_active, "roles": roles}


def _told_token(token: PersonalToken) -> dict[str, Any]:
    return {"person": token.user.get_username(), "name": token.name, "expiry": token.expiry.isoformat()}
