"""Pages about what should exist."""

from django.urls import path

from metadata.views import changes, columns, datasets, editing, generation, schemas, sources, verbs

urlpatterns = [
    path("datasets/new/", editing.dataset_create, name="dataset_create"),
    path("datasets/<uuid:key>/", datasets.dataset_page, name="dataset_page"),
    path("datasets/<uuid:key>/lineage/", datasets.dataset_lineage, name="dataset_lineage"),
    path("datasets/<uuid:key>/changes/", changes.dataset_changes, name="dataset_changes"),
    path("datasets/<uuid:key>/edit/", editing.dataset_edit, name="dataset_edit"),
    path("datasets/<uuid:key>/rename/", verbs.dataset_verb, {"verb": verbs.RENAME}, name="dataset_rename"),
    path("datasets/<uuid:key>/rename/touches/", verbs.dataset_depends, name="dataset_depends"),
    path("datasets/<uuid:key>/retire/", verbs.dataset_verb, {"verb": verbs.RETIRE}, name="dataset_retire"),
    path("datasets/<uuid:key>/restore/", verbs.dataset_verb, {"verb": verbs.RESTORE}, name="dataset_restore"),
    path("datasets/<uuid:key>/delete/", verbs.dataset_verb, {"verb": verbs.DELETE}, name="dataset_delete"),
    path("datasets/<uuid:key>/columns/new/", columns.column_create, name="column_create"),
    path("datasets/<uuid:key>/columns/paste/", columns.columns_paste, name="columns_paste"),
    path("columns/<uuid:key>/edit/", columns.column_edit, name="column_edit"),
    path("columns/<uuid:key>/cell/", columns.column_cell, name="column_cell"),
    path("columns/<uuid:key>/move/", columns.column_move, name="column_move"),
    path("columns/<uuid:key>/rename/", verbs.column_verb, {"verb": verbs.RENAME}, name="column_rename"),
    path("columns/<uuid:key>/rename/touches/", verbs.column_depends, name="column_depends"),
    path("columns/<uuid:key>/retire/", verbs.column_verb, {"verb": verbs.RETIRE}, name="column_retire"),
    path("columns/<uuid:key>/restore/", verbs.column_verb, {"verb": verbs.RESTORE}, name="column_restore"),
    path("columns/<uuid:key>/delete/", verbs.column_verb, {"verb": verbs.DELETE}, name="column_delete"),
    path("schemas/", schemas.schema_list, name="schema_list"),
    path("schemas/new/", schemas.schema_create, name="schema_create"),
    path("schemas/<str:name>/edit/", schemas.schema_edit, name="schema_edit"),
    path("sources/", sources.source_list, name="source_list"),
    path("sources/<uuid:key>/", sources.source_page, name="source_page"),
    path("sources/<uuid:key>/generate/", generation.source_generate, name="source_generate"),
]
