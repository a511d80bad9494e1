import logging

from django.apps import AppConfig
from django.conf import settings

log = logging.getLogger(__name__)


class ElevataConfig(AppConfig):
    name = "elevata"

    def ready(self) -> None:
        # Whoever sends a message must know the broker, not only the worker.
        import elevata.celery
        import elevata.ops.checks  # noqa: F401
        from elevata.accounts.command_user import acting_for
        from elevata.core import cli

        cli.people_are_known_by(acting_for)
        for said in settings.MENDED_FILES:
            log.warning(said)
