"""Pages about loading and about what was loaded."""

from django.urls import path, register_converter

from loader.converters import RunIdConverter
from loader.views import datasets, history, runs

register_converter(RunIdConverter, "run_id")

urlpatterns = [
    path("datasets/", datasets.dataset_list, name="dataset_list"),
    path("datasets/<uuid:key>/sql/", datasets.dataset_sql, name="dataset_sql"),
    path("datasets/<uuid:key>/runs/", datasets.dataset_runs_page, name="dataset_runs"),
    path("datasets/<uuid:key>/history/", history.dataset_history, name="dataset_history"),
    path("datasets/<uuid:key>/history/as-of/", history.dataset_as_of, name="dataset_as_of"),
    path("datasets/<uuid:key>/history/<str:entity_key>/", history.dataset_versions, name="dataset_versions"),
    path("datasets/<uuid:key>/reads/", history.start_read, name="start_read"),
    path("reads/<int:pk>/", history.read_part, name="read_part"),
    path("load-runs/", runs.run_list, name="run_list"),
    path("start-load/", runs.run_start, name="run_start"),
    path("load-runs/<run_id:run_id>/", runs.run_page, name="run_page"),
    path("load-runs/<run_id:run_id>/live/", runs.run_live, name="run_live"),
    path("load-runs/<run_id:run_id>/cancel/", runs.run_cancel, name="run_cancel"),
    path("load-runs/<run_id:run_id>/again/", runs.run_again, name="run_again"),
]
