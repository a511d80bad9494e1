from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "elevata.notifications"

    def ready(self) -> None:
        from elevata.audit.services.row_seals import SEALED_MODELS
        from elevata.jobs.registry import HANDLERS
        from elevata.notifications import deliveries, search, services
        from elevata.web.search import KINDS

        HANDLERS.add(*deliveries.HANDLERS)
        KINDS.add(*search.KINDS)
        SEALED_MODELS.add(*services.SEALED.items())
