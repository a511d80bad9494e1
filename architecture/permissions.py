"""Permissions of workflow steps: actor and environment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from architecture.domain.operations import operation_of
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Environment, Execution
from elevata.accounts.actors import acting_as, current_actor
from elevata.accounts.models import ServiceAccount
from elevata.accounts.permissions import Where, is_service_account, may, may_somewhere, must_write, roles_of
from elevata.accounts.places import Place
from elevata.accounts.roles import USERS_ONLY, Permission, needed_role
from metadata.domain.scope import Scope
from metadata.permissions import place_of_schemas

# Users with a part in the workflow may create reports; read-only users may not.
BUILDERS = (Permission.CHANGE_METADATA, Permission.APPROVE_REPORTS, Permission.EXECUTE_REPORTS)


def must_be_permitted(user: Any, permission: Permission, on: Where = None) -> None:
    """Raise Refused unless the user is active and has the permission in this place.

    The code is NO_PERSON without a user, SERVICE_ACCOUNT for a service account if a user is required, NOT_PERMITTED
    otherwise. Raises MetadataError ``token_scope`` for a read-only token.
    """
    if user is None or not getattr(user, "is_authenticated", False) or not user.is_active:
        raise Refused("NO_PERSON")
    if permission in USERS_ONLY and is_service_account(user):
        raise Refused("SERVICE_ACCOUNT")
    if not may(user, permission, on):
        raise Refused("NOT_PERMITTED", f"{needed_role(permission)}, which {user.get_username()} does not have here")
    must_write()


def must_still_be_permitted(user: Any, permission: Permission, on: Where = None) -> None:
    """Raise Refused NOT_PERMITTED for queued work whose requester was deactivated or lost the permission since.

    A service account whose owner was deactivated counts as deactivated.
    """
    if not user.is_active or ServiceAccount.objects.filter(user_id=user.pk, owner__is_active=False).exists():
        change = "is not active any more"
    elif not may(user, permission, on):
        change = "does not have the permission any more"
    else:
        return
    message = f"{user.get_username()}, who requested it, {change}: {needed_role(permission)}"
    raise Refused("NOT_PERMITTED", message, "have a user with the permission start it again")


def role_names(user: Any, on: Where = None) -> list[str]:
    """Return the names of the user's roles, including those for this place, sorted."""
    return sorted(role.value for role in roles_of(user, on))


def who_answers(user: Any) -> str:
    """Return the name of the responsible user: the user, or the owner of a service account."""
    account = ServiceAccount.objects.filter(user_id=user.pk).select_related("owner").first()
    return (account.owner if account is not None else user).get_username()


@contextmanager
def on_behalf_of(user: Any) -> Iterator[None]:
    """Attribute change-log entries in the block to this user, unless the actor is already known."""
    if current_actor().user == user:
        yield
    else:
        with acting_as(user):
            yield


def refuse_elsewhere(environment: Environment, subject: str) -> None:
    """Raise Refused OTHER_ENVIRONMENT for a report or run of another environment than this installation's.

    Its policy and the users' roles there do not apply to this environment's warehouse, nor those of here to its own.
    """
    if environment.name != settings.ENVIRONMENT:
        raise Refused("OTHER_ENVIRONMENT", f"{subject} belongs to environment {environment.name}")


def place_of_environment(environment: Environment) -> Place:
    return Place(environment=environment.name)


def place_of_report(report: ChangeReport) -> Callable[[], Place]:
    """Return a report's environment and the schemas that it changes, computed on demand."""

    def place_of_row() -> Place:
        names = {operation_of(row).dataset.rpartition(".")[0] for row in report.document["rows"]}
        return place_of_schemas(names, report.environment.name)

    return place_of_row


def place_of_execution(execution: Execution) -> Callable[[], Place]:
    """Return the place of an execution: its report's, or its environment if a load run started it."""
    if execution.report is not None:
        return place_of_report(execution.report)
    return lambda: place_of_environment(execution.environment)


def place_of_scope(scope: Scope, environment: str) -> Place:
    """Return an environment, and the schemas of the datasets that a scope names."""
    names = () if scope.everything else (name.partition(".")[0] for name in scope.name.split())
    return place_of_schemas(names, environment)


def may_build(user: Any, on: Where = None) -> bool:
    """Return True if the user may create reports of a place: with permission to edit, approve or execute there.

    Without a place, anywhere: views check this, and services the place.
    """
    if on is None:
        return any(may_somewhere(user, permission) for permission in BUILDERS)
    return any(may(user, permission, on) for permission in BUILDERS)


def must_build(user: Any, scope: Scope, environment: str) -> None:
    """Raise Refused NOT_PERMITTED unless the user may create reports of a scope in an environment."""
    if not may_build(user, lambda: place_of_scope(scope, environment)):
        where = scope.name or "the whole environment"
        message = f"a report of {where} needs the editor, approver or operator role there"
        raise Refused("NOT_PERMITTED", message, "choose a schema or datasets for which you have such a role")
