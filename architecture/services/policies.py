"""Policies: what an environment allows, edited by people, with the installation's variables as defaults."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from architecture.domain.policy import PolicySet
from architecture.domain.workflow import Refused
from architecture.models import Environment
from architecture.places import place_of_environment
from architecture.services.people import must_be_permitted, on_behalf_of
from metadata.domain.roles import Permission
from metadata.services.changelog import record_change


def policy_of(environment: Environment) -> PolicySet:
    """The policy set in force: the environment's own choices over the ``ELEVATA_ALLOW_…`` defaults."""
    return PolicySet.from_json(environment.policies, default_policy())


def default_policy() -> PolicySet:
    return PolicySet.of_flags(settings.POLICY_DEFAULTS)


@transaction.atomic
def update_policies(
    *, environment: Environment, policies: Mapping[str, Any], expected_version: int, person: Any
) -> Environment:
    """Set what the environment says differently from the defaults. Stands in the change log.

    Refused POLICY_CHANGED if somebody was faster; PolicyProblem for what is no policy.
    """
    must_be_permitted(person, Permission.MANAGE_POLICIES, on=place_of_environment(environment))
    before = policy_of(environment)
    after = PolicySet.from_json(policies, default_policy())
    changed = Environment.objects.filter(pk=environment.pk, policies_version=expected_version).update(
        policies=dict(policies), policies_version=F("policies_version") + 1
    )
    if not changed:
        raise Refused("POLICY_CHANGED")
    environment.refresh_from_db()
    if before.as_json() != after.as_json():
        with on_behalf_of(person):
            record_change(
                action="changed",
                subject_kind="policy",
                subject_key=environment.name,
                subject_name=f"policy of {environment}",
                before=before.as_json(),
                after=after.as_json(),
            )
    return environment
