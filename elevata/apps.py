from django.apps import AppConfig


class ElevataConfig(AppConfig):
    name = "elevata"

    def ready(self) -> None:
        # Whoever sends a message must know the broker, not only the worker.
        from elevata import celery  # noqa: F401
