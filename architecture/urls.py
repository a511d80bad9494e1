"""URLs of architecture control: reports, executions, drift, policies, change log."""

from django.urls import path

from architecture.views import change_policy, data_contracts, drift, executions, health, inbox, report_steps, reports
from metadata.views import changes

urlpatterns = [
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/rows/", inbox.inbox_rows, name="inbox_rows"),
    path("datasets/<uuid:key>/contract/", data_contracts.DatasetContract.as_view(), name="dataset_contract"),
    path("reports/", reports.ReportList.as_view(), name="report_list"),
    path("reports/<uuid:report_id>/", reports.ReportDetail.as_view(), name="report_page"),
    path("reports/<uuid:report_id>/standing/", reports.ReportStanding.as_view(), name="report_standing"),
    path("reports/<uuid:report_id>/differences/", reports.ReportDifferences.as_view(), name="report_differences"),
    path("reports/<uuid:report_id>/behind/", reports.ReportBehind.as_view(), name="report_behind"),
    path("reports/<uuid:report_id>/downstream/", reports.ReportDownstream.as_view(), name="report_downstream"),
    path("reports/<uuid:report_id>/approve/", report_steps.ReportApprove.as_view(), name="report_approve"),
    path("reports/<uuid:report_id>/reject/", report_steps.ReportReject.as_view(), name="report_reject"),
    path("reports/<uuid:report_id>/report.json", reports.report_file, name="report_file"),
    path("reports/<uuid:report_id>/approvals.json", reports.report_approvals, name="report_approvals"),
    path("reports/make/", report_steps.ReportBuild.as_view(), name="report_build"),
    path("reports/<uuid:report_id>/preview/", report_steps.ReportPreview.as_view(), name="report_preview"),
    path("reports/<uuid:report_id>/dry-run/", report_steps.ReportDryRun.as_view(), name="report_dry_run"),
    path("reports/<uuid:report_id>/execute/", report_steps.ReportExecute.as_view(), name="report_execute"),
    path("dry-runs/<int:pk>/", report_steps.dry_run_live, name="dry_run_live"),
    path("refreshes/<int:pk>/", report_steps.RefreshPage.as_view(), name="refresh_page"),
    path("refreshes/<int:pk>/live/", report_steps.RefreshLive.as_view(), name="refresh_live"),
    path("executions/", reports.ExecutionList.as_view(), name="execution_list"),
    path("executions/<int:pk>/", executions.ExecutionDetail.as_view(), name="execution_page"),
    path("executions/<int:pk>/live/", executions.ExecutionLive.as_view(), name="execution_live"),
    path("executions/<int:pk>/log/", executions.execution_log, name="execution_log"),
    path("executions/<int:pk>/log.txt", executions.execution_log_file, name="execution_log_file"),
    path("executions/<int:pk>/cancel/", executions.ExecutionCancel.as_view(), name="execution_cancel"),
    path("executions/<int:pk>/resume/", executions.ExecutionResume.as_view(), name="execution_resume"),
    path("executions/<int:pk>/abandon/", executions.ExecutionAbandon.as_view(), name="execution_abandon"),
    path("executions/<int:pk>/undo/", executions.ExecutionUndo.as_view(), name="execution_undo"),
    path("records/<uuid:record_id>/record.json", reports.record_file, name="record_file"),
    path("drift/", drift.DriftPage.as_view(), name="drift_page"),
    path("drift/refresh/", report_steps.drift_refresh, name="drift_refresh"),
    path("drift/adopt/", drift.DriftAdopt.as_view(), name="drift_adopt"),
    path("health/", health.HealthPage.as_view(), name="health_page"),
    path("health/<int:pk>/fix/", health.HealthFix.as_view(), name="health_fix"),
    path("policies/", change_policy.own_policy, name="own_policy"),
    path("policies/<str:name>/", change_policy.PolicyPage.as_view(), name="policy_page"),
    path("changes/", changes.ChangeList.as_view(), name="change_list"),
    path("changes/change-log.jsonl", changes.change_file, name="change_file"),
]
