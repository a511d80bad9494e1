from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models import Field
from django.db.models.signals import post_migrate

from elevata.core.lookups import Among


class MetadataConfig(AppConfig):
    name = "metadata"

    def ready(self) -> None:
        Field.register_lookup(Among)
        # After Django's own handlers, which make the permissions that roles give.
        post_migrate.connect(_after_migration, dispatch_uid="metadata.after_migration")


def _after_migration(*, sender: AppConfig, using: str, **_: Any) -> None:
    """Create the triggers of append-only tables and the roles after a migration."""
    from metadata.append_only import guard, guarded_models
    from metadata.domain.roles import Permission
    from metadata.services.people import sync_roles

    guard(connections[using], [model for model in guarded_models() if model._meta.app_label == sender.label])
    if any(permission.startswith(f"{sender.label}.") for permission in Permission):
        sync_roles(app_label=sender.label)
