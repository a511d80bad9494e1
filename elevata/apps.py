import logging

from django.apps import AppConfig
from django.conf import settings

log = logging.getLogger(__name__)


class ElevataConfig(AppConfig):
    name = "elevata"

    def ready(self) -> None:
        # Whoever sends a message must know the broker, not only the worker.
        import elevata.celery
        import elevata.checks  # noqa: F401
        from elevata import cli
        from elevata.people import acting_for

        cli.people_are_known_by(acting_for)
        for said in settings.MENDED_FILES:
            log.warning(said)
