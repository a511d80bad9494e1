"""Pages about what should exist."""

from django.urls import path

from metadata.views import datasets, sources

urlpatterns = [
    path("datasets/<uuid:key>/", datasets.dataset_page, name="dataset_page"),
    path("datasets/<uuid:key>/lineage/", datasets.dataset_lineage, name="dataset_lineage"),
    path("sources/", sources.source_list, name="source_list"),
    path("sources/<uuid:key>/", sources.source_page, name="source_page"),
]
