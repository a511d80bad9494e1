from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate


class AuditConfig(AppConfig):
    name = "elevata.audit"

    def ready(self) -> None:
        post_migrate.connect(_create_triggers, dispatch_uid="audit.create_triggers")


def _create_triggers(*, sender: AppConfig, using: str, **_: Any) -> None:
    """Create the triggers of an app's append-only tables after its migration."""
    from elevata.audit.append_only import guard, guarded_models

    guard(connections[using], [model for model in guarded_models() if model._meta.app_label == sender.label])
