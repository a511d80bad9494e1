"""Pages and forms of datasets and schemas."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.urls import reverse

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.comments.views import comments_panel
from elevata.lists.columns import Column
from elevata.web.forms import EditForm
from elevata.web.list_pages import ListPage
from elevata.web.views import CreatePage, DetailPage, EditPage
from metadata.domain.history.history_columns import time_type
from metadata.domain.history.history_facts import history_facts, load_facts
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.filtersets import SchemaFilter
from metadata.forms.datasets import (
    CloneForm,
    DatasetForm,
    HistoryForm,
    NewDatasetForm,
    NewSchemaForm,
    NoHistoryDatasetForm,
    RawDatasetForm,
    SchemaForm,
)
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.permissions import may_change
from metadata.selectors.columns import details, may_refer, retired_columns, shown_columns, stable_keys
from metadata.selectors.copies import copies_of
from metadata.selectors.dataset_lineage import LineageNode, lineage
from metadata.selectors.datasets import schemas
from metadata.selectors.lineage import exposures_of, layer_of, of_lineage
from metadata.services.datasets.cloning import clone_dataset
from metadata.services.datasets.targets import (
    create_schema,
    create_target_dataset,
    update_schema,
    update_target_dataset,
)
from metadata.views.base import BaseDatasetPage, DatasetPage, Editing, page_of
from metadata.views.columns import panel_context


class DatasetDetail(DetailPage):
    """Page of a dataset: columns, references and descriptions."""

    name, template_name = "dataset", "metadata/dataset_columns.html"

    def rows(self) -> QuerySet[TargetDataset]:
        return details()

    def context(self) -> dict[str, Any]:
        dataset, described = self.row, self.row.history_of or self.row
        may_edit, is_base = may_change(self.request.user, dataset), dataset.history_of_id is None
        if may_edit and is_base:
            columns = panel_context(dataset)
        else:
            aside = [c for c in described.columns.all() if c.active and c.role == TargetColumn.Role.TECHNICAL]
            columns = {"columns": shown_columns(dataset), "aside": aside, "retired": retired_columns(dataset)}
        return columns | {
            "dataset": dataset,
            "may_edit": may_edit,
            "references": sorted(described.references.all(), key=lambda reference: not reference.active),
            "may_retire": may_edit and is_base,
            "may_refer": may_edit and may_refer(dataset),
            "referenced_by": [reference for reference in described.referenced_by.all() if reference.active],
            "history_facts": _history_facts(described),
            "changed_at": max(row.updated_at for row in (dataset, *described.columns.all())),
        }


def _history_facts(dataset: TargetDataset) -> tuple[tuple[str, str], ...]:
    """Return the facts of a rawcore table's loads and of its history, for its own page and its history's."""
    if dataset.schema.layer != TargetSchema.Layer.RAWCORE or dataset.materialization != "table":
        return ()
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    types = {column.name: str(column.type) for column in dataset.columns.all()}
    facts = load_facts(policy, historize=dataset.historize)
    return (*facts, *(history_facts(dataset.name, policy, time_type(policy, types)) if dataset.historize else ()))


class DatasetLineage(DatasetPage, DetailPage):
    """A dataset's lineage, as a graph and as lists."""

    template_name = "metadata/dataset_lineage.html"

    def context(self) -> dict[str, Any]:
        graph = lineage(self.row)
        keys = stable_keys(graph)

        def url_of(node: LineageNode) -> str:
            return reverse("source_page" if node.kind == "source" else "dataset_lineage", args=[keys[node.id]])

        copies = copies_of(graph)
        flowing = graph.flowing
        others = [(node, url_of(node), layer_of(node)) for node in graph.nodes if node.distance != 0]
        return super().context() | {
            "graph": of_lineage(graph, url_of, exposures_of(graph), copies),
            "upstream": [item for item in others if item[0].distance < 0 and item[0].id in flowing],
            "downstream": [item for item in others if item[0].distance > 0 and item[0].id in flowing],
            "copies": copies,
            "referring": [item for item in others if item[0].id not in flowing],
        }


class DatasetEdit(Editing, DatasetPage, EditPage):
    """Edit a dataset, except its name and its history policy."""

    template_name, service = "metadata/dataset_form.html", staticmethod(update_target_dataset)
    message = "The dataset is saved."

    @property
    def form_class(self) -> type[EditForm]:  # type: ignore[override]  # it depends on the dataset
        if self.row.history_of_id:
            return HistoryForm
        forms: dict[str, type[EditForm]] = {
            TargetSchema.Layer.RAWCORE: DatasetForm,
            TargetSchema.Layer.RAW: RawDatasetForm,
        }
        return forms.get(self.row.schema.layer, NoHistoryDatasetForm)


class DatasetCreate(Editing, CreatePage):
    """Create a dataset that is not generated."""

    form_class, service, page = NewDatasetForm, staticmethod(create_target_dataset), "dataset_page"
    template_name = "metadata/dataset_form.html"
    message = "{row} created. The next load creates its table."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"initial": {"schema": self.request.GET.get("schema", "")}}

    def context(self) -> dict[str, Any]:
        return {"back": reverse("dataset_list"), "any_schema": TargetSchema.objects.exists()}


class DatasetClone(Editing, CreatePage, BaseDatasetPage):
    """Copy a dataset under a new name."""

    form_class, template_name = CloneForm, "metadata/dataset_part_form.html"
    message = "{row} created. The next load creates its table."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"initial": {"schema": self.row.schema, "name": f"{self.row.name}_copy"}}

    def context(self) -> dict[str, Any]:
        lead = (
            "Copies columns, inputs, expressions and checks, under keys of their own. "
            "References, exposures and a contract are not copied."
        )
        title = f"Clone {self.row.name}"
        return super().context() | {"title": title, "lead": lead, "button": "Clone", "back": page_of(self.row)}

    def save(self, form: CloneForm) -> TargetDataset:
        return clone_dataset(dataset=self.row, **form.given())


class SchemaList(ListPage):
    """All schemas, in the order of the layers."""

    filterset, template_name = SchemaFilter, "metadata/schema_list.html"
    # One page: a saved schema is shown by its line.
    per_page = 1000
    columns: ClassVar = (
        Column("Schema", {"schema": "name"}, sort="name"),
        Column("Layer", {"layer": "layer"}, sort="layer"),
        Column("Datasets", {"datasets": "dataset_count"}, sort="datasets", descends=True, kind="num"),
        Column("Owner", {"owner": "owner"}, sort="owner"),
        Column("Tags", {"tags": lambda row: ", ".join(row.tags)}),
        Column("Description", {"description": "description"}, sort="description"),
    )

    def listed(self) -> QuerySet[TargetSchema]:
        return schemas()

    def context(self) -> dict[str, Any]:
        return super().context() | {"may_edit": may(self.request.user, Permission.CHANGE_METADATA)}


class SchemaPage(Editing):
    """Base of the forms of a schema; they return to the list."""

    template_name = "metadata/schema_form.html"

    def address(self, row: Any = None) -> str:
        return reverse("schema_list") + (f"#schema-{row.name}" if row is not None else "")

    def context(self) -> dict[str, Any]:
        return super().context() | {"back": self.address()}


class SchemaCreate(SchemaPage, CreatePage):
    """Create a schema."""

    form_class, service = NewSchemaForm, staticmethod(create_schema)
    message = "Schema {row.name} is created."


class SchemaEdit(SchemaPage, EditPage):
    """Edit a schema."""

    model, name, by = TargetSchema, "schema", "name"
    form_class, service = SchemaForm, staticmethod(update_schema)
    message = "Schema {row.name} is saved."


class DatasetComments(DatasetPage, DetailPage):
    """The newest comments on a dataset, and the form of a new one."""

    template_name = "metadata/dataset_comments.html"

    def context(self) -> dict[str, Any]:
        return super().context() | comments_panel(self.request.user, "dataset", self.row.key)
