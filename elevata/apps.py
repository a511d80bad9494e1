import logging

from django.apps import AppConfig
from django.conf import settings

log = logging.getLogger(__name__)


class ElevataConfig(AppConfig):
    name = "elevata"

    def ready(self) -> None:
        # Every process that sends messages needs the broker's settings, not only the worker.
        import elevata.celery
        import elevata.ops.checks  # noqa: F401
        from elevata.help_pages import SEARCHED
        from elevata.web.search import KINDS

        KINDS.add(SEARCHED)
        for message in settings.MENDED_FILES:
            log.warning(message)
