"""All addresses: pages, parts of pages, the REST API."""

from django.contrib.auth.views import LogoutView
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.routers import APIRootView, DefaultRouter

from architecture.api.rehearsals import RehearsalViewSet
from architecture.api.views import RecordViewSet
from elevata import views
from loader.api.control import DriftViewSet, ExecutionViewSet, LookViewSet, ReportViewSet
from loader.api.sources import SourceDatasetViewSet, SystemViewSet
from loader.api.views import GovernedRecordViewSet, LoadRunViewSet
from metadata.api.views import (
    ColumnViewSet,
    DatasetViewSet,
    SchemaViewSet,
    SourceColumnViewSet,
)


class ApiRoot(APIRootView):
    """The API's collections."""

    permission_classes = (IsAuthenticated,)


router = DefaultRouter()
router.APIRootView = ApiRoot
router.include_format_suffixes = False
router.register("systems", SystemViewSet, basename="api-system")
router.register("source-datasets", SourceDatasetViewSet, basename="api-source-dataset")
router.register("source-columns", SourceColumnViewSet, basename="api-source-column")
router.register("schemas", SchemaViewSet, basename="api-schema")
router.register("datasets", DatasetViewSet, basename="api-dataset")
router.register("columns", ColumnViewSet, basename="api-column")
router.register("load-runs", LoadRunViewSet, basename="api-load-run")
router.register("looks", LookViewSet, basename="api-look")
router.register("reports", ReportViewSet, basename="api-report")
router.register("rehearsals", RehearsalViewSet, basename="api-rehearsal")
router.register("executions", ExecutionViewSet, basename="api-execution")
router.register("records", RecordViewSet, basename="api-record")
router.register("drift", DriftViewSet, basename="api-drift")
router.register("governed-records", GovernedRecordViewSet, basename="api-governed-record")

describe_api = SpectacularAPIView.as_view(permission_classes=[IsAuthenticated])

urlpatterns = [
    path("", views.home, name="home"),
    path("home/now/", views.home_now, name="home_now"),
    path("home/warehouse/", views.home_warehouse, name="home_warehouse"),
    path("sign-in/", views.SignIn.as_view(), name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("healthz", views.healthz, name="healthz"),
    path("api/v1/schema/", describe_api, name="api-schema-document"),
    path("api/v1/", include(router.urls)),
    path("", include("metadata.urls")),
    path("", include("architecture.urls")),
    path("", include("loader.urls")),
]

handler400 = "elevata.views.bad_request"
handler403 = "elevata.views.forbidden"
handler404 = "elevata.views.not_found"
handler500 = "elevata.views.server_error"
