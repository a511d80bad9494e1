"""URLs of pages, fragments and the REST API."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.routers import APIRootView, DefaultRouter

from architecture.api.data_contracts import ContractViewSet
from architecture.api.environments import EnvironmentViewSet
from architecture.api.health import HealthViewSet
from architecture.api.refreshes import DriftViewSet, RefreshViewSet
from architecture.api.views import DryRunViewSet, ExecutionViewSet, RecordViewSet, ReportViewSet
from elevata import help_pages, home
from elevata.accounts import user_pages
from elevata.accounts import views as account_views
from elevata.accounts.openid_connect import SingleSignOn, SingleSignOnCallback
from elevata.accounts.sign_in import SignIn
from elevata.accounts.view_permissions import without_role
from elevata.api import description
from elevata.api.resources import JsonOnly, Reads
from elevata.api.search import SearchViewSet
from elevata.comments.api import CommentViewSet
from elevata.lists.api import FavouriteViewSet, SavedFilterViewSet
from elevata.notifications.api import DeliveryViewSet, NoticeViewSet, WebhookViewSet
from elevata.ops import monitoring
from elevata.web.search_page import SearchPage
from loader.api.affected import AffectedViewSet
from loader.api.copies import CopyViewSet
from loader.api.file_detection import FileDetectionViewSet
from loader.api.load_runs import LoadRunViewSet, MaintenanceRecordViewSet
from loader.api.maintenance import (
    AcceptViewSet,
    BatchViewSet,
    CheckViewSet,
    CopyRunViewSet,
    PruneViewSet,
    QuarantineViewSet,
    RevertViewSet,
    VacuumViewSet,
)
from loader.api.metadata import DatasetViewSet, MetadataViewSet, SourceDatasetViewSet, SystemViewSet
from loader.api.next_steps import NextStepViewSet
from loader.api.quality import CheckResultViewSet
from loader.api.queries import QueryViewSet
from loader.api.reads import ReadViewSet
from loader.api.source_proposals import ProposalViewSet, SourceCheckViewSet
from loader.schedules.api import ScheduleViewSet
from metadata.api.access import OwnAccessViewSet, UserViewSet
from metadata.api.changes import ChangeLogViewSet
from metadata.api.exposures import ExposureViewSet
from metadata.api.lineage import ColumnViewSet
from metadata.api.quality import QualityCheckViewSet
from metadata.api.references import ReferenceViewSet
from metadata.api.sensitive_columns import SensitiveColumnViewSet, SensitiveSourceColumnViewSet
from metadata.api.views import SchemaViewSet, SourceColumnViewSet


class ApiRoot(APIRootView):
    """Index of the API's collections."""

    permission_classes = (IsAuthenticated, Reads)
    content_negotiation_class = JsonOnly


router = DefaultRouter()
router.APIRootView = ApiRoot
router.include_format_suffixes = False
router.register("systems", SystemViewSet, basename="api-system")
router.register("source-datasets", SourceDatasetViewSet, basename="api-source-dataset")
router.register("source-proposals", ProposalViewSet, basename="api-source-proposal")
router.register("source-checks", SourceCheckViewSet, basename="api-source-check")
router.register("detect-file", FileDetectionViewSet, basename="api-detect-file")
router.register("source-columns", SourceColumnViewSet, basename="api-source-column")
router.register("schemas", SchemaViewSet, basename="api-schema")
router.register("datasets", DatasetViewSet, basename="api-dataset")
router.register("columns", ColumnViewSet, basename="api-column")
router.register("sensitive-columns", SensitiveColumnViewSet, basename="api-sensitive-column")
router.register("sensitive-source-columns", SensitiveSourceColumnViewSet, basename="api-sensitive-source-column")
router.register("references", ReferenceViewSet, basename="api-reference")
router.register("quality-checks", QualityCheckViewSet, basename="api-quality-check")
router.register("exposures", ExposureViewSet, basename="api-exposure")
router.register("copies", CopyViewSet, basename="api-copy")
router.register("contracts", ContractViewSet, basename="api-contract")
router.register("check-results", CheckResultViewSet, basename="api-check-result")
router.register("metadata", MetadataViewSet, basename="api-metadata")
router.register("next-step", NextStepViewSet, basename="api-next-step")
router.register("affected", AffectedViewSet, basename="api-affected")
router.register("search", SearchViewSet, basename="api-search")
router.register("load-runs", LoadRunViewSet, basename="api-load-run")
router.register("history-batches", BatchViewSet, basename="api-history-batch")
router.register("history-reverts", RevertViewSet, basename="api-history-revert")
router.register("history-prunes", PruneViewSet, basename="api-history-prune")
router.register("quarantine-decisions", QuarantineViewSet, basename="api-quarantine-decision")
router.register("copy-runs", CopyRunViewSet, basename="api-copy-run")
router.register("vacuums", VacuumViewSet, basename="api-vacuum")
router.register("table-acceptances", AcceptViewSet, basename="api-table-acceptance")
router.register("history-checks", CheckViewSet, basename="api-history-check")
router.register("reads", ReadViewSet, basename="api-read")
router.register("queries", QueryViewSet, basename="api-query")
router.register("schedules", ScheduleViewSet, basename="api-schedule")
router.register("environments", EnvironmentViewSet, basename="api-environment")
router.register("access", OwnAccessViewSet, basename="api-access")
router.register("users", UserViewSet, basename="api-user")
router.register("refreshes", RefreshViewSet, basename="api-refresh")
router.register("reports", ReportViewSet, basename="api-report")
router.register("dry-runs", DryRunViewSet, basename="api-dry-run")
router.register("executions", ExecutionViewSet, basename="api-execution")
router.register("records", RecordViewSet, basename="api-record")
router.register("drift", DriftViewSet, basename="api-drift")
router.register("health-findings", HealthViewSet, basename="api-health-finding")
router.register("changes", ChangeLogViewSet, basename="api-change")
router.register("maintenance-records", MaintenanceRecordViewSet, basename="api-maintenance-record")
router.register("notices", NoticeViewSet, basename="api-notice")
router.register("comments", CommentViewSet, basename="api-comment")
router.register("saved-filters", SavedFilterViewSet, basename="api-saved-filter")
router.register("favourites", FavouriteViewSet, basename="api-favourite")
router.register("webhooks", WebhookViewSet, basename="api-webhook")
router.register("deliveries", DeliveryViewSet, basename="api-delivery")

describe_api = SpectacularAPIView.as_view(
    generator_class=description.Describer, permission_classes=[IsAuthenticated, Reads]
)

urlpatterns = [
    path("", home.home, name="home"),
    path("home/now/", home.home_now, name="home_now"),
    path("home/warehouse/", home.home_warehouse, name="home_warehouse"),
    path("home/charts/", home.home_charts, name="home_charts"),
    path("sign-in/", SignIn.as_view(), name="sign_in"),
    path("sign-in/sso/", SingleSignOn.as_view(), name="sso"),
    path("sign-in/sso/callback/", SingleSignOnCallback.as_view(), name="sso_callback"),
    path("sign-out/", without_role(LogoutView.as_view()), name="sign_out"),
    path("me/", account_views.Me.as_view(), name="me"),
    path("me/password/", account_views.OwnPassword.as_view(), name="own_password"),
    path("users/", user_pages.UserList.as_view(), name="user_list"),
    path("users/<str:name>/", user_pages.UserPage.as_view(), name="user_page"),
    path("new-user/", user_pages.UserCreate.as_view(), name="user_new"),
    path("search/", SearchPage.as_view(), name="search"),
    path("help/glossary/", help_pages.Glossary.as_view(), name="glossary"),
    path("help/docs/<path:name>", help_pages.DocsPage.as_view(), name="docs_page"),
    path("healthz", home.healthz, name="healthz"),
    path("readyz", monitoring.readyz, name="readyz"),
    path("metrics", monitoring.metrics_page, name="metrics"),
    path("api/v1/schema/", describe_api, name="api-schema-document"),
    path("api/v1/docs/", description.swagger, name="api_swagger"),
    path("api/v1/", include(router.urls)),
    path("", include("elevata.notifications.urls")),
    path("", include("elevata.comments.urls")),
    path("", include("elevata.lists.urls")),
    path("", include("metadata.urls")),
    path("", include("architecture.urls")),
    path("", include("loader.urls")),
]

handler400 = "elevata.error_pages.bad_request"
handler403 = "elevata.error_pages.forbidden"
handler404 = "elevata.error_pages.not_found"
handler500 = "elevata.error_pages.server_error"
