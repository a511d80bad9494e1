"""Environment of this installation, and environments by name."""

from django.conf import settings

from architecture.models import Environment
from architecture.selectors.environments import environment_named


def current_environment() -> Environment:
    """Return the configured environment's row, after updating its warehouse from the settings."""
    environment, created = Environment.objects.get_or_create(
        name=settings.ENVIRONMENT, defaults={"warehouse": settings.WAREHOUSE}
    )
    if not created and environment.warehouse != settings.WAREHOUSE:
        environment.warehouse = settings.WAREHOUSE
        environment.save(update_fields=["warehouse"])
    return environment


def environment_or_own(name: str | None) -> Environment:
    """Return the environment with this name; without a name, the installation's own.

    Raise Refused UNKNOWN_ENVIRONMENT if there is none.
    """
    own = not name or name == settings.ENVIRONMENT
    return current_environment() if own else environment_named(name or "")
