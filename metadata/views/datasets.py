"""A dataset's page: its columns and its lineage. SQL, history and runs are the loader's to show."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from metadata.computed_fields import details, headed, may_refer, retired_columns, shown_columns, stable_keys
from metadata.domain.history_columns import time_type
from metadata.domain.history_policy import HistoryPolicy
from metadata.graph import layer_of, of_lineage
from metadata.history_words import history_facts
from metadata.models import TargetColumn, TargetDataset
from metadata.row_places import may_change
from metadata.selectors import LineageNode, lineage
from metadata.views.columns import panel_context


@require_safe
def dataset_page(request: HttpRequest, key: UUID) -> HttpResponse:
    """Columns, references and what is described about them."""
    dataset = get_object_or_404(details(), key=key)
    described = dataset.history_of or dataset
    may_edit = may_change(request.user, dataset)
    if may_edit and dataset.history_of_id is None:
        columns = panel_context(dataset)
    else:
        aside = [c for c in described.columns.all() if c.active and c.role == TargetColumn.Role.TECHNICAL]
        columns = {"columns": shown_columns(dataset), "aside": aside, "retired": retired_columns(dataset)}
    context = columns | {
        "dataset": dataset,
        "may_edit": may_edit,
        "references": sorted(described.references.all(), key=lambda one: not one.active),
        "may_retire": may_edit and dataset.history_of_id is None,
        "may_refer": may_edit and may_refer(dataset),
        "referenced_by": [one for one in described.referenced_by.all() if one.active],
        "history_facts": _history_facts(described),
    }
    return render(request, "metadata/dataset_columns.html", context)


def _history_facts(dataset: TargetDataset) -> tuple[tuple[str, str], ...]:
    """Return the facts of a history, for its own page and its base's."""
    if not dataset.historize:
        return ()
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    types = {column.name: str(column.type) for column in dataset.columns.all()}
    return history_facts(dataset.name, policy, time_type(policy, types))


@require_safe
def dataset_lineage(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show a dataset's lineage, as a graph and as lists."""
    dataset = get_object_or_404(headed(), key=key)
    found = lineage(dataset)
    keys = stable_keys(found)

    def url_of(node: LineageNode) -> str:
        return reverse("source_page" if node.kind == "source" else "dataset_lineage", args=[keys[node.id]])

    flowing = {end for edge in found.edges if edge.kind != "reference" for end in (edge.start, edge.end)}
    others = [(node, url_of(node), layer_of(node)) for node in found.nodes if node.distance != 0]
    context = {
        "dataset": dataset,
        "graph": of_lineage(found, url_of),
        "upstream": [item for item in others if item[0].distance < 0 and item[0].id in flowing],
        "downstream": [item for item in others if item[0].distance > 0 and item[0].id in flowing],
        "referring": [item for item in others if item[0].id not in flowing],
    }
    return render(request, "metadata/dataset_lineage.html", context)
