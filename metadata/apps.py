from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models import Field

from elevata.core.lookups import Among, Resembles, add_functions


class MetadataConfig(AppConfig):
    name = "metadata"

    def ready(self) -> None:
        Field.register_lookup(Among)
        Field.register_lookup(Resembles)
        connection_created.connect(add_functions)
        _fill_registries()


def _fill_registries() -> None:
    from elevata.accounts.places import SCHEMA_NAMES
    from elevata.audit.services.row_seals import SEALED_MODELS
    from elevata.web.search import KINDS
    from elevata.web.subjects import FINDERS, Finder
    from metadata.selectors import search, subjects
    from metadata.selectors.datasets import schema_names
    from metadata.services.rows.subjects import SEALED

    FINDERS.add(Finder("dataset", subjects.dataset_subject, comments=True), Finder("source", subjects.source_subject))
    KINDS.add(*search.KINDS)
    SCHEMA_NAMES.provide(schema_names)
    SEALED_MODELS.add(*SEALED.items())
