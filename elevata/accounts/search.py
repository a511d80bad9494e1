"""Users and pages of accounts that the search finds."""

from django.contrib.auth import get_user_model
from django.urls import reverse

from elevata.accounts.roles import Permission
from elevata.web.search import PageEntry, PageKind, RowKind

KINDS = (
    RowKind(
        "user",
        "User",
        lambda user: get_user_model().objects.all(),
        key=lambda row: row.username,
        page=lambda row: reverse("user_page", args=[row.username]),
        called="username",
        texts=(),
        permission=Permission.MANAGE_USERS,
        similar=True,
        api="api-user-detail",
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Home", "home", "start overview"),
            PageEntry("Your account", "me", "roles tokens password sign-in"),
            PageEntry("Your access", "my_access", "roles permissions rights reach"),
            PageEntry("Time zone", "me", "times settings", "#time-zone"),
            PageEntry("API description", "api_swagger", "rest openapi swagger endpoints"),
            PageEntry("Users", "user_list", "accounts roles grants"),
        ),
    ),
    PageKind(
        "action",
        "Action",
        (
            PageEntry("New user", "user_new", "create add service account"),
            PageEntry("New token", "me", "create add api", "#new-token"),
            PageEntry("Change password", "me", "account sign-in", "#password"),
        ),
    ),
)
