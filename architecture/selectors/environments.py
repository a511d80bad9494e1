"""Environments, with their leases and policy proposals."""

from django.db.models import Count, QuerySet

from architecture.domain.refusals import Refused
from architecture.models import Environment, Lease, PolicyProposal


def environment_named(name: str) -> Environment:
    """Return the environment with this name. Raise Refused UNKNOWN_ENVIRONMENT if there is none."""
    environment = Environment.objects.filter(name=name).first()
    if environment is None:
        known = ", ".join(Environment.objects.values_list("name", flat=True)) or "none yet"
        raise Refused("UNKNOWN_ENVIRONMENT", f"there is no environment {name!r}; known: {known}")
    return environment


def leases_held(*, environment: Environment) -> QuerySet[Lease]:
    """Return the leases that are held now, oldest first."""
    return Lease.objects.filter(environment=environment).exclude(holder_kind="").order_by("taken_at")


def open_proposal(environment: Environment) -> PolicyProposal | None:
    """Return the looser change policy that waits for a second user in an environment; None if there is none."""
    proposals = PolicyProposal.objects.filter(environment=environment, status=PolicyProposal.Status.PROPOSED)
    return proposals.select_related("proposed_by").first()


def environment_names() -> list[str]:
    """Return the names of the environments, sorted."""
    return list(Environment.objects.order_by("name").values_list("name", flat=True))


def environments() -> QuerySet[Environment]:
    """Return environments with their number of reports."""
    return Environment.objects.annotate(report_count=Count("reports")).order_by("name")
