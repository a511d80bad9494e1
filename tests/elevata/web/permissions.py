"""Permissions of every route: the declarations of views, and the table that they are compared with.

A view declares them with its decorator (``elevata.accounts.view_permissions``), a resource of the API with its
permission classes. ``test_permission_matrix.py`` fails for a route that writes without a declaration or that differs
from the table.
"""

from types import SimpleNamespace
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.permissions import IsAuthenticated

from elevata.accounts.permissions import SAFE_METHODS
from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import needs_of

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Needs = frozenset[Permission]

READ_DATA = frozenset({Permission.READ_DATA})
CHANGE = frozenset({Permission.CHANGE_METADATA})
APPROVE = frozenset({Permission.APPROVE_REPORTS})
EXECUTE = frozenset({Permission.EXECUTE_REPORTS})
START = frozenset({Permission.START_LOAD})
POLICIES = frozenset({Permission.MANAGE_POLICIES})
PEOPLE = frozenset({Permission.MANAGE_USERS})
SENSITIVE = frozenset({Permission.READ_SENSITIVE}) | PEOPLE
WEBHOOKS = frozenset({Permission.MANAGE_WEBHOOKS})
BUILD = CHANGE | APPROVE | EXECUTE
EVERYBODY: Needs = frozenset()
"""Permissions of pages for all signed-in users."""


def patterns() -> dict[str, URLPattern]:
    """Return all routes of the URL configuration by name."""
    return {pattern.name or f"unnamed: {pattern.pattern}": pattern for pattern in _patterns(get_resolver())}


def _patterns(resolver: URLResolver) -> list[URLPattern]:
    routes = []
    for entry in resolver.url_patterns:
        routes += _patterns(entry) if isinstance(entry, URLResolver) else [entry]
    return routes


def is_open(pattern: URLPattern) -> bool:
    """Return True if users who are not signed in may open the route. API resources check that themselves."""
    view = pattern.callback
    if hasattr(view, "cls"):
        permissions = [permission for method in methods_of(pattern) for permission in permissions_of(view, method)]
        return not any(isinstance(permission, IsAuthenticated) for permission in permissions)
    return getattr(view, "login_required", True) is False


def methods_of(pattern: URLPattern) -> tuple[str, ...]:
    """Return the methods that can be declared; only a request shows which others a page accepts."""
    actions = getattr(pattern.callback, "actions", None)
    if actions is not None:
        return tuple(method for method in METHODS if method.lower() in actions)
    return ("GET",) if hasattr(pattern.callback, "cls") else ("GET", "POST")


def declared(pattern: URLPattern, method: str) -> Needs | None:
    """Return the permissions that the view declares; None if it declares none."""
    view = pattern.callback
    if not hasattr(view, "cls"):
        return needs_of(view if hasattr(view, "needs") else getattr(view, "view_class", view), method)
    needed: Needs = EVERYBODY
    for permission in permissions_of(view, method):
        needs: Any = getattr(permission, "needs", EVERYBODY)
        if needs is None:
            return None
        needed |= needs
    return needed


def permissions_of(view: Any, method: str) -> list[Any]:
    resource = view.cls(**view.initkwargs)
    resource.request = SimpleNamespace(method=method, user=None)
    resource.action = getattr(view, "actions", {}).get(method.lower())
    return resource.get_permissions()


def in_table(name: str, method: str) -> Needs | None:
    """Return the table's permissions; None for a writing method of a route that it does not name."""
    row = TABLE.get(name, {})
    return row.get(method, EVERYBODY if method in SAFE_METHODS else None)


def _form(needed: Needs) -> dict[str, Needs]:
    """Return the permissions of a form: the same to open and to send it."""
    return {"GET": needed, "POST": needed}


def _sent(needed: Needs) -> dict[str, Needs]:
    """Return the permissions of a page that all users see, and only some may send."""
    return {"POST": needed}


TABLE: dict[str, dict[str, Needs]] = {
    # pages
    "affected_notify": _form(BUILD),
    "column_cell": _form(CHANGE),
    "column_create": _form(CHANGE),
    "column_create_report": _form(CHANGE),
    "column_delete": _form(CHANGE),
    "column_depends": _form(CHANGE),
    "column_edit": _form(CHANGE),
    "column_edit_report": _form(CHANGE),
    "column_move": _form(CHANGE),
    "column_rename": _form(CHANGE),
    "column_restore": _form(CHANGE),
    "column_retire": _form(CHANGE),
    "columns_edit": _form(CHANGE),
    "columns_paste": _form(CHANGE),
    "listed_columns_edit": _form(CHANGE),
    "sources_edit": _form(CHANGE),
    "change_undo": _form(CHANGE),
    "dataset_access": _sent(PEOPLE),
    "schema_access": _sent(PEOPLE),
    "system_access": _sent(PEOPLE),
    "user_access": _form(PEOPLE),
    "sensitive_list": _form(SENSITIVE),
    "sensitive_source_list": _form(SENSITIVE),
    "datasets_edit": _form(CHANGE),
    "datasets_load": _form(START),
    "datasets_report": _form(BUILD),
    "dataset_clone": _form(CHANGE),
    "dataset_create": _form(CHANGE),
    "dataset_delete": _form(CHANGE),
    "dataset_depends": _form(CHANGE),
    "dataset_edit": _form(CHANGE),
    "dataset_edit_report": _form(CHANGE),
    "dataset_inputs": _form(CHANGE),
    "dataset_policy": _sent(CHANGE),
    "dataset_rename": _form(CHANGE),
    "dataset_restore": _form(CHANGE),
    "dataset_retire": _form(CHANGE),
    "delivery_list": _form(WEBHOOKS),
    "delivery_page": _form(WEBHOOKS),
    "delivery_replay": _form(WEBHOOKS),
    "drift_adopt": _form(EXECUTE),
    "drift_refresh": _form(EXECUTE),
    "execution_abandon": _form(EXECUTE),
    "execution_cancel": _form(EXECUTE),
    "execution_resume": _form(EXECUTE),
    "execution_undo": _form(BUILD),
    "health_check": _form(CHANGE),
    "health_fix": _form(CHANGE),
    "inputs_depend": _form(CHANGE),
    "lease_break": _form(EXECUTE),
    "model_builder": _form(CHANGE),
    "model_create": _form(CHANGE),
    "model_edit": _form(CHANGE),
    "model_edit_report": _form(CHANGE),
    "model_preview": _form(CHANGE),
    "me": _sent(EVERYBODY),
    "own_password": _sent(EVERYBODY),
    "comment_list": _sent(EVERYBODY),
    "comment_edit": _sent(EVERYBODY),
    "comment_delete": _sent(EVERYBODY),
    "filter_save": _sent(EVERYBODY),
    "filter_delete": _sent(EVERYBODY),
    "columns_choose": _sent(EVERYBODY),
    "favourite": _sent(EVERYBODY),
    "notice_settings": _sent(EVERYBODY),
    "notices_read": _sent(EVERYBODY),
    "user_list": _form(PEOPLE),
    "user_new": _form(PEOPLE),
    "user_page": _form(PEOPLE),
    "policy_page": _sent(POLICIES),
    "reference_restore": _form(CHANGE),
    "suggestion_accept": _form(CHANGE),
    "dataset_profile": _form(READ_DATA),
    "dataset_quarantine": _form(START),
    "check_create": _form(CHANGE),
    "check_edit": _form(CHANGE),
    "check_retire": _form(CHANGE),
    "check_restore": _form(CHANGE),
    "check_delete": _form(CHANGE),
    "contract_edit": _form(CHANGE),
    "exposure_create": _form(CHANGE),
    "exposure_edit": _form(CHANGE),
    "exposure_delete": _form(CHANGE),
    "copy_create": _form(CHANGE),
    "copy_edit": _form(CHANGE),
    "copy_delete": _form(CHANGE),
    "dataset_copy_now": _form(START),
    "reference_create": _form(CHANGE),
    "reference_edit": _form(CHANGE),
    "reference_pairs": _form(CHANGE),
    "reference_retire": _form(CHANGE),
    "report_approve": _form(APPROVE),
    "report_build": _form(BUILD),
    "report_execute": _form(EXECUTE),
    "report_preview": _form(EXECUTE),
    "report_dry_run": _form(EXECUTE),
    "report_reject": _form(APPROVE),
    "report_withdraw": _form(BUILD),
    "dataset_vacuum": _form(START),
    "dataset_prune": _form(START),
    "dataset_accept": _form(START),
    "dataset_check": _form(READ_DATA),
    "run_again": _form(START),
    "run_approve": _form(APPROVE),
    "run_cancel": _form(START),
    "run_revert": _form(START),
    "run_start": _form(START),
    "schedule_delete": _form(START),
    "schedule_edit": _form(START),
    "schedule_new": _form(START),
    "schedule_run": _form(START),
    "schema_create": _form(CHANGE),
    "schema_edit": _form(CHANGE),
    "sign_out": _sent(EVERYBODY),
    "source_check": _form(CHANGE),
    "source_columns": _form(CHANGE),
    "source_upload": _form(CHANGE),
    "source_load": _form(START),
    "source_load_rest": _form(CHANGE),
    "source_column_add": _form(CHANGE),
    "source_edit": _form(CHANGE),
    "source_generate": _form(CHANGE),
    "metadata_import": _form(CHANGE),
    "source_import": _form(CHANGE),
    "source_proposal": _sent(CHANGE),
    "source_proposal_dismiss": _form(CHANGE),
    "start_read": _form(READ_DATA),
    "dataset_data": _form(READ_DATA),
    "dataset_run_changes": _form(READ_DATA),
    "dataset_compare": _form(READ_DATA),
    "dataset_descendants": _form(READ_DATA),
    "dataset_origin": _form(READ_DATA),
    "dataset_why": _form(READ_DATA),
    "dataset_rejected": _form(READ_DATA),
    "dataset_history": _form(READ_DATA),
    "dataset_as_of": _form(READ_DATA),
    "dataset_versions": _form(READ_DATA),
    "read_part": _form(READ_DATA),
    "read_file": _form(READ_DATA),
    "report_models": _form(READ_DATA),
    "trial_page": _form(READ_DATA),
    "trial_run": _form(READ_DATA),
    "trial_answer": _form(READ_DATA),
    "sql_page": _form(READ_DATA),
    "sql_completions": _form(READ_DATA),
    "sql_tree": _form(READ_DATA),
    "sql_run": _form(READ_DATA),
    "sql_answer": _form(READ_DATA),
    "sql_cancel": _form(READ_DATA),
    "sql_file": _form(READ_DATA),
    "saved_query_list": _form(READ_DATA),
    "saved_query_save": _form(READ_DATA),
    "saved_query_delete": _form(READ_DATA),
    "source_add": _form(CHANGE),
    "source_add_system": _form(CHANGE),
    "source_add_test": _form(CHANGE),
    "system_delivery": _form(CHANGE),
    "source_files": _form(CHANGE),
    "system_upload": _form(CHANGE),
    "source_load_type": _form(CHANGE),
    "source_summary": _form(CHANGE),
    "system_discover": _form(CHANGE),
    "system_edit": _form(CHANGE),
    "system_generate": _form(CHANGE),
    "system_test": _form(CHANGE),
    "webhook_delete": _form(WEBHOOKS),
    "webhook_edit": _form(WEBHOOKS),
    "webhook_list": _form(WEBHOOKS),
    "webhook_new": _form(WEBHOOKS),
    "webhook_page": _form(WEBHOOKS),
    "webhook_test": _form(WEBHOOKS),
    # the API
    "api-column-bulk": _sent(CHANGE),
    "api-column-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-column-list": _sent(CHANGE),
    "api-column-rename": _sent(CHANGE),
    "api-column-restore": _sent(CHANGE),
    "api-column-retire": _sent(CHANGE),
    "api-dataset-bulk": _sent(CHANGE),
    "api-dataset-clone": _sent(CHANGE),
    "api-dataset-describe": _sent(CHANGE),
    "api-dataset-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-dataset-inputs": _sent(CHANGE),
    "api-dataset-list": _sent(CHANGE),
    "api-dataset-rename": _sent(CHANGE),
    "api-dataset-restore": _sent(CHANGE),
    "api-dataset-retire": _sent(CHANGE),
    "api-delivery-detail": {"GET": WEBHOOKS},
    "api-delivery-list": {"GET": WEBHOOKS},
    "api-delivery-replay": _sent(WEBHOOKS),
    "api-change-undo": _sent(CHANGE),
    "api-detect-file-list": _sent(CHANGE),
    "api-drift-adopt": _sent(EXECUTE),
    "api-drift-check": _sent(EXECUTE),
    "api-environment-accept": _sent(POLICIES),
    "api-environment-detail": {"PATCH": POLICIES},
    "api-environment-reject": _sent(POLICIES),
    "api-environment-withdraw": _sent(POLICIES),
    "api-execution-abandon": _sent(EXECUTE),
    "api-execution-cancel": _sent(EXECUTE),
    "api-execution-resume": _sent(EXECUTE),
    "api-history-batch-list": _sent(START),
    "api-affected-notify": _sent(BUILD),
    "api-history-check-detail": {"GET": READ_DATA},
    "api-history-check-list": _form(READ_DATA),
    "api-copy-run-list": _sent(START),
    "api-vacuum-list": _sent(START),
    "api-quarantine-decision-list": _sent(START),
    "api-history-prune-list": _sent(START),
    "api-table-acceptance-list": _sent(START),
    "api-history-revert-list": _sent(START),
    "api-load-run-again": _sent(START),
    "api-load-run-approve": _sent(APPROVE),
    "api-load-run-cancel": _sent(START),
    "api-load-run-list": _sent(START),
    "api-refresh-detail": {"GET": BUILD},
    "api-refresh-list": _form(BUILD),
    "api-metadata-import": _sent(CHANGE),
    "api-comment-list": _sent(EVERYBODY),
    "api-comment-detail": {"PATCH": EVERYBODY, "DELETE": EVERYBODY},
    "api-saved-filter-list": _sent(EVERYBODY),
    "api-saved-filter-detail": {"DELETE": EVERYBODY},
    "api-favourite-list": _sent(EVERYBODY),
    "api-favourite-detail": {"DELETE": EVERYBODY},
    "api-notice-read": _sent(EVERYBODY),
    "api-notice-read-all": _sent(EVERYBODY),
    "api-user-detail": {"GET": PEOPLE, "PATCH": PEOPLE},
    "api-user-list": _form(PEOPLE),
    "api-user-access": {"GET": PEOPLE},
    "api-sensitive-column-detail": {"GET": SENSITIVE},
    "api-sensitive-column-list": {"GET": SENSITIVE},
    "api-sensitive-source-column-detail": {"GET": SENSITIVE},
    "api-sensitive-source-column-list": {"GET": SENSITIVE},
    "api-query-detail": {"GET": READ_DATA},
    "api-query-list": _form(READ_DATA),
    "api-query-rows": {"GET": READ_DATA},
    "api-read-detail": {"GET": READ_DATA},
    "api-read-list": _form(READ_DATA),
    "api-read-rows": {"GET": READ_DATA},
    "api-record-undo": _sent(BUILD),
    "api-quality-check-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-quality-check-list": _sent(CHANGE),
    "api-quality-check-restore": _sent(CHANGE),
    "api-quality-check-retire": _sent(CHANGE),
    "api-copy-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-copy-list": _sent(CHANGE),
    "api-exposure-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-exposure-list": _sent(CHANGE),
    "api-reference-detail": {"PATCH": CHANGE},
    "api-reference-list": _sent(CHANGE),
    "api-reference-restore": _sent(CHANGE),
    "api-reference-retire": _sent(CHANGE),
    "api-report-approve": _sent(APPROVE),
    "api-report-execute": _sent(EXECUTE),
    "api-report-list": _sent(BUILD),
    "api-report-preview": _sent(EXECUTE),
    "api-report-dry-run": _sent(EXECUTE),
    "api-report-reject": _sent(APPROVE),
    "api-report-withdraw": _sent(BUILD),
    "api-schedule-detail": {"PATCH": START, "DELETE": START},
    "api-schedule-list": _sent(START),
    "api-schedule-run": _sent(START),
    "api-schema-bulk": _sent(CHANGE),
    "api-schema-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-schema-list": _sent(CHANGE),
    "api-source-check-list": _sent(CHANGE),
    "api-source-proposal-accept": _sent(CHANGE),
    "api-source-proposal-dismiss": _sent(CHANGE),
    "api-source-proposal-preview": _sent(CHANGE),
    "api-source-column-bulk": _sent(CHANGE),
    "api-source-column-detail": {"PATCH": CHANGE},
    "api-source-column-list": _sent(CHANGE),
    "api-source-dataset-bulk": _sent(CHANGE),
    "api-source-dataset-detail": {"PATCH": CHANGE},
    "api-source-dataset-generate": _sent(CHANGE),
    "api-source-dataset-list": _sent(CHANGE),
    "api-system-bulk": _sent(CHANGE),
    "api-system-generate": _sent(CHANGE),
    "api-system-detail": {"PATCH": CHANGE, "DELETE": CHANGE},
    "api-system-list": _sent(CHANGE),
    "api-webhook-detail": {"GET": WEBHOOKS, "PATCH": WEBHOOKS, "DELETE": WEBHOOKS},
    "api-webhook-list": _form(WEBHOOKS),
    "api-webhook-test": _sent(WEBHOOKS),
}
