"""Users and service accounts, with their roles and grants."""

from collections.abc import Collection, Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from elevata.accounts.actors import current_actor
from elevata.accounts.models import Identity, RoleGrant, ServiceAccount, TemporaryPassword
from elevata.accounts.permissions import is_service_account, may, must_write, roles_of
from elevata.accounts.places import LAYERS, known_places
from elevata.accounts.roles import ROLES, Role, is_for_users, needed_role
from elevata.accounts.roles import Permission as RolePermission
from elevata.audit.services.change_log import record_change
from elevata.audit.services.row_seals import Sealed
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from elevata.notifications.services import tell_account_changed

SEALED = {ServiceAccount: Sealed()}


def create_user(*, name: str, roles: Iterable[Role | str], password: str | None = None, announced: bool = True) -> Any:
    """Create a user. Without a password, the user cannot sign in by one, but can use tokens."""
    with writing():
        _refuse_known(name)
        return ensure_user(name=name, roles=roles, password=password, announced=announced)


def create_service_account(*, name: str, owner: Any, roles: Iterable[Role | str] = ()) -> Any:
    """Create a user for a program, which never has a password; ``owner`` is the responsible user."""
    with writing() as unit:
        _refuse_known(name)
        if is_service_account(owner):
            raise MetadataError("invalid", "is a service account, which cannot own another", "owner", str(owner))
        if not owner.is_active:
            raise MetadataError("invalid", "is inactive", "owner", str(owner))
        role_set = frozenset(map(_role, roles))
        _refuse_user_only_roles(name, role_set)
        user = ensure_user(name=name, roles=role_set, announced=False)
        unit.added(ServiceAccount.objects.create(user=user, owner=owner))
        _record(user, {}, {"owner": owner.get_username()})
        return type(user).objects.get(pk=user.pk)


def ensure_user(
    *,
    name: str,
    roles: Iterable[Role | str],
    password: str | None = None,
    temporary: bool = True,
    announced: bool = True,
) -> Any:
    """Return the user with exactly these roles and a given password; create or reactivate the user if needed.

    A password for another user is ``temporary``: that user must replace it at the next sign-in. Only the demo, which
    prints its passwords, passes False. ``announced`` is False for changes by single sign-on instead of a user.

    Raises MetadataError: ``invalid`` for an invalid name or role, ``weak_password``.
    """
    role_set = frozenset(_role(role) for role in roles)
    _must_manage()
    with writing():
        user = get_user_model().objects.select_for_update(no_key=True).filter(username=name).first()
        is_new = user is None
        user = user or get_user_model()(username=name)
        before = {} if is_new else _logged_fields(user)
        _set_password(user, password, is_new=is_new)
        if not user.is_active:
            user.is_active = True
        try:
            user.full_clean(exclude=["password"])
        except ValidationError as error:
            raise MetadataError("invalid", error.messages[0], "name", name) from None
        user.save()
        _set_groups(user, role_set)
        after = _logged_fields(user)
        if password is not None:
            _mark_password(user, temporary=temporary)
            after |= {} if is_new else {"password": "changed"}
        _record(user, before, after, action="created" if is_new else "changed", announced=announced)
        return user


def set_roles(*, user: Any, roles: Iterable[Role | str], announced: bool = True) -> None:
    """Set the user's global roles to exactly these; grants for one place are not changed.

    ``announced`` is False for changes by single sign-on. Raises MetadataError ``invalid`` for users who would remove
    their own permission to manage users, so that one user always has it.
    """
    role_set = frozenset(_role(role) for role in roles)
    _must_manage()
    with writing():
        lock_user(user)
        is_own = announced and current_actor().user == user and not user.is_superuser
        if is_own and _manages_users(roles_of(user)) and not _manages_users(role_set):
            message = "you cannot remove your own role for managing users: ask another administrator"
            raise MetadataError("invalid", message, "roles")
        before = _logged_fields(user)
        _set_groups(user, role_set)
        _record(user, before, _logged_fields(user), announced=announced)


def set_password(*, user: Any, password: str) -> None:
    """Set the actor's own password or, for an administrator, that of another user, who must replace it.

    Raises MetadataError ``weak_password``, also for a user who sets the temporary password again.
    """
    must_write()
    own = current_actor().user == user
    if not own:
        _must_manage()
    with writing():
        if own and TemporaryPassword.objects.filter(user=user).exists() and user.check_password(password):
            message = "is the password that was set for you: choose another"
            raise MetadataError("weak_password", message, "password", user.get_username())
        _set_password(user, password, is_new=False)
        user.save(update_fields=["password"])
        _mark_password(user)
        _record(user, {}, {"password": "changed"}, announced=not own)


def deactivate_user(*, user: Any) -> None:
    """Deactivate a user: sign-in, and tokens of the user and of the user's service accounts, are refused."""
    if current_actor().user == user:
        raise MetadataError("invalid", "you cannot deactivate your own account", "name", str(user))
    _set_active(user, False)


def activate_user(*, user: Any) -> None:
    """Reactivate a user; tokens that are not revoked or expired are accepted again."""
    _set_active(user, True)


def grant_role(*, user: Any, role: Role | str, environment: str = "", layer: str = "", schema: str = "") -> RoleGrant:
    """Grant a role for one environment, one layer or one schema; return the existing grant if there is one.

    Raises MetadataError ``invalid`` unless exactly one place is given.
    """
    granted_role = _role(role)
    if sum(map(bool, (environment, layer, schema))) != 1:
        raise MetadataError("invalid", "name one environment, one layer or one schema", "place")
    if layer and layer not in LAYERS:
        raise MetadataError("invalid", f"there is no layer {layer!r}", "layer")
    if schema and schema not in known_places("schema"):
        raise MetadataError("unknown_schema", "there is no schema of this name", "schema", schema)
    _must_manage()
    if is_service_account(user):
        _refuse_user_only_roles(user.get_username(), {granted_role})
    with writing():
        lock_user(user)
        grant, created = RoleGrant.objects.get_or_create(
            user=user, role=granted_role.value, environment=environment, layer=layer, schema=schema
        )
        if created:
            _record(user, {}, {"granted": str(grant)})
        return grant


def move_schema_grants(*, old: str, new: str) -> None:
    """Move the grants for a schema to its new name."""
    RoleGrant.objects.filter(schema=old).update(schema=new)


def revoke_grant(*, grant: RoleGrant) -> None:
    """Revoke a role for one place."""
    _must_manage()
    with writing():
        description, user = str(grant), grant.user
        lock_user(user)
        if RoleGrant.objects.filter(pk=grant.pk).delete()[0]:
            _record(user, {"granted": description}, {})


def link_identity(*, user: Any, issuer: str, subject: str, announced: bool = True) -> Identity:
    """Link a subject of the single sign-on provider to a user, for all later sign-ins.

    Raises MetadataError ``in_use`` if the subject belongs to another user.
    """
    _must_manage()
    with writing():
        if is_service_account(user):
            raise MetadataError("invalid", "is a service account, which signs in nowhere", "name", str(user))
        identity, created = Identity.objects.get_or_create(issuer=issuer, subject=subject, defaults={"user": user})
        if identity.user_id != user.pk:
            raise MetadataError("in_use", f"signs in as {identity.user} already", "subject", subject)
        if created:
            _record(user, {}, {"identity": str(identity)}, announced=announced)
        return identity


def lock_user(user: Any) -> Any:
    """Return the stored user, with roles and active state locked until the transaction ends.

    Rows that refer to the user, like sessions, can still be written.
    """
    return get_user_model().objects.select_for_update(no_key=True).get(pk=user.pk)


def user_named(name: str, field: str = "name") -> Any:
    """Return the user of this name. Raise MetadataError ``unknown_user`` for the field if there is none."""
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise MetadataError("unknown_user", "there is no user with this name", field, name)
    return user


def sync_roles(*, app_label: str) -> None:
    """Set the permissions of the roles' groups to those of ``ROLES``, for the permissions of ``app_label``."""
    known = {
        f"{app_label}.{codename}": pk
        for codename, pk in Permission.objects.filter(content_type__app_label=app_label).values_list("codename", "pk")
    }
    for group in _groups(frozenset(ROLES)):
        expected = {known[name] for name in map(str, ROLES[Role(group.name)]) if name in known}
        current = set(group.permissions.filter(content_type__app_label=app_label).values_list("pk", flat=True))
        group.permissions.add(*(expected - current))
        group.permissions.remove(*(current - expected))


def _must_manage() -> None:
    """Raise MetadataError ``not_permitted`` unless the actor may manage users.

    The system may, because it is a user of the server's shell.
    """
    must_write()
    user = current_actor().user
    if user is not None and not may(user, RolePermission.MANAGE_USERS):
        raise MetadataError("not_permitted", needed_role(RolePermission.MANAGE_USERS))


def _manages_users(roles: Collection[Role]) -> bool:
    return any(RolePermission.MANAGE_USERS in ROLES[role] for role in roles)


def _refuse_known(name: str) -> None:
    if get_user_model().objects.filter(username=name).exists():
        raise MetadataError("name_taken", "a user with this name already exists", "name", name)


def _set_password(user: Any, password: str | None, *, is_new: bool) -> None:
    if password is not None:
        if not is_new and is_service_account(user):
            raise MetadataError("invalid", "is a service account, which has no password", "password", str(user))
        _check_password(password, user)
        user.set_password(password)
    elif is_new:
        user.set_unusable_password()


def _set_active(user: Any, active: bool) -> None:
    _must_manage()
    with writing():
        row = lock_user(user)
        if row.is_active is not active:
            before = _logged_fields(row)
            row.is_active = user.is_active = active
            row.save(update_fields=["is_active"])
            _record(row, before, _logged_fields(row))


def _mark_password(user: Any, *, temporary: bool = True) -> None:
    """Mark the password as temporary if another actor set it, else remove the mark."""
    actor = current_actor()
    if temporary and actor.user != user:
        TemporaryPassword.objects.update_or_create(user=user, defaults={"set_by": actor.described[:150]})
    else:
        TemporaryPassword.objects.filter(user=user).delete()


def _record(
    user: Any, before: dict[str, Any], after: dict[str, Any], *, action: str = "changed", announced: bool = True
) -> None:
    """Log the changes of an account, and notify its owner and all other administrators."""
    if before == after:
        return
    name, why = user.get_username(), current_actor().reason
    record_change(
        action=action,
        subject_kind="user",
        subject_key=name,
        subject_name=name,
        before=before,
        after=after,
        reason=why,
    )
    if announced:
        implied = {"name", "active"} if action == "created" else {"name"}
        fields = [field for field in sorted({*before, *after} - implied) if before.get(field) != after.get(field)]
        changes = "; ".join(_change(field, before.get(field), after.get(field), action) for field in fields)
        tell_account_changed(
            user=user,
            done=f"{action} the account {name}" + (f": {changes}" if changes.strip("; ") else ""),
            new=action == "created",
            facts={"action": action, "fields": fields},
        )


def _change(field: str, before: Any, after: Any, action: str) -> str:
    """Return the change of one account field in words."""
    if field == "password":
        return "password set for the owner to replace"
    if isinstance(after, bool):
        return f"{field} {'yes' if after else 'no'}"
    if isinstance(after, list):
        return f"{field} {', '.join(after) or 'none'}"
    return f"{field} {after}" if after is not None else f"no longer {field} {before}"


def _refuse_user_only_roles(name: str, roles: Collection[Role]) -> None:
    """Raise MetadataError ``service_account`` for roles with a permission that service accounts cannot have."""
    refused = sorted(role.value for role in roles if is_for_users(role))
    if refused:
        message = f"is a service account: {' and '.join(refused)} are roles for users who approve or manage policies"
        raise MetadataError("service_account", message, "role", name)


def _set_groups(user: Any, roles: frozenset[Role]) -> None:
    if is_service_account(user):
        _refuse_user_only_roles(user.get_username(), roles)
    others = user.groups.exclude(name__in=[role.value for role in ROLES])
    user.groups.set([*others, *_groups(roles)])


def _groups(roles: frozenset[Role]) -> list[Group]:
    names = [role.value for role in roles]
    groups = {group.name: group for group in Group.objects.filter(name__in=names)}
    Group.objects.bulk_create([Group(name=name) for name in names if name not in groups], ignore_conflicts=True)
    return list(Group.objects.filter(name__in=names)) if len(groups) < len(names) else list(groups.values())


def _role(name: Role | str) -> Role:
    try:
        return Role(name)
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise MetadataError("invalid", f"there is no role {name!r}; known are {known}", "role") from None


def _check_password(password: str, user: Any) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise MetadataError("weak_password", " ".join(error.messages), "password", user.get_username()) from None


def _logged_fields(user: Any) -> dict[str, Any]:
    roles = sorted(role.value for role in roles_of(user))
    return {"name": user.get_username(), "active": user.is_active, "roles": roles}
