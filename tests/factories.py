"""Factories of metadata rows with defaults; a test sets the values that it is about."""

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from elevata.comments.models import Comment
from elevata.notifications.models import Delivery, Event, Notice, Webhook
from elevata.notifications.webhook_requests import MAX_ATTEMPTS
from metadata.domain import stable_keys
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)


class SystemFactory(DjangoModelFactory):
    class Meta:
        model = System
        django_get_or_create = ("short_name",)

    short_name = factory.Sequence(lambda n: f"sys{n}")
    name = factory.LazyAttribute(lambda row: f"System {row.short_name}")
    location = factory.LazyAttribute(lambda row: f"{{{{ data_dir }}}}/landing/{row.short_name}")


class SourceDatasetFactory(DjangoModelFactory):
    class Meta:
        model = SourceDataset

    system = factory.SubFactory(SystemFactory)
    name = factory.Sequence(lambda n: f"dataset{n}")
    short_name = factory.SelfAttribute("name")
    key = factory.LazyAttribute(lambda row: stable_keys.source_dataset_key(row.system.short_name, row.name))
    location = factory.LazyAttribute(lambda row: f"{row.name}.csv")


class SourceColumnFactory(DjangoModelFactory):
    class Meta:
        model = SourceColumn

    dataset = factory.SubFactory(SourceDatasetFactory)
    name = factory.Sequence(lambda n: f"column{n}")
    key = factory.LazyAttribute(lambda row: stable_keys.source_column_key(row.dataset.key, row.name))
    ordinal = factory.Sequence(lambda n: n + 1)
    data_type = "string"


class TargetSchemaFactory(DjangoModelFactory):
    class Meta:
        model = TargetSchema
        django_get_or_create = ("name",)

    name = "rawcore"
    layer = factory.SelfAttribute("name")
    ordinal = factory.LazyAttribute(lambda row: [value for value, _ in TargetSchema.Layer.choices].index(row.layer) + 1)


class TargetDatasetFactory(DjangoModelFactory):
    class Meta:
        model = TargetDataset

    schema = factory.SubFactory(TargetSchemaFactory)
    name = factory.Sequence(lambda n: f"rc_test_{n}")
    key = factory.LazyAttribute(lambda row: stable_keys.target_dataset_key(row.schema.name, row.name))


class TargetColumnFactory(DjangoModelFactory):
    class Meta:
        model = TargetColumn

    dataset = factory.SubFactory(TargetDatasetFactory)
    name = factory.Sequence(lambda n: f"column{n}")
    key = factory.LazyAttribute(lambda row: stable_keys.target_column_key(row.dataset.key, row.name))
    ordinal = factory.Sequence(lambda n: n + 1)
    data_type = "string"
    role = factory.LazyAttribute(lambda row: "business_key" if row.key_ordinal else "attribute")
    key_ordinal = None


class DatasetInputFactory(DjangoModelFactory):
    """Input of a dataset; requires ``source`` or ``upstream``."""

    class Meta:
        model = DatasetInput

    dataset = factory.SubFactory(TargetDatasetFactory)


class ColumnInputFactory(DjangoModelFactory):
    """Input of a column; requires ``dataset_input``, and ``source_column`` or ``upstream_column``."""

    class Meta:
        model = ColumnInput

    column = factory.SubFactory(TargetColumnFactory)


class ReferenceFactory(DjangoModelFactory):
    class Meta:
        model = Reference

    child = factory.SubFactory(TargetDatasetFactory)
    parent = factory.SubFactory(TargetDatasetFactory)
    key = factory.LazyAttribute(lambda row: stable_keys.reference_key(row.child.key, row.parent.key, row.role_name))
    role_name = ""


class ReferencePairFactory(DjangoModelFactory):
    """Pair of columns of a reference; requires ``child_column`` and ``parent_column``."""

    class Meta:
        model = ReferencePair

    reference = factory.SubFactory(ReferenceFactory)


def airport_source(**columns: dict) -> SourceDataset:
    """Create the source dataset of most tests: ``air.airport`` with icao (key), name and elevation."""
    dataset = SourceDatasetFactory(system__short_name="air", name="airport")
    described = columns or {
        "icao": {"key_ordinal": 1},
        "name": {},
        "elevation": {"data_type": "float"},
    }
    for ordinal, (name, values) in enumerate(described.items(), start=1):
        SourceColumnFactory(dataset=dataset, name=name, ordinal=ordinal, **values)
    return dataset


class EventFactory(DjangoModelFactory):
    class Meta:
        model = Event

    kind = "load.failed"
    environment = "dev"
    subject_kind = "load run"
    subject_key = factory.Sequence(lambda n: f"run-{n}")
    subject_name = factory.SelfAttribute("subject_key")
    title = factory.LazyAttribute(lambda row: f"Load run {row.subject_key} failed")
    link = factory.LazyAttribute(lambda row: f"/load-runs/{row.subject_key}/")


class NoticeFactory(DjangoModelFactory):
    """Notice of a user, which must be given."""

    class Meta:
        model = Notice

    event = factory.SubFactory(EventFactory)


class CommentFactory(DjangoModelFactory):
    """Comment on the dataset ``subject_key`` by ``author``, which must be given."""

    class Meta:
        model = Comment

    subject_kind = "dataset"
    text = "Looks good"


class WebhookFactory(DjangoModelFactory):
    class Meta:
        model = Webhook

    name = factory.Sequence(lambda n: f"team {n}")
    url = "https://hooks.example.org/services/T0"
    events = factory.LazyFunction(lambda: ["load.failed", "report.waiting"])
    secret = "ELEVATA_WEBHOOK_SECRET_TEAM"


class DeliveryFactory(DjangoModelFactory):
    """Pending delivery to a webhook, due at once."""

    class Meta:
        model = Delivery

    event = factory.SubFactory(EventFactory)
    webhook = factory.SubFactory(WebhookFactory)
    max_attempts = MAX_ATTEMPTS
    not_before = factory.LazyFunction(timezone.now)
