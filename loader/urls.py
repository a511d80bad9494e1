"""URL patterns of pages about loading and loaded data."""

from django.urls import path, register_converter

from loader.converters import RunIdConverter
from loader.views.maintenance import maintenance, records
from loader.views.queries import data, datasets, history, policies, refreshes
from loader.views.reports import execution_log, executions, reports
from loader.views.runs import leases, runs, schedules
from loader.views.sources import imports, sources, systems

register_converter(RunIdConverter, "run_id")

urlpatterns = [
    path("register-system/", systems.system_create, name="system_create"),
    path("systems/<str:short_name>/", systems.system_page, name="system_page"),
    path("systems/<str:short_name>/edit/", systems.system_edit, name="system_edit"),
    path("systems/<str:short_name>/test/", systems.system_test, name="system_test"),
    path("systems/<str:short_name>/discover/", systems.system_discover, name="system_discover"),
    path("systems/<str:short_name>/import/", imports.source_import, name="source_import"),
    path("sources/<uuid:key>/columns/", imports.source_columns, name="source_columns"),
    path("sources/<uuid:key>/edit/", sources.source_edit, name="source_edit"),
    path("datasets/", datasets.dataset_list, name="dataset_list"),
    path("datasets/<uuid:key>/sql/", datasets.dataset_sql, name="dataset_sql"),
    path("datasets/<uuid:key>/policy/", policies.dataset_policy, name="dataset_policy"),
    path("datasets/<uuid:key>/runs/", datasets.dataset_runs_page, name="dataset_runs"),
    path("datasets/<uuid:key>/data/", data.dataset_data, name="dataset_data"),
    path("datasets/<uuid:key>/data/changes/", data.dataset_run_changes, name="dataset_run_changes"),
    path("datasets/<uuid:key>/history/", history.dataset_history, name="dataset_history"),
    path("datasets/<uuid:key>/history/as-of/", history.dataset_as_of, name="dataset_as_of"),
    path("datasets/<uuid:key>/history/prune/", maintenance.dataset_prune, name="dataset_prune"),
    path("datasets/<uuid:key>/history/check/", maintenance.dataset_check, name="dataset_check"),
    path("datasets/<uuid:key>/history/<str:entity_key>/", history.dataset_versions, name="dataset_versions"),
    path("datasets/<uuid:key>/reads/", history.start_read, name="start_read"),
    path("reads/<int:pk>/", history.read_part, name="read_part"),
    path("reads/<int:pk>/rows.csv", data.read_file, name="read_file"),
    path("load-runs/", runs.run_list, name="run_list"),
    path("start-load/", runs.run_start, name="run_start"),
    path("load-runs/<run_id:run_id>/", runs.run_page, name="run_page"),
    path("load-runs/<run_id:run_id>/live/", runs.run_live, name="run_live"),
    path("load-runs/<run_id:run_id>/cancel/", runs.run_cancel, name="run_cancel"),
    path("load-runs/<run_id:run_id>/again/", runs.run_again, name="run_again"),
    path("load-runs/<run_id:run_id>/revert/", maintenance.run_revert, name="run_revert"),
    path("load-runs/<run_id:run_id>/records/<uuid:record_id>/", records.run_record, name="run_record"),
    path("schedules/", schedules.schedule_list, name="schedule_list"),
    path("schedules/new/", schedules.schedule_new, name="schedule_new"),
    path("schedules/times/", schedules.schedule_times, name="schedule_times"),
    path("schedules/<uuid:key>/", schedules.schedule_page, name="schedule_page"),
    path("schedules/<uuid:key>/edit/", schedules.schedule_edit, name="schedule_edit"),
    path("schedules/<uuid:key>/delete/", schedules.schedule_delete, name="schedule_delete"),
    path("schedules/<uuid:key>/run/", schedules.schedule_run, name="schedule_run"),
    path("leases/", leases.lease_list, name="lease_list"),
    path("leases/<int:pk>/break/", leases.lease_break, name="lease_break"),
    path("reports/make/", reports.report_build, name="report_build"),
    path("reports/<uuid:report_id>/preview/", reports.report_preview, name="report_preview"),
    path("reports/<uuid:report_id>/rehearse/", reports.report_rehearse, name="report_rehearse"),
    path("reports/<uuid:report_id>/execute/", reports.report_execute, name="report_execute"),
    path("rehearsals/<int:pk>/", reports.rehearsal_live, name="rehearsal_live"),
    path("drift/look/", reports.drift_look, name="drift_look"),
    path("looks/<int:pk>/", refreshes.look_page, name="look_page"),
    path("looks/<int:pk>/live/", refreshes.look_live, name="look_live"),
    path("looks/<int:pk>/go/", refreshes.look_go, name="look_go"),
    path("executions/<int:pk>/", executions.execution_page, name="execution_page"),
    path("executions/<int:pk>/live/", executions.execution_live, name="execution_live"),
    path("executions/<int:pk>/log/", execution_log.execution_log, name="execution_log"),
    path("executions/<int:pk>/log.txt", execution_log.execution_log_file, name="execution_log_file"),
    path("executions/<int:pk>/cancel/", executions.execution_cancel, name="execution_cancel"),
    path("executions/<int:pk>/resume/", executions.execution_resume, name="execution_resume"),
    path("executions/<int:pk>/abandon/", executions.execution_abandon, name="execution_abandon"),
    path("executions/<int:pk>/undo/", executions.execution_undo, name="execution_undo"),
]
