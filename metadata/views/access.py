"""Pages of access: users who may read, change and execute at a place, and all that one user reaches."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.accounts.services.users import grant_role, user_named
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.requests import user_of
from elevata.web.views import FormsPage, RowPage, TemplatePage
from metadata.forms.access import GrantHereForm, places_here
from metadata.models import System, TargetSchema
from metadata.selectors.access import Action, access_of, actions_at, owners_of, reach_of, sees_others, users_at
from metadata.selectors.access import UserAccess as AccessRow
from metadata.selectors.columns import headed
from metadata.selectors.sensitive_columns import sensitive_of
from metadata.selectors.sensitive_counts import counts_by_schema, counts_by_system
from metadata.selectors.sensitive_details import with_classes

# Users that the form suggests; any other name can be typed.
SUGGESTED = 500


class AccessPage(RowPage, ListPage, FormsPage):
    """Base of pages of the access to one row. A user who may not see others' access sees the own one.

    Administrators grant a role for a place of the row.
    """

    permissions, methods, place = (Permission.MANAGE_USERS,), ("POST",), Place
    file_name = "access"
    actions: ClassVar = {"grant": "grant"}

    @cached_property
    def listed_actions(self) -> tuple[Action, ...]:
        return actions_at(self.row)

    @cached_property
    def listed_columns(self) -> Sequence[Column]:
        user = Column("User", {"user": "user.username", "owner": "owner"})
        return (user, *(_column_of(place, action) for place, action in enumerate(self.listed_actions)))

    @cached_property
    def sees_others(self) -> bool:
        return sees_others(self.request.user, self.row)

    @property
    def _chosen_action(self) -> str:
        chosen = self.request.GET.get("may", "")
        return chosen if chosen in {action.name for action in self.listed_actions} else ""

    def listed(self) -> QuerySet:
        users = users_at(self.listed_actions, self._chosen_action)
        return users if self.sees_others else users.filter(pk=self.request.user.pk)

    def detailed(self, rows: Sequence[Any]) -> Sequence[AccessRow]:
        return [access_of(user, self.listed_actions) for user in rows]

    def context(self) -> dict[str, Any]:
        manages = may(self.request.user, Permission.MANAGE_USERS, on=Place)
        return super().context() | {
            "listed_actions": self.listed_actions,
            "chosen": self._chosen_action,
            "rows": self.detailed_page,
            "sees_others": self.sees_others,
            "owners": owners_of(self.row),
            "may_grant": manages,
            "places": [label for _, label in places_here(self.row)],
            "grant_form": GrantHereForm(row=self.row, prefix="grant"),
            "names": self._names() if manages else [],
        }

    @staticmethod
    def _names() -> list[str]:
        users = get_user_model().objects.filter(is_active=True).order_by("username")
        return list(users.values_list("username", flat=True)[:SUGGESTED])

    def grant(self) -> HttpResponse:
        form = GrantHereForm(self.request.POST, row=self.row, prefix="grant")

        def save() -> Any:
            return grant_role(user=user_named(form.cleaned_data["user"], "user"), **form.given())

        return self.submit("grant_form", form, save, "{row.user} has the role {row}.")


def _column_of(index: int, action: Action) -> Column:
    """Return the column of an action; its cells have this index."""
    return Column(action.label, {action.label.lower(): lambda access: access.cells[index].in_words})


class DatasetAccess(AccessPage):
    """Access to a dataset, and its sensitive columns."""

    name, page, template_name = "dataset", "dataset_page", "metadata/dataset_access.html"
    rows = staticmethod(headed)

    def context(self) -> dict[str, Any]:
        return super().context() | {"sensitive": with_classes(sensitive_of(self.row))}


class SchemaAccess(AccessPage):
    """Access to the datasets of a schema."""

    model, name, by, template_name = TargetSchema, "schema", "name", "metadata/schema_access.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"count": counts_by_schema().get(self.row.name)}


class SystemAccess(AccessPage):
    """Access to a system and its sources."""

    model, name, by, template_name = System, "system", "short_name", "metadata/system_access.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"count": counts_by_system().get(self.row.short_name)}


class MyAccess(TemplatePage):
    """All that the signed-in user reaches."""

    template_name = "metadata/user_access.html"

    def context(self) -> dict[str, Any]:
        may_grant = may(self.request.user, Permission.MANAGE_USERS, on=Place)
        return {"reach": reach_of(user_of(self.request).pk), "is_own": True, "may_grant": may_grant}


class UserAccess(TemplatePage):
    """All that one user reaches, for administrators."""

    permissions, place, template_name = (Permission.MANAGE_USERS,), Place, "metadata/user_access.html"

    def context(self) -> dict[str, Any]:
        user = get_object_or_404(get_user_model(), username=self.kwargs["name"])
        return {"reach": reach_of(user.pk), "is_own": user == self.request.user, "may_grant": True}
