"""All addresses: pages, parts of pages, the REST API."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.routers import APIRootView, DefaultRouter

from architecture.api.dry_runs import RehearsalViewSet
from architecture.api.environments import EnvironmentViewSet
from architecture.api.views import RecordViewSet
from elevata.accounts import views as people_pages
from elevata.accounts.sign_in import SignIn
from elevata.accounts.single_sign_on import SingleSignOn, SingleSignOnCallback
from elevata.api import description
from elevata.ops import monitoring
from elevata.web import views
from loader.api.architecture import DriftViewSet, ExecutionViewSet, LookViewSet, ReportViewSet
from loader.api.batches import BatchViewSet
from loader.api.maintenance import CheckViewSet, PruneViewSet, RevertViewSet
from loader.api.reads import ReadViewSet
from loader.api.schedules import ScheduleViewSet
from loader.api.search import SearchViewSet
from loader.api.sources import MetadataViewSet, SourceDatasetViewSet, SystemViewSet
from loader.api.views import GovernedRecordViewSet, LoadRunViewSet
from metadata.api.changes import ChangeLogViewSet
from metadata.api.lineage import ColumnViewSet, DatasetViewSet
from metadata.api.notices import DeliveryViewSet, NoticeViewSet, WebhookViewSet
from metadata.api.people import PersonViewSet
from metadata.api.permissions import Reads
from metadata.api.references import ReferenceViewSet
from metadata.api.resources import JsonOnly
from metadata.api.views import SchemaViewSet, SourceColumnViewSet
from metadata.permissions import without_role


class ApiRoot(APIRootView):
    """The API's collections."""

    permission_classes = (IsAuthenticated, Reads)
    content_negotiation_class = JsonOnly


router = DefaultRouter()
router.APIRootView = ApiRoot
router.include_format_suffixes = False
router.register("systems", SystemViewSet, basename="api-system")
router.register("source-datasets", SourceDatasetViewSet, basename="api-source-dataset")
router.register("source-columns", SourceColumnViewSet, basename="api-source-column")
router.register("schemas", SchemaViewSet, basename="api-schema")
router.register("datasets", DatasetViewSet, basename="api-dataset")
router.register("columns", ColumnViewSet, basename="api-column")
router.register("references", ReferenceViewSet, basename="api-reference")
router.register("metadata", MetadataViewSet, basename="api-metadata")
router.register("search", SearchViewSet, basename="api-search")
router.register("load-runs", LoadRunViewSet, basename="api-load-run")
router.register("history-batches", BatchViewSet, basename="api-history-batch")
router.register("history-reverts", RevertViewSet, basename="api-history-revert")
router.register("history-prunes", PruneViewSet, basename="api-history-prune")
router.register("history-checks", CheckViewSet, basename="api-history-check")
router.register("reads", ReadViewSet, basename="api-read")
router.register("schedules", ScheduleViewSet, basename="api-schedule")
router.register("environments", EnvironmentViewSet, basename="api-environment")
router.register("people", PersonViewSet, basename="api-person")
router.register("looks", LookViewSet, basename="api-look")
router.register("reports", ReportViewSet, basename="api-report")
router.register("rehearsals", RehearsalViewSet, basename="api-rehearsal")
router.register("executions", ExecutionViewSet, basename="api-execution")
router.register("records", RecordViewSet, basename="api-record")
router.register("drift", DriftViewSet, basename="api-drift")
router.register("changes", ChangeLogViewSet, basename="api-change")
router.register("governed-records", GovernedRecordViewSet, basename="api-governed-record")
router.register("notices", NoticeViewSet, basename="api-notice")
router.register("webhooks", WebhookViewSet, basename="api-webhook")
router.register("deliveries", DeliveryViewSet, basename="api-delivery")

describe_api = SpectacularAPIView.as_view(
    generator_class=description.Describer, permission_classes=[IsAuthenticated, Reads]
)

urlpatterns = [
    path("", views.home, name="home"),
    path("home/now/", views.home_now, name="home_now"),
    path("home/warehouse/", views.home_warehouse, name="home_warehouse"),
    path("sign-in/", SignIn.as_view(), name="sign_in"),
    path("sign-in/sso/", SingleSignOn.as_view(), name="sso"),
    path("sign-in/sso/callback/", SingleSignOnCallback.as_view(), name="sso_callback"),
    path("sign-out/", without_role(LogoutView.as_view()), name="sign_out"),
    path("me/", people_pages.me, name="me"),
    path("me/password/", people_pages.own_password, name="own_password"),
    path("people/", people_pages.person_list, name="person_list"),
    path("people/<str:name>/", people_pages.person_page, name="person_page"),
    path("new-person/", people_pages.person_new, name="person_new"),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", monitoring.readyz, name="readyz"),
    path("metrics", monitoring.metrics_page, name="metrics"),
    path("api/v1/schema/", describe_api, name="api-schema-document"),
    path("api/v1/docs/", description.swagger, name="api_swagger"),
    path("api/v1/redoc/", description.redoc, name="api_redoc"),
    path("api/v1/", include(router.urls)),
    path("", include("metadata.urls")),
    path("", include("architecture.urls")),
    path("", include("loader.urls")),
]

handler400 = "elevata.web.views.bad_request"
handler403 = "elevata.web.views.forbidden"
handler404 = "elevata.web.views.not_found"
handler500 = "elevata.web.views.server_error"
