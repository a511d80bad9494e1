"""Metadata of the generated control database, written by the product's services, and edits in the change log."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.db import transaction

from bench.web.size import Size
from elevata.accounts.actors import acting_as
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.core.canonical_json import canonical_json
from metadata.domain.types import parse
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.generation import ensure_schema
from metadata.services.datasets.generation_preview import import_and_generate
from metadata.services.datasets.targets import create_target_column, create_target_dataset
from metadata.services.exposures import create_exposure
from metadata.services.references import create_reference
from metadata.services.source_contracts import ImportedColumn
from metadata.services.sources import create_system

THINGS = ("account", "customer", "order", "invoice", "product", "price", "supplier", "shipment", "contract", "ticket")
SYSTEMS = ("crm", "erp", "shop", "fin", "hr", "log", "mes", "web", "iot", "bil", "sup", "mkt")
ATTRIBUTES = {
    "name": "string(200)",
    "status": "string(20)",
    "created_on": "date",
    "changed_at": "timestamp",
    "amount": "decimal(14,2)",
    "quantity": "integer",
    "is_active": "boolean",
    "remark": "string",
    "counter": "bigint",
    "ratio": "float",
}
_EDITS = 1000
# Every so many datasets refer to the first one, as most refer to a calendar or a country.
_TO_THE_HUB = 3
_FED_BY = 3


def describe(size: Size, person: Any, report_progress: Callable[[str], None]) -> list[TargetDataset]:
    """Write systems, sources, generated targets, references and marts; return rawcore, whose first one is the hub."""
    with acting_as(person):
        shorts = SYSTEMS[: max(1, min(len(SYSTEMS), size.sources // 3))]
        systems = [
            create_system(name=f"{short} system", short_name=short, location=f"{{{{ data_dir }}}}/landing/{short}")
            for short in shorts
        ]
        for number in range(size.sources):
            import_and_generate(system=systems[number % len(systems)], **_source(number, size.columns))
        report_progress("sources and their targets")
        rows = TargetDataset.objects.filter(schema__layer="rawcore", history_of=None).order_by("generated_from_id")
        rawcore = list(rows.select_related("schema", "generated_from__system"))
        for number, child in enumerate(rawcore):
            for parent in (rawcore[parent] for parent in parents(number)):
                key = parent.columns.get(key_ordinal=1)
                create_reference(child=child, parent=parent, pairs=[(child.columns.get(name=key.name), key)])
        report_progress("references")
        serving = size.marts // 2
        bizcore = _marts(ensure_schema("bizcore"), rawcore, size.marts - serving, size.columns)
        for dataset in _marts(ensure_schema("serving"), bizcore, serving, size.columns):
            link = f"https://bi.example.org/{dataset.name}"
            create_exposure(dataset=dataset, name=dataset.name, kind="dashboard", owner="finance", link=link)
        report_progress("marts")
    return rawcore


def parents(number: int) -> tuple[int, ...]:
    """Return the datasets that one refers to: the previous one in its group, and sometimes the hub."""
    near = (number - 1,) if number % 6 > 1 else ()
    hub = (0,) if number > 1 and number % _TO_THE_HUB == 1 and 0 not in near else ()
    return near + hub


def thing(number: int) -> str:
    round_, place = divmod(number, len(THINGS))
    return THINGS[place] + (f"_{round_}" if round_ else "")


def _source(number: int, columns: int) -> dict[str, Any]:
    """Return a source with its columns: key, references, attributes."""
    name, keys = thing(number), [f"{thing(other)}_id" for other in (number, *parents(number))]
    described = [(key, "string(20)") for key in keys]
    attributes = list(ATTRIBUTES.items())
    for place in range(columns - len(described)):
        round_, rest = divmod(place, len(attributes))
        attribute, type_ = attributes[rest]
        described.append((f"{attribute}_{round_ + 1}" if round_ else attribute, type_))
    return {
        "name": name,
        "location": f"{name}.parquet",
        "format": "parquet" if number % 4 else "csv",
        "description": f"Every {name.replace('_', ' ')} as its system delivers it.",
        "owner": ("sales", "finance", "logistics", "")[number % 4],
        "columns": [
            ImportedColumn(
                column,
                parse(type_),
                key_ordinal=None if ordinal else 1,
                pii=column == "name" and number % 5 == 0,
                description=f"{column.replace('_', ' ').capitalize()}." if ordinal % 3 == 0 else "",
            )
            for ordinal, (column, type_) in enumerate(described)
        ],
    }


def _marts(schema: TargetSchema, below: list[TargetDataset], count: int, columns: int) -> list[TargetDataset]:
    """Write models, as views, over some datasets of the layer below; those of serving are contracts."""
    names = {row.pk: list(row.columns.order_by("ordinal").values_list("name", flat=True)) for row in below}
    marts = []
    for number in range(count):
        fed = list(dict.fromkeys(below[(number * _FED_BY + step * 2) % len(below)] for step in range(_FED_BY)))
        read = [(f"d{place}", names[row.pk]) for place, row in enumerate(fed)]
        values = []
        for place in range(columns):
            alias, known = read[place % len(read)]
            column = known[place // len(read) % len(known)]
            values.append(f"{alias}.{column} AS {column[:60]}_{place + 1}")
        joins = [
            f"LEFT JOIN {row} AS d{place} ON d{place}.{names[row.pk][0]} = d0.{names[fed[0].pk][0]}"
            for place, row in enumerate(fed)
            if place
        ]
        select = "\n".join((f"SELECT {', '.join(values)}", f"FROM {fed[0]} AS d0", *joins))
        mart = create_target_dataset(
            schema=schema,
            name=f"{schema.layer[:3]}_{thing(number)}",
            select=select,
            materialization="view",
            description=f"{thing(number).replace('_', ' ')} for reports",
            owner="finance",
            contract=schema.layer == "serving",
        )
        marts.append(mart)
    return marts


def add_columns(keys: Iterable[str], person: Any) -> None:
    """Add a column to datasets, which is then pending."""
    with acting_as(person):
        for dataset in TargetDataset.objects.filter(key__in=list(keys)).select_related("schema").order_by("pk"):
            create_target_column(dataset=dataset, name="since_added", type="string(10)", inputs=[])


def log_edits(datasets: list[TargetDataset], people: list[Any], size: Size, *, now: datetime) -> None:
    """Write chained entries of two years about edits of columns by several users."""
    random = Random(size.seed + 1)
    columns = list(TargetColumn.objects.filter(dataset__in=datasets).select_related("dataset__schema").order_by("pk"))
    step = timedelta(days=728) / max(1, size.edits)
    entries = (
        _edit(random.choice(columns), random.choice(people), random, now - timedelta(days=729) + number * step)
        for number in range(size.edits)
    )
    batch: list[ChangeLogEntry] = []
    for number, entry in enumerate(entries, 1):
        batch.append(entry)
        if number % _EDITS == 0 or number == size.edits:
            with transaction.atomic():
                chain.append(*ChangeLogEntry.objects.bulk_create(batch))
            batch.clear()


def _edit(column: TargetColumn, person: Any, random: Random, at: datetime) -> ChangeLogEntry:
    message = f"{column.name.replace('_', ' ')}, as the source's team describes it ({random.randrange(1000)})"
    changes = random.choice((
        {"description": {"before": column.description or "unclear", "after": message}},
        {"name": {"before": f"{column.name}_old", "after": column.name}},
        {"nullable": {"before": True, "after": False}},
    ))  # fmt: skip
    return ChangeLogEntry(
        at=at,
        actor=person.get_username(),
        actor_kind=ChangeLogEntry.ActorKind.PERSON,
        user_id=person.pk,
        action="renamed" if "name" in changes else "changed",
        subject_kind="column",
        subject_key=str(column.key),
        subject_name=str(column),
        dataset_key=column.dataset.key,
        changes=canonical_json(changes).decode(),
        reason=random.choice(("", "asked for by the business", "the source changed")),
    )
