"""Every route of the product, and who may do what there. A route without a rule fails a test."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.urls import URLPattern, URLResolver, get_resolver

SIGN_IN = "to sign-in"
REFUSED = 403
# By the API, of whoever sends no token.
UNKNOWN = 401


@dataclass(frozen=True)
class Rule:
    """Answers to anonymous, signed-in and permitted people; ``values`` names what fills the address.

    A tuple instead of a number: the address the answer leads to begins like that.
    """

    method: str = "get"
    anonymous: object = SIGN_IN
    reader: object = 200
    operator: object = 200
    values: tuple[str, ...] = ()
    data: dict = field(default_factory=dict)
    page: bool = True


API = Rule(anonymous=UNKNOWN, page=False)


def _api(*values: str) -> Rule:
    return Rule(anonymous=UNKNOWN, values=values, page=False)


def _post(*values: str, operator: object, data: dict | None = None) -> Rule:
    """Something is done: those without a permission are refused."""
    return Rule("post", reader=REFUSED, operator=operator, values=values, data=data or {}, page=False)


def _api_post(*values: str, operator: object, data: dict | None = None) -> Rule:
    return Rule(
        "post", anonymous=UNKNOWN, reader=REFUSED, operator=operator, values=values, data=data or {}, page=False
    )


EDITING = Rule(reader=REFUSED)


def _editing(*values: str) -> Rule:
    """A form or a page before a deed, for people who may change metadata."""
    return Rule(reader=REFUSED, values=values)


RULES = {
    "home": Rule(),
    "home_now": Rule(),
    "home_warehouse": Rule(),
    "home_charts": Rule(),
    "healthz": Rule(anonymous=200, page=False),
    # No worker is there in the tests of routes.
    "readyz": Rule(anonymous=503, reader=503, operator=503, page=False),
    "metrics": Rule(anonymous=REFUSED, page=False),
    "sign_in": Rule(anonymous=200, reader="/", operator="/"),
    # Nobody is a provider here.
    "sso": Rule(anonymous=404, reader=404, operator=404),
    "sso_callback": Rule(anonymous=404, reader=404, operator=404),
    "me": Rule(),
    "own_password": Rule(reader="/me/", operator="/me/"),
    "user_list": Rule(reader=REFUSED),
    "user_new": Rule(reader=REFUSED),
    "user_page": Rule(reader=REFUSED, values=("person_name",)),
    "sign_out": Rule("post", reader="/sign-in/", operator="/sign-in/", page=False),
    "dataset_list": Rule(),
    "dataset_page": Rule(values=("key",)),
    "dataset_lineage": Rule(values=("key",)),
    "dataset_sql": Rule(values=("key",)),
    "dataset_policy": Rule(values=("key",)),
    "dataset_runs": Rule(values=("key",)),
    "dataset_charts": Rule(values=("key",)),
    "dataset_history": Rule(values=("key",)),
    "dataset_as_of": Rule(values=("key",)),
    "dataset_versions": Rule(values=("key", "entity_key")),
    "dataset_origin": Rule(values=("key", "entity_key")),
    "dataset_data": Rule(values=("key",)),
    "dataset_run_changes": Rule(values=("key",)),
    "read_file": Rule(values=("pk",), reader=404, operator=404, page=False),
    "start_read": Rule(
        "post", values=("key",), data={"kind": "key_search"}, reader="/reads/", operator="/reads/", page=False
    ),
    "read_part": Rule(values=("pk",), reader=200, operator=404),
    "trial_page": Rule(),
    "trial_run": Rule(
        "post",
        data={"select": "SELECT 1 AS number", "limit": "50"},
        reader="/models/try/answers/",
        operator="/models/try/answers/",
        page=False,
    ),
    "trial_answer": Rule(values=("trial",), operator=404),
    "sql_page": Rule(),
    "sql_run": Rule(
        "post", data={"text": "SELECT 1", "limit": "100"}, reader="/sql/answers/", operator="/sql/answers/", page=False
    ),
    "sql_answer": Rule(values=("query",), operator=404),
    "sql_cancel": Rule("post", values=("query",), reader="/sql/answers/", operator=404, page=False),
    "sql_file": Rule(values=("query",), reader=404, operator=404, page=False),
    "saved_query_list": Rule(),
    "saved_query_save": Rule("post", reader="/sql/", operator="/sql/", page=False),
    "saved_query_delete": Rule("post", values=("saved_query",), reader="/sql/saved/", operator=404, page=False),
    "dataset_create": EDITING,
    "dataset_changes": Rule(values=("key",)),
    "dataset_edit": _editing("key"),
    "dataset_inputs": _editing("key"),
    "model_create": EDITING,
    # The dataset is no model.
    "model_edit": Rule(reader=REFUSED, operator=404, values=("key",)),
    "model_preview": _post(operator=200, data={"select": "SELECT 1 AS one"}),
    "model_builder": _post(operator=200),
    "inputs_depend": _editing("key"),
    "dataset_rename": _editing("key"),
    "dataset_depends": _editing("key"),
    "dataset_retire": _editing("key"),
    "dataset_restore": _editing("key"),
    "dataset_delete": _editing("key"),
    "column_create": _editing("key"),
    "columns_paste": _post("key", operator=422, data={"text": "new_one"}),
    "column_edit": _editing("column_key"),
    "column_cell": _post("column_key", operator=409, data={"cell": "owner", "value": "eve", "version": "0"}),
    "column_move": _post("column_key", operator="/datasets/", data={"by": "1"}),
    "column_rename": _editing("column_key"),
    "column_depends": _editing("column_key"),
    "column_retire": _editing("column_key"),
    "column_restore": _editing("column_key"),
    "column_delete": _editing("column_key"),
    "reference_create": _editing("key"),
    "reference_edit": _editing("reference"),
    "reference_pairs": _editing("key"),
    "reference_retire": _editing("reference"),
    "reference_restore": _editing("reference"),
    "check_create": _editing("key"),
    "check_edit": _editing("check"),
    "check_retire": _editing("check"),
    "check_restore": _editing("check"),
    "check_delete": _editing("check"),
    "dataset_contract": Rule(values=("contract",)),
    "contract_edit": _editing("contract"),
    "exposure_create": _editing("contract"),
    "exposure_edit": _editing("exposure"),
    "exposure_delete": _editing("exposure"),
    "schema_list": Rule(),
    "schema_create": EDITING,
    "schema_edit": _editing("schema"),
    "source_add": EDITING,
    "source_add_system": _editing("kind"),
    "source_add_test": Rule("post", reader=REFUSED, operator=200, values=("kind",)),
    "system_delivery": Rule(reader=REFUSED, operator="/systems/air/discover/", values=("system",)),
    "system_upload": _post("system", operator=422),
    "source_load_type": Rule(reader=REFUSED, operator="/systems/air/discover/", values=("system",)),
    "source_summary": Rule(reader=REFUSED, operator="/systems/air/discover/", values=("system",)),
    "source_first_load": Rule(values=("source_key", "run_id")),
    "system_page": Rule(values=("system",)),
    "system_edit": _editing("system"),
    "system_test": _post("system", operator=200),
    "system_discover": _editing("system"),
    "source_import": Rule(reader=REFUSED, operator="/systems/air/discover/", values=("system",)),
    "source_check": _post("source_key", operator="/sources/"),
    "source_columns": _editing("source_key"),
    "source_column_add": _editing("source_key"),
    "source_edit": _editing("source_key"),
    "source_generate": _editing("source_key"),
    "source_list": Rule(),
    "source_page": Rule(values=("source_key",)),
    "source_proposal": Rule(values=("proposal",)),
    "source_proposal_dismiss": _editing("proposal"),
    "run_list": Rule(),
    "run_charts": Rule(),
    "run_page": Rule(values=("run_id",)),
    "run_live": Rule(values=("run_id",)),
    "run_start": Rule("post", reader=REFUSED, operator="/load-runs/", data={"scope": "all"}, page=False),
    "run_cancel": Rule(values=("run_id",), reader=REFUSED),
    "run_revert": Rule(values=("run_id",), reader=REFUSED),
    "dataset_quality": Rule(values=("key",)),
    "dataset_profile": Rule(values=("key",)),
    "suggestion_accept": _post("key", operator=404, data={"suggestion": "none"}),
    "dataset_quarantine": Rule(values=("key",), reader=REFUSED),
    "dataset_storage": Rule(values=("key",)),
    "dataset_vacuum": Rule(values=("key",), reader=REFUSED),
    "dataset_prune": Rule(values=("key",), reader=REFUSED),
    "dataset_accept": Rule(values=("key",), reader=REFUSED),
    "dataset_check": Rule(values=("key",)),
    "run_again": Rule("post", values=("run_id",), reader=REFUSED, operator="/load-runs/", page=False),
    "run_record": Rule(values=("maintenance_run", "maintenance_record"), page=False),
    "inbox": Rule(),
    "inbox_rows": Rule(),
    "schedule_list": Rule(),
    "schedule_page": Rule(values=("schedule",)),
    "schedule_times": Rule(),
    "schedule_new": Rule(reader=REFUSED),
    "schedule_edit": Rule(reader=REFUSED, values=("schedule",)),
    "schedule_delete": Rule(reader=REFUSED, values=("schedule",)),
    "schedule_run": _post("schedule", operator="/load-runs/"),
    "lease_list": Rule(),
    "lease_break": Rule(reader=REFUSED, values=("lease",)),
    "report_list": Rule(),
    "report_page": Rule(values=("report_id",)),
    "report_standing": Rule(values=("report_id",)),
    "report_differences": Rule(values=("report_id",)),
    "report_behind": Rule(values=("report_id",)),
    "report_downstream": Rule(values=("report_id",)),
    "report_models": Rule(values=("report_id",)),
    "report_file": Rule(values=("report_id",), page=False),
    "report_approvals": Rule(values=("report_id",), page=False),
    "report_approve": _post("report_id", operator="/reports/"),
    "report_reject": _post("report_id", operator="/reports/"),
    "report_build": _post(operator="/refreshes/", data={"scope": "all"}),
    "report_preview": _post("report_id", operator="/refreshes/"),
    "report_dry_run": _post("report_id", operator="/reports/"),
    "report_execute": _post("report_id", operator=409),
    "dry_run_live": Rule(values=("dry_run",)),
    "refresh_page": Rule(values=("refresh",), operator=404),
    "refresh_live": Rule(values=("refresh",), operator=404),
    "execution_list": Rule(),
    "execution_page": Rule(values=("execution",)),
    "execution_live": Rule(values=("execution",)),
    "execution_log": Rule(values=("execution",), page=False),
    "execution_log_file": Rule(values=("execution",), page=False),
    "execution_cancel": Rule(values=("execution",), reader=REFUSED),
    "execution_resume": _post("execution", operator=409),
    "execution_abandon": Rule(values=("execution",), reader=REFUSED),
    "execution_undo": _post("execution", operator="/reports/"),
    "record_file": Rule(values=("record_id",), page=False),
    "drift_page": Rule(),
    "drift_refresh": _post(operator="/refreshes/"),
    "drift_adopt": _post(operator=422),
    "own_policy": Rule(reader="/policies/", operator="/policies/"),
    "policy_page": Rule(values=("environment",)),
    "change_list": Rule(),
    "change_file": Rule(page=False),
    "notice_list": Rule(),
    "notice_bell": Rule(page=False),
    "notice_go": Rule(values=("notice",), reader="/load-runs/", operator=404),
    "notices_read": Rule("post", reader="/notices/", operator="/notices/", page=False),
    "notice_settings": Rule(),
    "webhook_list": Rule(reader=REFUSED),
    "webhook_page": Rule(reader=REFUSED, values=("webhook",)),
    "webhook_new": Rule(reader=REFUSED),
    "webhook_edit": Rule(reader=REFUSED, values=("webhook",)),
    "webhook_delete": Rule(reader=REFUSED, values=("webhook",)),
    "webhook_test": _post("webhook", operator="/deliveries/"),
    "delivery_list": Rule(reader=REFUSED),
    "delivery_page": Rule(reader=REFUSED, values=("delivery",)),
    "delivery_replay": _post("delivery", operator="/deliveries/"),
    "api-notice-list": API,
    "api-notice-detail": Rule(anonymous=UNKNOWN, operator=404, values=("notice",), page=False),
    "api-notice-read": Rule("post", anonymous=UNKNOWN, operator=404, values=("notice",), page=False),
    "api-notice-read-all": Rule("post", anonymous=UNKNOWN, page=False),
    "api-webhook-list": Rule(anonymous=UNKNOWN, reader=REFUSED, page=False),
    "api-webhook-detail": Rule(anonymous=UNKNOWN, reader=REFUSED, values=("webhook",), page=False),
    "api-webhook-test": _api_post("webhook", operator=202),
    "api-delivery-list": Rule(anonymous=UNKNOWN, reader=REFUSED, page=False),
    "api-delivery-detail": Rule(anonymous=UNKNOWN, reader=REFUSED, values=("delivery",), page=False),
    "api-delivery-replay": _api_post("delivery", operator=202),
    "api_swagger": Rule(),
    # Its content policy is its own: Redoc makes styles.
    "api_redoc": Rule(page=False),
    "api-root": API,
    "api-schema-document": API,
    "api-system-list": API,
    "api-system-bulk": _api_post(operator=400),
    "api-system-detail": _api("system"),
    "api-source-dataset-list": API,
    "api-source-dataset-detail": _api("source_key"),
    "api-source-dataset-bulk": _api_post(operator=400),
    "api-source-dataset-generate": _api_post("source_key", operator=200),
    "api-source-check-list": _api_post(operator=400),
    "api-source-proposal-list": API,
    "api-source-proposal-detail": _api("proposal"),
    "api-source-proposal-preview": _api_post("proposal", operator=400),
    "api-source-proposal-accept": _api_post("proposal", operator=400),
    "api-source-proposal-dismiss": _api_post("proposal", operator=200),
    "api-source-column-list": API,
    "api-source-column-detail": _api("source_column_key"),
    "api-source-column-bulk": _api_post(operator=400),
    "api-schema-list": API,
    "api-schema-bulk": _api_post(operator=400),
    "api-schema-detail": _api("schema"),
    "api-dataset-list": API,
    "api-dataset-detail": _api("key"),
    "api-dataset-bulk": _api_post(operator=400),
    "api-dataset-describe": _api_post(operator=200, data={"select": "SELECT 1 AS one"}),
    "api-dataset-lineage": _api("key"),
    "api-dataset-impact": Rule(anonymous=UNKNOWN, values=("key",), data={"change": "retire"}, page=False),
    "api-dataset-rename": _api_post("key", operator=428, data={"name": "rc_air_field"}),
    "api-dataset-retire": _api_post("key", operator=200),
    "api-dataset-restore": _api_post("key", operator=200),
    "api-dataset-inputs": _api_post("key", operator=409, data={"inputs": []}),
    "api-column-list": API,
    "api-column-bulk": _api_post(operator=400),
    "api-column-detail": _api("column_key"),
    "api-column-lineage": _api("column_key"),
    "api-column-impact": Rule(anonymous=UNKNOWN, values=("column_key",), data={"change": "retire"}, page=False),
    "api-column-rename": _api_post("column_key", operator=428, data={"name": "height"}),
    "api-column-retire": _api_post("column_key", operator=200),
    "api-column-restore": _api_post("column_key", operator=200),
    "api-reference-list": API,
    "api-reference-detail": _api("reference"),
    "api-reference-impact": _api("reference"),
    "api-reference-retire": _api_post("reference", operator=200),
    "api-reference-restore": _api_post("reference", operator=200),
    "api-quality-check-list": API,
    "api-quality-check-detail": _api("check"),
    "api-quality-check-retire": _api_post("check", operator=200),
    "api-quality-check-restore": _api_post("check", operator=200),
    "api-exposure-list": API,
    "api-exposure-detail": _api("exposure"),
    "api-contract-list": API,
    "api-contract-detail": _api("contract"),
    "api-check-result-list": API,
    "api-check-result-detail": Rule(anonymous=UNKNOWN, reader=404, operator=404, values=("api_read",), page=False),
    "api-metadata-export": API,
    "api-metadata-import": _api_post(operator=400),
    "api-search-list": Rule(anonymous=UNKNOWN, data={"q": "air"}, page=False),
    "api-schedule-list": API,
    "api-schedule-detail": _api("schedule"),
    "api-schedule-run": _api_post("schedule", operator=202),
    "api-environment-list": API,
    "api-environment-detail": _api("environment"),
    "api-environment-accept": _api_post("environment", operator=400),
    "api-environment-reject": _api_post("environment", operator=400),
    "api-environment-withdraw": _api_post("environment", operator=400),
    "api-user-list": Rule(anonymous=UNKNOWN, reader=REFUSED, page=False),
    "api-user-detail": Rule(anonymous=UNKNOWN, reader=REFUSED, values=("person_name",), page=False),
    "api-load-run-list": API,
    "api-load-run-detail": _api("run_id"),
    "api-load-run-events": _api("run_id"),
    "api-load-run-again": _api_post("run_id", operator=202),
    "api-load-run-cancel": _api_post("run_id", operator=409),
    "api-history-batch-list": _api_post(operator=400),
    "api-history-revert-list": _api_post(operator=400),
    "api-vacuum-list": _api_post(operator=400),
    "api-quarantine-decision-list": _api_post(operator=400),
    "api-history-prune-list": _api_post(operator=400),
    "api-table-acceptance-list": _api_post(operator=400),
    "api-history-check-list": API,
    "api-history-check-detail": Rule(anonymous=UNKNOWN, values=("api_read",), operator=404, reader=404, page=False),
    "api-read-list": API,
    "api-read-detail": Rule(anonymous=UNKNOWN, values=("api_read",), operator=404, page=False),
    "api-read-rows": Rule(anonymous=UNKNOWN, values=("api_read",), reader=409, operator=404, page=False),
    "api-refresh-list": _api_post(operator=202, data={"kind": "all"}),
    "api-refresh-detail": Rule(anonymous=UNKNOWN, reader=REFUSED, operator=404, values=("refresh",), page=False),
    "api-query-list": API,
    "api-query-detail": Rule(anonymous=UNKNOWN, values=("query",), operator=404, page=False),
    "api-query-rows": Rule(anonymous=UNKNOWN, values=("query",), reader=409, operator=404, page=False),
    "api-report-list": API,
    "api-report-detail": _api("report_id"),
    "api-report-approvals": _api("report_id"),
    "api-report-preview": _api("report_id"),
    "api-report-approve": _api_post("report_id", operator=428),
    "api-report-reject": _api_post("report_id", operator=428),
    "api-report-execute": _api_post("report_id", operator=428),
    "api-execution-list": API,
    "api-execution-detail": _api("execution"),
    "api-execution-events": _api("execution"),
    "api-execution-cancel": _api_post("execution", operator=200),
    "api-execution-abandon": _api_post("execution", operator=409, data={"reason": "enough"}),
    "api-execution-resume": _api_post("execution", operator=409),
    "api-record-list": API,
    "api-record-detail": _api("record_id"),
    "api-record-undo": _api_post("record_id", operator=201),
    "api-report-dry-run": _api_post("report_id", operator=202),
    "api-dry-run-list": API,
    "api-dry-run-detail": _api("dry_run"),
    "api-change-list": API,
    "api-change-detail": _api("change"),
    "api-change-export": API,
    "api-drift-list": API,
    "api-drift-check": _api_post(operator=202),
    "api-drift-adopt": _api_post(operator=400),
    "api-maintenance-record-list": API,
    "api-maintenance-record-detail": _api("maintenance_record"),
}


def route_names() -> list[str]:
    """The names of all routes, from the URL configuration."""
    return sorted(_names(get_resolver()))


def _names(resolver: URLResolver) -> Iterator[str]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from _names(entry)
        else:
            assert isinstance(entry, URLPattern)
            yield entry.name or f"unnamed: {entry.pattern}"
