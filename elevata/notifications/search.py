"""Pages of notifications that the search finds."""

from elevata.web.search import PageEntry, PageKind

KINDS = (
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Notices", "notice_list", "notifications messages"),
            PageEntry("Notice settings", "notice_settings", "notifications mail"),
            PageEntry("Webhooks", "webhook_list", "notifications deliveries"),
            PageEntry("Webhook deliveries", "delivery_list", "notifications"),
        ),
    ),
    PageKind("action", "Action", (PageEntry("New webhook", "webhook_new", "create add notification"),)),
)
