"""Pages of architecture control that need no worker: reading, deciding, policies, the change log."""

from django.urls import path

from architecture.views import changes, drift, executions, inbox, policies, report_parts, reports

urlpatterns = [
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/rows/", inbox.inbox_rows, name="inbox_rows"),
    path("reports/", reports.report_list, name="report_list"),
    path("reports/<uuid:report_id>/", reports.report_page, name="report_page"),
    path("reports/<uuid:report_id>/standing/", report_parts.report_standing, name="report_standing"),
    path("reports/<uuid:report_id>/differences/", report_parts.report_differences, name="report_differences"),
    path("reports/<uuid:report_id>/behind/", report_parts.report_behind, name="report_behind"),
    path("reports/<uuid:report_id>/downstream/", report_parts.report_downstream, name="report_downstream"),
    path("reports/<uuid:report_id>/approve/", reports.report_approve, name="report_approve"),
    path("reports/<uuid:report_id>/reject/", reports.report_reject, name="report_reject"),
    path("reports/<uuid:report_id>/report.json", reports.report_file, name="report_file"),
    path("reports/<uuid:report_id>/approvals.json", reports.report_approvals, name="report_approvals"),
    path("executions/", executions.execution_list, name="execution_list"),
    path("records/<uuid:record_id>/record.json", executions.record_file, name="record_file"),
    path("drift/", drift.drift_page, name="drift_page"),
    path("drift/adopt/", drift.drift_adopt, name="drift_adopt"),
    path("policies/", policies.own_policy, name="own_policy"),
    path("policies/<str:name>/", policies.policy_page, name="policy_page"),
    path("changes/", changes.change_list, name="change_list"),
    path("changes/change-log.jsonl", changes.change_file, name="change_file"),
]
