"""Filters of users."""

from typing import ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import F

from elevata.accounts.roles import Role
from elevata.web.list_filters import StableOrdering, YesNoFilter


class UserFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="username", lookup_expr="icontains", label="Name")
    active = YesNoFilter(field_name="is_active", label="In use")
    role = filters.CharFilter(field_name="groups__name", label="Role")
    ordering = StableOrdering(
        fields=(("username", "name"), ("is_active", "active")),
        computed={"last_login": F("last_login")},
        default=("username",),
    )

    known: ClassVar = {"role": frozenset(Role).__contains__}

    class Meta:
        model = get_user_model()
        fields = ()
