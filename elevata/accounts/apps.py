from typing import Any

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_migrate
from django.http import HttpRequest


class AccountsConfig(AppConfig):
    name = "elevata.accounts"

    def ready(self) -> None:
        # After Django's own handlers, which create the permissions that roles give.
        post_migrate.connect(_sync_roles, dispatch_uid="accounts.sync_roles")
        user_logged_in.connect(_copy_preference, dispatch_uid="accounts.copy_preference")
        _fill_registries()


def _fill_registries() -> None:
    from elevata.accounts import search
    from elevata.accounts.services import users
    from elevata.audit.services.row_seals import SEALED_MODELS
    from elevata.web.search import KINDS

    KINDS.add(*search.KINDS)
    SEALED_MODELS.add(*users.SEALED.items())


def _copy_preference(*, request: HttpRequest, user: Any, **_: Any) -> None:
    from elevata.accounts.services.preferences import copy_to_session

    copy_to_session(request=request, user=user)


def _sync_roles(*, sender: AppConfig, **_: Any) -> None:
    from elevata.accounts.roles import Permission
    from elevata.accounts.services.users import sync_roles

    if any(permission.startswith(f"{sender.label}.") for permission in Permission):
        sync_roles(app_label=sender.label)
