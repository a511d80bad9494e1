"""Template tags of load runs: readable refusals, and the permission to start loads."""

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from loader.domain.sources.proposal_states import OPEN
from loader.domain.sources.schema_changes import MISSING_COLUMN, VALUE_DOES_NOT_FIT
from loader.models import DatasetRun, LoadRun, SourceProposal
from loader.selectors.loads import is_loadable
from loader.selectors.quality_results import FailedUpstream
from loader.selectors.quality_results import failed_upstream as find_failed_upstream
from loader.services.reads.read_permissions import may_read, readable_error
from loader.services.sources.uploads import takes_uploads
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE
from metadata.models import TargetDataset
from metadata.permissions import here

register = template.Library()


register.filter("loadable", is_loadable)


@register.simple_tag
def run_link(run: LoadRun) -> SafeString:
    """Return the name of a run within a sentence, as a link with its id as the title."""
    address, title = reverse("run_page", args=[run.run_id]), run.title
    return format_html('the <a href="{}" title="{}">{}{}</a>', address, run.run_id, title[:1].lower(), title[1:])


@register.simple_tag(takes_context=True)
def may_start_loads(context: Any) -> bool:
    """Return True if the user may start load runs, and change histories, in this environment."""
    return may(context["user"], Permission.START_LOAD, on=here)


@register.inclusion_tag("parts/refusal.html", takes_context=True)
def run_refusal(context: dict, row: DatasetRun) -> dict:
    """Render the refusal of a dataset's load, without samples for a user who may not read the data."""
    return {"error": readable_error(context["user"], row.error, row.qualified_name), "level": "error"}


@register.inclusion_tag("parts/refusal.html", takes_context=True)
def run_faults(context: dict, row: DatasetRun) -> dict:
    """Render the faults of the quarantined rows of a delivery, without samples for a user who may not read the data."""
    return {"error": readable_error(context["user"], row.faults, row.qualified_name), "level": "warning"}


@register.inclusion_tag("loader/runs/rejected_rows.html", takes_context=True)
def rejected_rows(context: Any, row: DatasetRun) -> dict[str, Any]:
    """Render the link to the rejected rows of a delivery, and what can be done if they refused it.

    The link is left out for a user who may not read the data, links to forms for one who may not use them.
    """
    if not row.has_rejected_rows or row.dataset is None:
        return {}
    user, source = context["user"], row.dataset.generated_from if row.error else None
    may_edit = may(user, Permission.CHANGE_METADATA)
    is_uploadable = source is not None and may_edit and takes_uploads(source)
    return {
        "address": reverse("dataset_rejected", args=[row.dataset.key, row.run.run_id])
        if may_read(user, row.dataset)
        else "",
        "source": source,
        "can_quarantine": source is not None and source.options.get(FAULTY_ROWS) != QUARANTINE,
        "may_edit": may_edit,
        "upload": reverse("source_upload", args=[source.key]) if source is not None and is_uploadable else "",
    }


@register.simple_tag(takes_context=True)
def run_message(context: dict, row: DatasetRun) -> str:
    """Return the message of the refusal of a dataset's load, as far as the user may read it."""
    error = readable_error(context["user"], row.error, row.qualified_name) or {}
    return error.get("message") or "No message."


@register.simple_tag
def open_proposal(row: DatasetRun) -> SourceProposal | None:
    """Return the open proposal for the source of a dataset whose load told of another schema."""
    has_drift = bool(row.drift) or (row.error or {}).get("code") in (MISSING_COLUMN, VALUE_DOES_NOT_FIT)
    if not has_drift or row.dataset_id is None:
        return None
    return SourceProposal.objects.filter(source__feeds__dataset=row.dataset_id, status=OPEN).first()


@register.simple_tag
def failed_upstream(dataset: TargetDataset) -> FailedUpstream | None:
    """Return the failed quality checks of the datasets that a dataset is built on; None if there are none."""
    return find_failed_upstream(dataset)
