from django.apps import AppConfig
from django.db.models import Field

from elevata.core.database import Among, Resembles


class MetadataConfig(AppConfig):
    name = "metadata"

    def ready(self) -> None:
        Field.register_lookup(Among)
        Field.register_lookup(Resembles)
