"""Changes of a table that wait for a decision: until then, its data is refused."""

from django.conf import settings

from architecture.services.automatic_changes import pending_changes
from architecture.services.environments import current_environment
from architecture.services.observations import last_observations
from architecture.services.report_basis import table_keys
from architecture.services.reports import build_report, refresh_state
from elevata.accounts.actors import current_actor
from elevata.audit.services import chain
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.fivetran.tables import rawcore_of
from loader.services.loads.plans import plan_named
from metadata.domain.scope import DATASET, Scope
from metadata.models import SourceDataset


def refuse_waiting(source: SourceDataset) -> None:
    """Create a change report if changes of the table need a decision, and raise Refusal REPORT_WAITS, which names it.

    Other changes are executed by the next write.
    """
    through = chain.sealed_through()
    name, environment = str(rawcore_of(source)), current_environment()
    plan = plan_named(name)
    tables = table_keys(plan.states[key] for key in plan.described)
    refresh_state(environment=environment, keys=lambda: tables, local=False)
    pending = pending_changes(
        environment=environment,
        states=plan.states.values(),
        keys=plan.described,
        observations=last_observations(environment=environment, keys=tables),
        through=through,
    )
    if not pending.needing:
        return
    scope = Scope(DATASET, name, target_only=True)
    report = build_report(environment=environment, scope=scope, user=current_actor().user)
    raise Refusal(
        "REPORT_WAITS",
        f"{counted(len(pending.needing), 'change needs', 'changes need')} a decision before rows can be written to "
        f"{name}: {'; '.join(pending.needing[:3])}",
        hint=f"Have change report {report.report_id} of environment {settings.ENVIRONMENT} approved and executed in "
        "elevata, then sync again.",
    )
