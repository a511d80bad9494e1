"""OpenLineage events of an exported lineage of columns: a job without runs for each dataset."""

import json
from datetime import datetime

from django.conf import settings
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    set_producer,
)
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    schema_dataset,
)

from loader.openlineage import PRODUCT, event_json, name_of_source
from metadata.domain import column_lineage as lineages
from metadata.domain.column_lineage import ColumnLineage, ColumnNode
from metadata.models import SourceDataset


def lineage_events(lineage: ColumnLineage, *, environment: str, at: datetime) -> list[dict]:
    """Return a job for each target dataset of a lineage, with the columns of the lineage and the columns they read."""
    set_producer(settings.PUBLIC_URL or f"urn:{PRODUCT}")
    namespace = f"{PRODUCT}.{environment}"
    columns: dict[str, list[ColumnNode]] = {}
    for node in lineage.nodes:
        columns.setdefault(node.dataset_id, []).append(node)
    names = {dataset: (namespace, group[0].dataset) for dataset, group in columns.items()}
    keys = {group[0].dataset_key: dataset for dataset, group in columns.items() if group[0].kind == lineages.SOURCE}
    for source in SourceDataset.objects.filter(key__among=list(keys)).select_related("system"):
        names[keys[str(source.key)]] = name_of_source(source)
    jobs = (group for group in columns.values() if group[0].kind != lineages.SOURCE)
    return [json.loads(event_json(_job_of(group, lineage, names, at))) for group in jobs]


def _job_of(
    columns: list[ColumnNode], lineage: ColumnLineage, names: dict[str, tuple[str, str]], at: datetime
) -> JobEvent:
    reads = {node.id: lineage.reads.get(node.id, []) for node in columns}
    inputs = dict.fromkeys(names[each.dataset_id] for read in reads.values() for each in read)
    fields = {
        node.name: column_lineage_dataset.Fields([_field_of(each, node, names) for each in reads[node.id]])
        for node in columns
        if reads[node.id]
    }
    facets = {
        "schema": schema_dataset.SchemaDatasetFacet(
            [schema_dataset.SchemaDatasetFacetFields(node.name, node.type) for node in columns]
        ),
        "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields),
    }
    own = names[columns[0].dataset_id]
    return JobEvent(
        eventTime=at.isoformat(),
        job=Job(*own),
        inputs=[InputDataset(*name) for name in inputs],
        outputs=[OutputDataset(*own, facets=facets)],
    )


def _field_of(
    read: ColumnNode, node: ColumnNode, names: dict[str, tuple[str, str]]
) -> column_lineage_dataset.InputField:
    kind = "TRANSFORMATION" if node.expression else "IDENTITY"
    made = column_lineage_dataset.Transformation("DIRECT", kind, node.expression or None)
    return column_lineage_dataset.InputField(*names[read.dataset_id], read.name, transformations=[made])
