"""Personal tokens: creation, lookup and revocation. A token has fewer permissions than its user."""

from datetime import timedelta
from hmac import compare_digest
from typing import Any

from django.utils import timezone
from knox.crypto import hash_token
from knox.settings import CONSTANTS, knox_settings

from elevata.accounts.actors import TOKEN, current_actor
from elevata.accounts.models import PersonalToken
from elevata.accounts.permissions import may, must_write
from elevata.accounts.roles import Permission, needed_role
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from elevata.notifications.services import tell_account_changed

LONGEST_DAYS = 366
LONGEST_NAME = 100
_LAST_USED_INTERVAL = timedelta(minutes=1)
# Length of the digest's prefix by which tokens are looked up.
DIGEST_SHOWN = 32


def create_token(
    *, user: Any, name: str = "", days: int | None = None, scope: str = PersonalToken.Scope.WRITE
) -> tuple[PersonalToken, str]:
    """Create a token of a user and return it with its text, which is not stored and cannot be shown again.

    ``days`` is its lifetime, 1 to 366; the default is the setting's 90. ``scope`` is ``read`` or ``write``. Users
    create tokens for themselves and for their service accounts. A user of the server's shell may create a token for
    any user, who is notified with all administrators. Raises MetadataError ``not_permitted`` for all others, also for
    administrators and tokens.
    """
    _must_create_for(user)
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise MetadataError("invalid", f"must be 1 to {LONGEST_DAYS}, not {days}", "days")
    if scope not in PersonalToken.Scope.values:
        raise MetadataError("invalid", f"must be read or write, not {scope!r}", "scope")
    if len(name) > LONGEST_NAME:
        raise MetadataError("invalid", f"must have {LONGEST_NAME} letters at most", "name")
    if not user.is_active:
        raise MetadataError("invalid", "is inactive", "name", user.get_username())
    with writing():
        lifetime = knox_settings.TOKEN_TTL if days is None else timedelta(days=days)
        token, text = PersonalToken.objects.create(user=user, expiry=lifetime, name=name, scope=str(scope))
        _record("created", token, after=_logged_fields(token))
        if current_actor().user is None:
            label = f"personal token {name}" if name else "personal token"
            tell_account_changed(user=user, done=f"made the {label} of {user.get_username()}")
        return token, text


def revoke_tokens(*, user: Any, name: str | None = None) -> int:
    """Revoke all tokens of a user, or those of this name, and return their number."""
    _must_revoke(user)
    with writing():
        tokens = PersonalToken.objects.select_for_update().filter(user=user)
        return sum(map(_revoke, tokens if name is None else tokens.filter(name=name)))


def revoke_token(*, token: PersonalToken) -> None:
    """Revoke a token."""
    _must_revoke(token.user)
    with writing():
        for row in PersonalToken.objects.select_for_update().filter(pk=token.pk):
            _revoke(row)


def authenticate_token(text: str) -> PersonalToken:
    """Return the valid token of this text. Raise MetadataError ``token_invalid`` or ``token_expired``."""
    token = None
    # No token contains other characters, and PostgreSQL refuses some of them.
    if text.isascii() and text.isprintable():
        token = _token_of(text)
    if token is None:
        raise MetadataError("token_invalid", "the personal token is unknown or revoked")
    now = timezone.now()
    if token.expiry is not None and token.expiry <= now:
        raise MetadataError("token_expired", f"the personal token expired on {token.expiry:%Y-%m-%d %H:%M} UTC")
    if not token.user.is_active:
        raise MetadataError("token_invalid", "the user of the personal token is inactive")
    if not _owner_is_active(token.user):
        raise MetadataError("token_invalid", "the owner of this service account is inactive")
    if token.last_used_at is None or now - token.last_used_at >= _LAST_USED_INTERVAL:
        PersonalToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _token_of(text: str) -> PersonalToken | None:
    tokens = PersonalToken.objects.filter(token_key=text[: CONSTANTS.TOKEN_KEY_LENGTH])
    digest = hash_token(text)
    rows = tokens.select_related("user__service_account__owner")
    return next((row for row in rows if compare_digest(row.digest, digest)), None)


def _owner_is_active(user: Any) -> bool:
    account = getattr(user, "service_account", None)
    return account is None or account.owner.is_active


def _must_create_for(user: Any) -> None:
    """Raise MetadataError ``not_permitted`` unless the actor is the user, its owner, or the system.

    A token may not create tokens.
    """
    must_write()
    actor = current_actor()
    if actor.user is None:
        return
    if actor.kind == TOKEN:
        raise MetadataError(
            "not_permitted", "a token cannot create a token: sign in and create it on your account page"
        )
    if not _is_responsible(actor.user, user):
        raise MetadataError("not_permitted", "users create their tokens on their account page")


def _must_revoke(user: Any) -> None:
    """Raise MetadataError ``not_permitted`` unless the actor may revoke the user's tokens.

    The user, its owner, administrators and the system may.
    """
    must_write()
    actor = current_actor().user
    if actor is not None and not _is_responsible(actor, user) and not may(actor, Permission.MANAGE_USERS):
        raise MetadataError("not_permitted", needed_role(Permission.MANAGE_USERS))


def _is_responsible(actor: Any, user: Any) -> bool:
    account = getattr(user, "service_account", None)
    return actor.pk == user.pk or (account is not None and account.owner_id == actor.pk)


def _revoke(token: PersonalToken) -> int:
    _record("deleted", token, before=_logged_fields(token))
    token.delete()
    return 1


def _record(action: str, token: PersonalToken, **sides: Any) -> None:
    key = token.digest[:DIGEST_SHOWN]
    why = current_actor().reason
    record_change(action=action, subject_kind="token", subject_key=key, subject_name=str(token), reason=why, **sides)


def _logged_fields(token: PersonalToken) -> dict[str, Any]:
    return {
        "person": token.user.get_username(),
        "name": token.name,
        "scope": str(token.scope),
        "expiry": token.expiry.isoformat(),
    }
