"""All readable URLs of the web app and the API: every route, filled with existing objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from architecture.models import ChangeReport, Execution, Lease, Preview
from bench.problem import BenchProblem
from bench.web.control import Control
from loader.models import LoadRun
from tests.elevata.web.addresses import Addresses
from tests.elevata.web.routes import RULES

# Not pages: their responses do not come from the database, or there are none for the open report.
_NOT_MEASURED = ("sign_in", "healthz", "api-report-sql", "report_sql_file")
# Objects without an example in the routes are not measured.
_REFUSED = 400


@dataclass(frozen=True)
class Page:
    """URL to measure, with its route and its special properties."""

    route: str
    address: str
    what: str = ""

    @property
    def name(self) -> str:
        return f"{self.route} ({self.what})" if self.what else self.route


def pages(control: Control) -> list[Page]:
    """Return every readable route once, then those for which size or search matters."""
    return [*_of_routes(control), *_more(control)]


def _of_routes(control: Control) -> Iterator[Page]:
    execution, report = _executed(), ChangeReport.objects.filter(status="open", scope__kind="dataset").latest("pk")
    given = {
        "run_id": ("run_id", control.busy.run_id),
        "lease": ("pk", Lease.objects.earliest("pk").pk),
        "execution": ("pk", execution.pk),
        "record_id": ("record_id", execution.record.record_id),
    }
    person = control.people["everything"]
    addresses = Addresses(control.dataset, person, lambda: Preview.objects.get(report=report), given)
    for name, rule in RULES.items():
        nothing = all(isinstance(status, int) and status >= _REFUSED for status in (rule.reader, rule.operator))
        if rule.method == "get" and name not in _NOT_MEASURED and not nothing:
            yield Page(name, f"{addresses[name]}?{urlencode(rule.data)}" if rule.data else addresses[name])


def _executed() -> Execution:
    return Execution.objects.filter(status="succeeded").latest("pk")


def _more(control: Control) -> Iterator[Page]:
    hub, night = [control.hub.key], LoadRun.objects.filter(run_id__startswith="night").latest("pk").run_id
    column = control.hub.columns.order_by("ordinal")[0]
    word = control.dataset.name.rsplit("_", 1)[-1]
    # Route -> arguments of its address, query and name of each further page.
    more: tuple[tuple[str, list[Any], str, str], ...] = (
        ("dataset_list", [], f"q={word}", "found by a name"),
        ("dataset_list", [], "q=amount", "found by a column"),
        ("dataset_list", [], "layer=rawcore&page=2", "of a layer"),
        ("search", [], "q=amount", "a name of many columns"),
        ("search", [], f"q={control.dataset}", "a qualified name"),
        ("search", [], "q=amuont", "a misspelled name"),
        ("dataset_page", hub, "", "referred to by most"),
        ("dataset_lineage", hub, "", "referred to by most"),
        ("column_lineage", [], f"focus={control.hub}", "of a dataset"),
        ("column_lineage", [], f"column=target:{column.key}", "of a column"),
        ("dataset_retire", hub, "", "referred to by most"),
        ("run_charts", [], "status=succeeded", "of everything"),
        ("run_page", [night], "", "of everything"),
        ("run_live", [control.busy.run_id], "", "under way"),
        ("next_step", [], f"dataset={control.hub.key}", "of a dataset"),
        ("report_page", [_executed().report.report_id], "", "executed"),
        ("change_list", [], "q=as+the+source", "found by a text"),
        ("change_list", [], f"dataset={control.dataset}", "of a dataset"),
        ("change_list", [], "page=100", "far back"),
    )
    for route, arguments, query, what in more:
        address = reverse(route, args=arguments)
        yield Page(route, f"{address}?{query}" if query else address, what)
    for report, what in ((control.everything, "all that is pending"), (control.first_day, "every dataset anew")):
        for part in ("report_page", "report_status", "report_behind", "report_differences", "report_downstream"):
            if part != "report_status" or report == control.everything:
                yield Page(part, reverse(part, args=[report.report_id]), what)


def signed_in(person: Any) -> Client:
    """Return a client that uses the server's host name, signed in as this user."""
    client = Client(SERVER_NAME="localhost")
    client.force_login(person)
    return client


def statements(client: Client, page: Page) -> list[str]:
    """Return the SQL statements of a page at its first request."""
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(page.address)
    if answer.status_code >= _REFUSED:
        raise BenchProblem(f"{page.name} at {page.address} answers {answer.status_code}")
    return [query["sql"] for query in queries.captured_queries]
