"""URLs of metadata pages."""

from django.urls import path

from metadata.views import columns, datasets, lineage, models, quality, row_actions, sources
from metadata.views.changes import DatasetChanges
from metadata.views.row_actions import DELETE, RENAME, RESTORE, RETIRE, ColumnAction, DatasetAction, ReferenceAction

urlpatterns = [
    path("datasets/new/", datasets.DatasetCreate.as_view(), name="dataset_create"),
    path("models/new/", models.ModelCreate.as_view(), name="model_create"),
    path("models/preview/", models.ModelPreview.as_view(), name="model_preview"),
    path("models/builder/", models.ModelBuilder.as_view(), name="model_builder"),
    path("models/<uuid:key>/edit/", models.ModelEdit.as_view(), name="model_edit"),
    path("datasets/<uuid:key>/", datasets.DatasetDetail.as_view(), name="dataset_page"),
    path("datasets/<uuid:key>/lineage/", datasets.DatasetLineage.as_view(), name="dataset_lineage"),
    path("datasets/<uuid:key>/changes/", DatasetChanges.as_view(), name="dataset_changes"),
    path("datasets/<uuid:key>/edit/", datasets.DatasetEdit.as_view(), name="dataset_edit"),
    path("datasets/<uuid:key>/inputs/", lineage.InputsEdit.as_view(), name="dataset_inputs"),
    path("datasets/<uuid:key>/inputs/touches/", lineage.InputsDependents.as_view(), name="inputs_depend"),
    path("datasets/<uuid:key>/rename/", DatasetAction.as_view(verb=RENAME), name="dataset_rename"),
    path("datasets/<uuid:key>/rename/touches/", row_actions.DatasetDependents.as_view(), name="dataset_depends"),
    path("datasets/<uuid:key>/retire/", DatasetAction.as_view(verb=RETIRE), name="dataset_retire"),
    path("datasets/<uuid:key>/restore/", DatasetAction.as_view(verb=RESTORE), name="dataset_restore"),
    path("datasets/<uuid:key>/delete/", DatasetAction.as_view(verb=DELETE), name="dataset_delete"),
    path("datasets/<uuid:key>/columns/new/", columns.ColumnCreate.as_view(), name="column_create"),
    path("datasets/<uuid:key>/columns/paste/", columns.columns_paste, name="columns_paste"),
    path("columns/<uuid:key>/edit/", columns.ColumnEdit.as_view(), name="column_edit"),
    path("columns/<uuid:key>/cell/", columns.column_cell, name="column_cell"),
    path("columns/<uuid:key>/move/", columns.column_move, name="column_move"),
    path("columns/<uuid:key>/rename/", ColumnAction.as_view(verb=RENAME), name="column_rename"),
    path("columns/<uuid:key>/rename/touches/", row_actions.ColumnDependents.as_view(), name="column_depends"),
    path("columns/<uuid:key>/retire/", ColumnAction.as_view(verb=RETIRE), name="column_retire"),
    path("columns/<uuid:key>/restore/", ColumnAction.as_view(verb=RESTORE), name="column_restore"),
    path("columns/<uuid:key>/delete/", ColumnAction.as_view(verb=DELETE), name="column_delete"),
    path("datasets/<uuid:key>/references/new/", lineage.ReferenceCreate.as_view(), name="reference_create"),
    path("datasets/<uuid:key>/references/pairs/", lineage.ReferencePairs.as_view(), name="reference_pairs"),
    path("references/<uuid:key>/edit/", lineage.ReferenceEdit.as_view(), name="reference_edit"),
    path("references/<uuid:key>/retire/", ReferenceAction.as_view(verb=RETIRE), name="reference_retire"),
    path("references/<uuid:key>/restore/", ReferenceAction.as_view(verb=RESTORE), name="reference_restore"),
    path("datasets/<uuid:key>/checks/new/", quality.CheckCreate.as_view(), name="check_create"),
    path("checks/<uuid:key>/edit/", quality.CheckEdit.as_view(), name="check_edit"),
    path("checks/<uuid:key>/retire/", quality.CheckAction.as_view(verb=RETIRE), name="check_retire"),
    path("checks/<uuid:key>/restore/", quality.CheckAction.as_view(verb=RESTORE), name="check_restore"),
    path("checks/<uuid:key>/delete/", quality.CheckAction.as_view(verb=DELETE), name="check_delete"),
    path("schemas/", datasets.SchemaList.as_view(), name="schema_list"),
    path("schemas/new/", datasets.SchemaCreate.as_view(), name="schema_create"),
    path("schemas/<str:name>/edit/", datasets.SchemaEdit.as_view(), name="schema_edit"),
    path("sources/", sources.SourceList.as_view(), name="source_list"),
    path("sources/<uuid:key>/generate/", sources.SourceGenerate.as_view(), name="source_generate"),
]
