"""Environment of this installation."""

from django.conf import settings

from architecture.models import Environment


def current_environment() -> Environment:
    """The configured environment's row; its warehouse follows the settings."""
    environment, created = Environment.objects.get_or_create(
        name=settings.ENVIRONMENT, defaults={"warehouse": settings.WAREHOUSE}
    )
    if not created and environment.warehouse != settings.WAREHOUSE:
        environment.warehouse = settings.WAREHOUSE
        environment.save(update_fields=["warehouse"])
    return environment
