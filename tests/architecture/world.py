"""Test world of architecture control: three users, a dataset and an in-memory warehouse.

The warehouse stores table shapes and executes steps as ``becomes`` computes them, so tests execute whole reports
without Spark. Like the loader, it stores its tables as observations.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from architecture.domain.steps.features import switches
from architecture.domain.steps.step import Step, TableShape, becomes, done_by
from architecture.domain.tables import ObservedTable
from architecture.models import ChangeReport, Environment, Execution, PolicyRecord, Preview
from architecture.services.approvals import approve
from architecture.services.change_policy import _put_in_force, _record, accept_policy, update_policies
from architecture.services.environments import current_environment
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.execution_checks import Todo, verify
from architecture.services.executions import claim_execution, end_attempt, request_execution
from architecture.services.observations import store_observations
from architecture.services.previews import make_preview
from architecture.services.report_basis import table_keys
from architecture.services.reports import build_report
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.services import chain
from metadata.domain.scope import Scope
from metadata.models import TargetDataset, TargetSchema
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import create_schema, create_target_column, create_target_dataset
from tests.database.row_cache import remembered
from tests.metadata.contracts import sales_mart

T = TypeVar("T")


class Killed(BaseException):
    """Simulated death of a worker."""


@dataclass
class Warehouse:
    """In-memory warehouse: table shapes and version numbers by stable key."""

    environment: Environment
    shapes: dict[str, TableShape] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)

    def table(self, key: str) -> ObservedTable | None:
        shape = self.shapes.get(key)
        if shape is None:
            return None
        return ObservedTable(
            key,
            shape.qualified_name,
            shape.columns,
            self.versions[key],
            partition_by=shape.partition_by,
            properties=switches(shape.features),
            dropped=shape.dropped,
        )

    def show(self, keys: Iterable[str] | None = None) -> None:
        """Store observations of all tables that the metadata or the warehouse knows."""
        requested = set(keys or ()) | table_keys(dataset_states()) | set(self.shapes)
        tables = {key: asdict(self.table(key)) for key in requested if key in self.shapes}
        store_observations(environment=self.environment, keys=requested, tables=tables)

    def do(self, step: Step) -> None:
        """Execute a step unless the table already has its result."""
        key, wanted = step.table.key, becomes(step) if step.leaves_trace else None
        if wanted is None or done_by(step, self.table(key)):
            return
        self.shapes[key] = wanted
        self.versions[key] = self.versions.get(key, -1) + 1
        self.commits.append(step.describe())

    def rename_behind_your_back(self, key: str, old: str, new: str) -> None:
        columns = tuple(
            replace(column, name=new) if column.name == old else column for column in self.shapes[key].columns
        )
        self.shapes[key] = replace(self.shapes[key], columns=columns)
        self.versions[key] += 1


def committed() -> None:
    """Seal pending change-log entries as after a commit, because the transaction of a test never commits."""
    chain.seal()


def person(name: str, *roles: Role | str) -> Any:
    """Return the user with exactly these roles, created without the service and thus without change-log entries."""
    user, _ = get_user_model().objects.get_or_create(username=name)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def customers(author: Any, name: str = "rc_crm_customer", **described: Any) -> TargetDataset:
    """Create ``rawcore.rc_crm_customer``, historized, with a key and two attributes, as the author."""
    with acting_as(author):
        known = TargetSchema.objects.filter(name="rawcore").first()
        schema = known or create_schema(name="rawcore", layer="rawcore")
        dataset = create_target_dataset(schema=schema, name=name, **({"historize": True} | described))
        create_target_column(
            dataset=dataset, name="customer_id", type="integer", role="business_key", key_ordinal=1, inputs=[]
        )
        create_target_column(dataset=dataset, name="full_name", type="string(50)", inputs=[])
        create_target_column(dataset=dataset, name="balance", type="decimal(10,2)", inputs=[])
    return dataset


@dataclass
class World:
    """Editor Ada, approver Bob and operator Olga with a common warehouse."""

    author: Any
    approver: Any
    operator: Any
    warehouse: Warehouse

    @property
    def environment(self) -> Environment:
        return Environment.objects.get(pk=self.warehouse.environment.pk)

    def report(self, scope: Scope | None = None, by: Any = None) -> ChangeReport:
        committed()
        self.warehouse.show()
        return build_report(environment=self.environment, scope=scope, user=by or self.author)

    def approved(self, scope: Scope | None = None) -> ChangeReport:
        report = self.report(scope)
        if report.status == "open" and self.needs_approval(report):
            approve(report=report, user=self.approver)
        report.refresh_from_db()
        return report

    def needs_approval(self, report: ChangeReport) -> bool:
        from architecture.services.approvals import approvals_missing

        return approvals_missing(report) > 0

    def previewed(self, scope: Scope | None = None) -> Preview:
        return make_preview(report=self.approved(scope), user=self.operator)

    def queued(self, scope: Scope | None = None) -> Execution:
        preview = self.previewed(scope)
        return request_execution(report=preview.report, user=self.operator).execution

    def work(self, execution: Execution, *, dies_at: float | None = None) -> Execution:
        """Execute one attempt as a worker.

        ``dies_at`` n: die before step n; n + 0.5: die after step n ran, before it is recorded.
        """
        attempt = claim_execution(execution_pk=execution.pk, worker="w1")
        assert attempt is not None
        self.warehouse.show()
        todo = verify(_fresh(execution))
        self._run(todo, attempt, dies_at)
        for ordinal in attempt.silent_rows():
            attempt.step_finished(ordinal, succeeded=True)
        end_attempt(attempt=attempt, wanted="succeeded")
        return _fresh(execution)

    def _run(self, todo: Todo, attempt: ExecutionAttempt, dies_at: float | None) -> None:
        for place in todo.left:
            step = todo.steps[place]
            if dies_at == place:
                raise Killed
            attempt.step_started(place, version_before=self.warehouse.versions.get(step.table.key))
            self.warehouse.do(step)
            if dies_at == place + 0.5:
                raise Killed
            table = self.warehouse.table(step.table.key)
            observation = asdict(table) if table else None
            attempt.step_finished(
                place, succeeded=True, observed=observation, version_after=table.version if table else None
            )

    def executed(self, scope: Scope | None = None) -> Execution:
        return self.work(self.queued(scope))


def _fresh(execution: Execution) -> Execution:
    return Execution.objects.select_related("environment", "report__environment", "preview").get(pk=execution.pk)


def make_world() -> World:
    return World(
        person("ada", Role.EDITOR),
        person("bob", Role.APPROVER),
        person("olga", Role.OPERATOR),
        Warehouse(current_environment()),
    )


def remembered_in(world: World, name: str, make: Callable[[], T]) -> T:
    """Run ``make`` or restore its rows and its changes of the world from the row cache; return its result."""
    result, after = remembered(name, lambda: (make(), world))
    vars(world).update(vars(after))
    return result


def customers_built(world: World) -> World:
    """Create and build the customers dataset in the world; return the world."""
    customers(world.author)
    world.executed()
    return world


def make_built_world() -> World:
    """Return a new world with customers described and built."""
    return remembered("customers built", lambda: customers_built(make_world()))


def contract_built(world: World) -> World:
    """Put the contract ``mart.sales``, which a dashboard reads, in force; return the world."""
    with acting_as(world.author):
        sales_mart()
    world.executed()
    return world


def make_contract_world() -> World:
    """Return a new world with a contract in force."""
    return remembered("contract built", lambda: contract_built(make_world()))


def agree_on_policy(environment: Environment, policies: dict[str, Any]) -> None:
    """Change the policy with two administrators: the second accepts what the first proposes."""
    environment.refresh_from_db()
    proposal = update_policies(
        environment=environment,
        policies=policies,
        expected_version=environment.policies_version,
        user=person("root", Role.ADMIN),
    )
    if proposal is not None:
        accept_policy(proposal=proposal, user=person("rita", Role.ADMIN))
        environment.refresh_from_db()


def put_policy_in_force(environment: Environment, policies: dict[str, Any]) -> None:
    """Store a policy and its record without approval and without notifications."""
    row = Environment.objects.get(pk=environment.pk)
    user = person("policies")
    with transaction.atomic():
        _put_in_force(row, policies, user)
        _record(row, PolicyRecord.Action.SET, policies=policies, user=user)
    environment.refresh_from_db()
