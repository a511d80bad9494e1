"""Pages about loading and about what was loaded."""

from django.urls import path, register_converter

from loader.converters import RunIdConverter
from loader.views import datasets, executions, history, leases, looks, records, reports, runs, schedules

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
    path("looks/<int:pk>/", looks.look_page, name="look_page"),
    path("looks/<int:pk>/live/", looks.look_live, name="look_live"),
    path("looks/<int:pk>/go/", looks.look_go, name="look_go"),
    path("executions/<int:pk>/", executions.execution_page, name="execution_page"),
    path("executions/<int:pk>/live/", executions.execution_live, name="execution_live"),
    path("executions/<int:pk>/cancel/", executions.execution_cancel, name="execution_cancel"),
    path("executions/<int:pk>/resume/", executions.execution_resume, name="execution_resume"),
    path("executions/<int:pk>/abandon/", executions.execution_abandon, name="execution_abandon"),
    path("executions/<int:pk>/undo/", executions.execution_undo, name="execution_undo"),
]
