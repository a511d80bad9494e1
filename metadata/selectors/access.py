"""Access: users who may read, change, approve, execute and load at a place, and all that one user reaches."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from elevata.accounts.access import Ground, all_users, grounds, holders
from elevata.accounts.permissions import may
from elevata.accounts.places import Place, known_places
from elevata.accounts.roles import Permission
from metadata.domain.column_lineage import SOURCE
from metadata.models import System, TargetDataset, TargetSchema
from metadata.permissions import here, place_of, place_of_data
from metadata.selectors.sensitive_counts import counts_by_schema, counts_by_system

READ, UNMASK, EDIT, APPROVE, EXECUTE, LOAD = "read", "unmask", "edit", "approve", "execute", "load"
POLICIES, USERS, WEBHOOKS = "policies", "users", "webhooks"
# Label and permission of each action. A system, schema or dataset has those of ``PLACED`` only.
ACTIONS: Mapping[str, tuple[str, Permission]] = {
    READ: ("Read data", Permission.READ_DATA),
    UNMASK: ("Sensitive values", Permission.READ_SENSITIVE),
    EDIT: ("Edit metadata", Permission.CHANGE_METADATA),
    APPROVE: ("Approve reports", Permission.APPROVE_REPORTS),
    EXECUTE: ("Execute reports", Permission.EXECUTE_REPORTS),
    LOAD: ("Start loads", Permission.START_LOAD),
    POLICIES: ("Manage policies", Permission.MANAGE_POLICIES),
    USERS: ("Manage users", Permission.MANAGE_USERS),
    WEBHOOKS: ("Manage webhooks", Permission.MANAGE_WEBHOOKS),
}
PLACED = (READ, UNMASK, EDIT, APPROVE, EXECUTE, LOAD)
_IN_ENVIRONMENT = (APPROVE, EXECUTE, LOAD, POLICIES)


@dataclass(frozen=True)
class Action:
    """Action on a system, schema or dataset: the permission that it needs, and the place of that permission."""

    name: str
    label: str
    permission: Permission
    place: Place


@dataclass(frozen=True)
class Cell:
    """Reasons why a user may do an action; none if the user may not.

    ``masked``: the user may read values, but those of sensitive columns are masked. ``applies`` is False if there is
    no such action here.
    """

    action: Action
    grounds: tuple[Ground, ...]
    masked: bool = False
    applies: bool = True

    @property
    def in_words(self) -> str:
        """Return the grounds, ``masked`` for a reader without sensitive values, or nothing."""
        return "; ".join(map(str, self.grounds)) or ("masked" if self.masked else "")


@dataclass(frozen=True)
class UserAccess:
    """User with a cell for each action."""

    user: Any
    cells: tuple[Cell, ...]

    @property
    def owner(self) -> Any:
        """Return the owner of a service account; None for another user."""
        account = getattr(self.user, "service_account", None)
        return account.owner if account is not None else None

    @property
    def permitted(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.grounds)

    @property
    def masked(self) -> bool:
        """Return True if the user reads data here, with masked values of sensitive columns."""
        return any(cell.masked for cell in self.cells)


def actions_at(row: System | TargetSchema | TargetDataset) -> tuple[Action, ...]:
    """Return the actions that the places of roles decide on here, in the environment of the installation.

    Systems are outside of the warehouse: no report changes them, and only a role everywhere edits them.
    """
    return _actions(place_of(row), place_of_data(row))


def _at(place: Place, *names: str) -> tuple[Action, ...]:
    return tuple(Action(name, *ACTIONS[name], place) for name in names)


def _actions(described: Place, data: Place) -> tuple[Action, ...]:
    reports = _at(data, APPROVE, EXECUTE) if described.schemas else ()
    return (*_at(data, READ, UNMASK), *_at(described, EDIT), *reports, *_at(here(), LOAD))


def users_at(actions: Collection[Action], action: str = "") -> QuerySet:
    """Return the users who may do any of the actions, or the one of this name, by name."""
    wanted = Q(pk__in=())
    for each in actions:
        if action in ("", each.name):
            wanted |= Q(pk__in=holders(each.permission, each.place).values("pk"))
    return all_users().filter(wanted)


def access_of(user: Any, actions: Collection[Action]) -> UserAccess:
    """Return the access of a user of ``all_users``."""
    reasons = {action.name: grounds(user, action.permission, action.place) for action in actions}
    return UserAccess(
        user,
        tuple(
            Cell(action, reasons[action.name], action.name == UNMASK and bool(reasons[READ]) and not reasons[UNMASK])
            for action in actions
        ),
    )


def sees_others(user: Any, row: System | TargetSchema | TargetDataset) -> bool:
    """Return True if a user sees the access of all users: administrators, stewards of the place, and owners."""
    if may(user, Permission.MANAGE_USERS, on=Place):
        return True
    return may(user, Permission.READ_SENSITIVE, on=place_of_data(row)) or user.get_username() in owners_of(row)


def owners_of(row: System | TargetSchema | TargetDataset) -> list[str]:
    """Return the names that the metadata has as owners of a row: its own, and that of a dataset's schema."""
    rows = (row, row.schema) if isinstance(row, TargetDataset) else (row,)
    return list(dict.fromkeys(owner for each in rows if (owner := each.owner.strip())))


@dataclass(frozen=True)
class Reached:
    """Schema, or all sources, with the access of one user there and the number of its sensitive columns.

    ``name`` is empty for the sources, of ``systems`` systems: every role covers all of them alike.
    """

    name: str
    layer: str
    access: UserAccess
    sensitive: int
    systems: int = 0


@dataclass(frozen=True)
class Reach:
    """All that a user reaches: the sources, each schema, each environment, and permissions for no place."""

    user: Any
    places: tuple[Reached, ...]
    environments: tuple[tuple[str, UserAccess], ...]
    manages: UserAccess


def reach_of(pk: int) -> Reach:
    """Return all that the user with this primary key reaches."""
    user = all_users().get(pk=pk)
    schemas, systems = counts_by_schema(), counts_by_system()
    total = sum(count.columns for count in systems.values())
    places = [Reached("", SOURCE, _of_sources(user), total, System.objects.count())]
    for schema in TargetSchema.objects.all():
        count = schemas.get(schema.name)
        # The start of loads is the same in the whole environment.
        access = access_of(user, [action for action in actions_at(schema) if action.name != LOAD])
        places.append(Reached(schema.name, schema.layer, access, count.columns if count else 0))
    environments = dict.fromkeys([settings.ENVIRONMENT, *known_places("environment")])
    return Reach(
        user,
        tuple(places),
        tuple((name, access_of(user, _at(Place(environment=name), *_IN_ENVIRONMENT))) for name in environments),
        access_of(user, _at(Place(), USERS, WEBHOOKS)),
    )


def _of_sources(user: Any) -> UserAccess:
    """Return the access to all sources, with the same actions as for schemas."""
    access = access_of(user, _actions(Place(), here()))
    reports = (Cell(action, (), applies=False) for action in _at(here(), APPROVE, EXECUTE))
    return replace(access, cells=(*access.cells[:-1], *reports))
