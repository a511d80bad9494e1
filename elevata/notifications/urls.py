"""URLs of notifications and webhooks."""

from django.urls import path

import elevata.web.converters  # noqa: F401  # registers <number:...>
from elevata.notifications import views, webhook_views

urlpatterns = [
    path("notices/", views.NoticeList.as_view(), name="notice_list"),
    path("notices/bell/", views.notice_bell, name="notice_bell"),
    path("notices/read/", views.notices_read, name="notices_read"),
    path("notices/settings/", views.NoticeSettings.as_view(), name="notice_settings"),
    path("notices/<number:pk>/", views.notice_go, name="notice_go"),
    path("webhooks/", webhook_views.WebhookList.as_view(), name="webhook_list"),
    path("webhooks/new/", webhook_views.WebhookCreate.as_view(), name="webhook_new"),
    path("webhooks/<uuid:key>/", webhook_views.WebhookDetail.as_view(), name="webhook_page"),
    path("webhooks/<uuid:key>/edit/", webhook_views.WebhookEdit.as_view(), name="webhook_edit"),
    path("webhooks/<uuid:key>/delete/", webhook_views.WebhookDelete.as_view(), name="webhook_delete"),
    path("webhooks/<uuid:key>/test/", webhook_views.WebhookTest.as_view(), name="webhook_test"),
    path("deliveries/", webhook_views.DeliveryList.as_view(), name="delivery_list"),
    path("deliveries/<number:pk>/", webhook_views.DeliveryDetail.as_view(), name="delivery_page"),
    path("deliveries/<number:pk>/replay/", webhook_views.DeliveryReplay.as_view(), name="delivery_replay"),
]
