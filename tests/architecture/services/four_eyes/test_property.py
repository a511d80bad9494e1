"""Property test of four eyes: no change reaches the warehouse that only its authors approved.

Three users with all permissions edit, approve, execute, load and change policies in any order, with sessions,
personal tokens and a service account. The services are the product's own, on a real database; the warehouse is in
memory. After each step that changed it, a judge that is independent of planner and change log checks the guarantee.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import connection, transaction
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, precondition, rule, run_state_machine_as_test

from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Environment, Execution, ExecutionRecord
from architecture.selectors.environments import open_proposal
from architecture.services.approvals import approve
from architecture.services.change_policy import accept_policy, policy_of, update_policies
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from architecture.services.undo import undo_report
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_service_account
from elevata.audit.services import chain
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.models import LoadRun
from loader.services.executions import perform_execution
from loader.services.loads.load_runs import RequestedRun, new_run_id, request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.approvals import approve_maintenance
from loader.services.maintenance.prunes import request_prune
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.maintenance.reverts import request_revert
from metadata.domain.scope import ALL, DATASET, SCHEMA, Scope
from metadata.models import TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_schema, create_target_dataset, update_target_column
from metadata.services.references import create_reference
from metadata.services.sources import create_source_column, create_source_dataset, create_system
from tests.architecture.services.four_eyes.edits import (
    SELECTS,
    AcceptProposal,
    Change,
    RenameDataset,
    SetReference,
    SetSelect,
    SwitchDataset,
    SwitchReference,
    changes,
    select,
)
from tests.architecture.services.four_eyes.facts import described
from tests.architecture.services.four_eyes.judge import Broken, Judge, Seen
from tests.architecture.services.four_eyes.warehouse import Runner
from tests.architecture.world import Warehouse, make_world, person, put_policy_in_force

pytestmark = [pytest.mark.django_db, pytest.mark.embedded_only]

BY_DAY = 6
EXAMPLES = int(os.environ.get("ELEVATA_FOUR_EYES_EXAMPLES", BY_DAY))
# Most steps consist of several actions. Nightly runs have longer sequences.
STEPS = 8 if EXAMPLES == BY_DAY else 12
MOST_ACCOUNTS = 7
# Edits that must succeed and facts that must reach the warehouse in a run, so that the judge has cases to check.
NEEDED = {"SetSelect", "SetReference", "SwitchReference", "RenameDataset", "SwitchDataset", "AcceptProposal", "undo"}
NEEDED |= {"select", "ghosts", "held back", "in use", "name", "type"}
# Refusals of the product: the action had no effect, so there is nothing to check.
REFUSALS = (Refused, Refusal, MetadataError)


@dataclass(frozen=True)
class Account:
    """Identity that a user acts with: their session, a token, or a service account (``is_program``)."""

    user: Any
    human: str
    by_token: bool = False
    is_program: bool = False


@dataclass
class Shop:
    """Warehouse of orders, described, built and loaded once, with the judge that recorded it."""

    people: tuple[Account, ...]
    warehouse: Warehouse
    judge: Judge


accounts, places = st.integers(0, MOST_ACCOUNTS - 1), st.integers(0, 3)
# None: the editor tries to approve with each of their own accounts.
approvers = st.none() | st.lists(accounts, min_size=1, max_size=3, unique=True)
edits = st.lists(changes(), min_size=1, max_size=2)
edits_or_none = st.lists(changes(), max_size=2)
moments = st.none() | st.tuples(st.sampled_from(["observe", "execute"]), accounts, changes())
RUNS = ["prune", "revert", "release", "drop"]
# Account that requests a failed run again, and approvers as for the first request.
repetitions = st.none() | st.tuples(accounts, approvers)
scopes = st.sampled_from([(ALL, False), (SCHEMA, False), (DATASET, False), (DATASET, True)])


class FourEyes(RuleBasedStateMachine):
    """Sequence of actions. The product may refuse any of them; the judge checks the others.

    Accounts are chosen by number: the three users, a service account of the first, a token of the second, and tokens
    created meanwhile.
    """

    shop: Shop
    # Edits that succeeded, and changes that reached the warehouse, in all sequences.
    succeeded: ClassVar[Counter[str]] = Counter()
    reports = Bundle("reports")

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.atomic()
        self.savepoint._from_testcase = True  # sealing must be outermost, except for a test's transaction
        self.savepoint.__enter__()
        cache.clear()
        self.people = list(self.shop.people)
        self.warehouse = deepcopy(self.shop.warehouse)
        self.judge = deepcopy(self.shop.judge)
        self.shown: dict[int, Seen] = {}
        self.proposed: tuple[str, str, Any] | None = None

    def teardown(self) -> None:
        self.succeeded.update(self.judge.moved)
        transaction.set_rollback(True)
        self.savepoint.__exit__(None, None, None)

    # --- actions ----------------------------------------------------------------------

    @rule(by=accounts, edits=edits)
    def edit(self, by: int, edits: list[Change]) -> None:
        """Edit the metadata."""
        for change in edits:
            self._edit(by, change)

    @precondition(lambda self: len(self.people) < MOST_ACCOUNTS)
    @rule(by=accounts, whom=accounts)
    def make_token(self, by: int, whom: int) -> None:
        """Create a token. A token for another user acts for its creator."""
        maker, user = self._account(by), self._account(whom).user
        with self._acting(maker):
            create_token(user=user)
            self.people.append(replace(self._account(whom), user=user, human=maker.human, by_token=True))

    @rule(
        by=accounts,
        choice=st.sampled_from(
            [("safe", 0), ("safe", 1), ("review", 0), ("review", 1), ("review", 2)]
            + [("drops", "needs_approval"), ("retypes", "needs_approval"), ("compares", "allow")]
            + [("drops", "block"), ("retypes", "block"), ("compares", "needs_approval")]
        ),
    )
    def change_policy(self, by: int, choice: tuple[str, Any]) -> None:
        """Change one choice of the change policy. One user alone cannot put a looser one in force."""
        account, (name, value) = self._account(by), choice
        environment = Environment.objects.get()
        policies = policy_of(environment).as_json()
        if name in ("safe", "review"):
            for risk in ("safe",) if name == "safe" else ("review", "destructive"):
                policies["approvals"][risk]["count"] = value
        else:
            code = {"drops": "DROP_COLUMN", "retypes": "RETYPE_COLUMN", "compares": "HISTORY_DIFFERS"}[name]
            policies["severities"][code] = value
        arguments = {"policies": policies, "expected_version": environment.policies_version}
        with self._acting(account):
            update_policies(environment=environment, user=account.user, **arguments)
            if self.judge.policy.is_looser(name, value):
                self.proposed = account.human, name, value
            else:
                setattr(self.judge.policy, name, value)

    @precondition(lambda self: self.proposed is not None)
    @rule(by=accounts)
    def accept_policy(self, by: int) -> None:
        """Accept the proposed looser policy; it is in force only if a second user accepts it."""
        account, (proposer, name, value) = self._account(by), self.proposed
        proposal = open_proposal(Environment.objects.get())
        if proposal is None:  # a stricter policy has replaced it
            return
        with self._acting(account):
            accept_policy(proposal=proposal, user=account.user)
            if account.human != proposer and not account.is_program:
                setattr(self.judge.policy, name, value)
            self.proposed = None

    @rule(target=reports, by=accounts, scope=scopes, place=places)
    def report(self, by: int, scope: tuple[str, bool], place: int) -> Any:
        """Build a change report of everything, a schema or a dataset."""
        return self._report(by, scope, place) or multiple()

    @rule(by=accounts, report=reports)
    def approve(self, by: int, report: int) -> None:
        """Approve one of the reports."""
        self._approve(by, report)

    @rule(by=accounts, report=reports, fails_at=st.none() | st.integers(0, 3), meanwhile=moments)
    def execute(self, by: int, report: int, fails_at: int | None, meanwhile: Any) -> None:
        """Preview and execute a report; a step may fail, and an edit may occur during observation or execution."""
        self._execute(by, report, fails_at, meanwhile)

    @rule(by=accounts, edits=edits_or_none, approvers=approvers, scope=scopes, place=places)
    def carry_out(
        self, by: int, edits: list[Change], approvers: list[int] | None, scope: tuple[str, bool], place: int
    ) -> None:
        """Edit, build the report, have it approved and execute it, without other actions in between."""
        self.edit(by, edits)
        report = self._report(by, scope, place)
        if report is not None:
            self._decide_and_execute(by, report, approvers)

    @precondition(lambda self: len(self.judge.before) > 1)
    @rule(by=accounts, place=places, operation=st.none() | places, metadata=st.booleans(), approvers=approvers)
    def undo(self, by: int, place: int, operation: int | None, metadata: bool, approvers: list[int] | None) -> None:
        """Undo one of the last executions, or one operation of it, with approvals and execution.

        With ``metadata``, the metadata is changed back as well. The first execution, which created all tables, stays.
        """
        account, report = self._account(by), None
        records = ExecutionRecord.objects.select_related("execution", "environment").order_by("-pk")
        latest = list(records)[:-1]
        record = latest[place % len(latest)]
        done = record.execution.operations.filter(status="succeeded", operation__isnull=False)
        ordinals = list(done.order_by("ordinal").values_list("ordinal", flat=True))
        chosen = [ordinals[operation % len(ordinals)]] if operation is not None and ordinals else None
        with self._acting(account):
            self.warehouse.show()
            report = undo_report(record=record, user=account.user, operations=chosen, metadata=metadata)
        if report is None:
            return
        self.judge.edited(account.human, described())
        seen = self.judge.undone(account.human, report.document["rows"], record.execution_id)
        self.shown.setdefault(report.pk, seen)
        self._decide_and_execute(by, report.pk, approvers)

    @rule(by=accounts, edits=edits)
    def load_everything(self, by: int, edits: list[Change]) -> None:
        """Edit and load all datasets; the load executes safe changes."""
        self.load(by, edits, (ALL, False), 0, None)

    @rule(by=accounts, edits=edits, approvers=approvers)
    def carry_everything_out(self, by: int, edits: list[Change], approvers: list[int] | None) -> None:
        """Execute and load everything, as is right if users other than the authors approve."""
        self.carry_out(by, edits, approvers, (ALL, False), 0)
        self.load_everything(by, [])

    @rule(by=accounts, edits=edits_or_none, scope=scopes, place=places, meanwhile=moments)
    def load(self, by: int, edits: list[Change], scope: tuple[str, bool], place: int, meanwhile: Any) -> None:
        """Edit and load. The load executes safe changes and runs the logic as of its claim."""
        self.edit(by, edits)
        account = self._account(by)
        with self._acting(account):
            named = Scope(scope[0], _name(scope[0], place), target_only=scope[1])
            requested = request_load_run(scope=named, user=account.user, wake_worker=False)
            runner, seen = self._runner(meanwhile), self.judge.now()
            perform_load_run(requested.run.pk, worker="w1", runner=runner)
            requested.run.refresh_from_db()
            assert (requested.run.error or {}).get("code") != "UNEXPECTED", requested.run.error
            if requested.run.execution is not None:
                execution = requested.run.execution
                self.judge.executed(_done(execution), runner.steps, seen, execution=execution.pk)
            for manifest in runner.loads:
                historized = {item.dataset: item.history is not None for item in manifest.rawcore}
                others = (item.dataset for item in (*manifest.raw, *manifest.models))
                self.judge.loaded(dict.fromkeys(others, False) | historized, seen)

    @rule(by=accounts, kind=st.sampled_from(RUNS), approvers=approvers, place=places, again=repetitions)
    def maintain(self, by: int, kind: str, approvers: list[int] | None, place: int, again: Any) -> None:
        """Request a prune, a revert or a quarantine decision, have it approved, and let a worker try it.

        With ``again``, the run is approved with all accounts and fails; then it is requested, approved and tried again.
        """
        account, requested = self._account(by), None
        with self._acting(account):
            requested = self._maintenance(kind, _name(DATASET, place), account.user)
        if requested is None:
            return
        if again is None:
            self._perform(requested.run, {by}, self._held_by(by) if approvers is None else approvers)
        elif self._perform(requested.run, {by}, range(len(self.people)), fails=True):
            repeater, others = again
            other = self._account(repeater)
            with self._acting(other):
                request_load_run(run_id=requested.run.run_id, user=other.user, wake_worker=False)
            self._perform(requested.run, {by, repeater}, self._held_by(repeater) if others is None else others)

    @rule(by=accounts, approver=accounts, edits=edits, deed=st.sampled_from(["execute", "approve", "repeat"]))
    def act_elsewhere(self, by: int, approver: int, edits: list[Change], deed: str) -> None:
        """Act in the installation of another environment on a report or run of this one, which must be refused."""
        account, other, requested = self._account(by), self._account(approver), None
        if deed == "execute":
            self.edit(by, edits)
            report = self._report(by, (ALL, False), 0)
            if report is not None:
                self._approve(approver, report)
                with self._acting(account):
                    make_preview(report=ChangeReport.objects.get(pk=report), user=account.user)
                with self._elsewhere(account):
                    request_execution(report=ChangeReport.objects.get(pk=report), user=account.user)
            return
        with self._acting(account):
            requested = self._maintenance("prune", _name(DATASET, 0), account.user)
        if requested is not None:
            with self._elsewhere(other):
                if deed == "approve":
                    approve_maintenance(run=requested.run, user=other.user)
                else:
                    request_load_run(run_id=requested.run.run_id, user=other.user, wake_worker=False)

    # --- helpers ---------------------------------------------------------------------------

    def _account(self, number: int) -> Account:
        return self.people[number % len(self.people)]

    def _maintenance(self, kind: str, dataset: str, user: Any) -> RequestedRun:
        common = {"dataset": dataset, "reason": "a test", "user": user, "wake_worker": False}
        if kind == "prune":
            return request_prune(ended_before="2020-01-01", run_id=new_run_id(), **common)
        if kind == "revert":
            loads = LoadRun.objects.filter(kind="load", status="succeeded", datasets__qualified_name=dataset)
            return request_revert(of_run=str(loads.first()), run_id=new_run_id(), **common)
        return request_quarantine(decision=kind, run_id=new_run_id(), **common)

    def _perform(self, run: LoadRun, requesters: set[int], approvers: Iterable[int], *, fails: bool = False) -> bool:
        """Approve a maintenance run and let a worker try it; return True if it reached the warehouse."""
        people: set[str] = set()
        for other in map(self._account, approvers):
            with self._acting(other):
                approve_maintenance(run=run, user=other.user)
                people |= set() if other.is_program else {other.human}
        runner = self._runner(None)
        runner.maintenance_fails = fails
        with self._acting(self._account(min(requesters))):
            perform_load_run(run.pk, worker="w1", runner=runner)
        run.refresh_from_db()
        assert (run.error or {}).get("code") != "UNEXPECTED", run.error
        if runner.maintained:
            self.judge.maintained({self._account(number).human for number in requesters}, people)
        return bool(runner.maintained)

    def _held_by(self, number: int) -> list[int]:
        """Return the numbers of all accounts of the user of this one."""
        human = self._account(number).human
        return [place for place, account in enumerate(self.people) if account.human == human]

    @contextmanager
    def _acting(self, account: Account) -> Iterator[None]:
        """Act with an account. A refusal changes nothing; changes are sealed as after a commit."""
        try:
            with acting_as(account.user, by_token=account.by_token):
                yield
        except REFUSALS:
            pass
        _seal()

    @contextmanager
    def _elsewhere(self, account: Account) -> Iterator[None]:
        """Act in the installation of another environment, which must be refused."""
        with override_settings(ENVIRONMENT="elsewhere"), self._acting(account):
            yield
            raise Broken(f"{account.human} acted on another environment than that of the installation")

    def _edit(self, by: int, change: Change) -> None:
        account = self._account(by)
        with self._acting(account), transaction.atomic():
            change.do()
            self.succeeded[type(change).__name__] += 1
        self.judge.edited(account.human, described())

    def _runner(self, meanwhile: Any, fails_at: int | None = None) -> Runner:
        runner = Runner(self.warehouse, fails_at=fails_at)
        if meanwhile is not None:
            moment, by, change = meanwhile
            runner.meanwhile[moment] = lambda: self._edit(by, change)
        return runner

    def _report(self, by: int, scope: tuple[str, bool], place: int) -> int | None:
        account, report = self._account(by), None
        with self._acting(account):
            self.warehouse.show()
            named = Scope(scope[0], _name(scope[0], place), target_only=scope[1])
            report = build_report(environment=Environment.objects.get(), scope=named, user=account.user)
            self.shown.setdefault(report.pk, self.judge.now())
        return report.pk if report is not None else None

    def _approve(self, by: int, pk: int) -> None:
        account, report = self._account(by), ChangeReport.objects.get(pk=pk)
        with self._acting(account):
            approve(report=report, user=account.user)
            if not account.is_program:
                self.judge.approved(account.human, report.document["rows"], self.shown[pk])

    def _decide_and_execute(self, by: int, report: int, approvers: list[int] | None) -> None:
        for approver in self._held_by(by) if approvers is None else approvers:
            self._approve(approver, report)
        self._execute(by, report, None, None)

    def _execute(self, by: int, pk: int, fails_at: int | None, meanwhile: Any) -> None:
        account, report = self._account(by), ChangeReport.objects.get(pk=pk)
        with self._acting(account):
            make_preview(report=report, user=account.user)
        with self._acting(account):
            execution = request_execution(report=report, user=account.user).execution
            before, runner = set(_succeeded(execution)), self._runner(meanwhile, fails_at)
            perform_execution(execution.pk, worker="w1", runner=runner)
            execution.refresh_from_db()
            assert (execution.error or {}).get("code") != "UNEXPECTED", execution.error
            done = [operation for place, operation in _done(execution, numbered=True) if place not in before]
            self.judge.executed(done, runner.steps, self.shown[pk], execution=execution.pk)
            self.succeeded["undo"] += bool(done) and report.undo_of_id is not None


def _seal() -> None:
    connection.run_on_commit.clear()
    chain.seal()


def _name(kind: str, place: int) -> str:
    """Return the name for a scope; datasets count from the last one, which reads the others."""
    if kind != DATASET:
        return "rawcore" if kind == SCHEMA else ""
    rows = TargetDataset.objects.filter(history_of__isnull=True).select_related("schema").order_by("-pk")
    return str(rows[place % len(rows)])


def _succeeded(execution: Execution) -> list[int]:
    """Return the positions of operations whose steps all succeeded."""
    rows = list(execution.operations.values_list("operation", "status"))
    return [place for place in {row[0] for row in rows} if all(s == "succeeded" for p, s in rows if p == place)]


def _done(execution: Execution, *, numbered: bool = False) -> list:
    execution.refresh_from_db()
    rows = (execution.planned or {}).get("rows", [])
    done = [(place, rows[place]) for place in _succeeded(execution) if place is not None]
    return done if numbered else [operation for _, operation in done]


def make_shop() -> Shop:
    """Describe, build and load orders: a raw table, a stage view, and historized tables.

    Sales have the rows of orders, and refer to them. Totals are a model that reads the table of orders.
    """
    world = make_world()
    put_policy_in_force(current_environment(), {"maintenance": {"count": 1}})
    ann, ben, cem = (person(name, Role.ADMIN) for name in ("ann", "ben", "cem"))
    cem.is_superuser = True
    cem.save()
    robot = create_service_account(name="robot", owner=ann, roles=[Role.EDITOR, Role.OPERATOR])
    robot.groups.add(*ann.groups.all())  # as in an installation that is older than service accounts
    with acting_as(ann):
        system = create_system(name="Shop", short_name="shop", location=django_settings.SOURCE_ROOTS[0])
        source = create_source_dataset(system=system, name="order", location="order.csv", historize=True)
        create_source_column(source_dataset=source, name="id", type="integer", key_ordinal=1)
        create_source_column(source_dataset=source, name="amount", type="integer")
        generate_targets(source_dataset=source)
        order = TargetDataset.objects.get(name="rc_shop_order")
        amount = order.columns.get(name="amount")
        update_target_column(column=amount, expected_version=amount.version, expression="upper(`amount`)")
        orders = TargetDataset.objects.get(name="stg_shop_order")
        sale = create_target_dataset(
            schema=order.schema, name="rc_shop_sale", inputs=[orders], take_columns=True, historize=True
        )
        id_ = sale.columns.get(name="id")
        update_target_column(column=id_, expected_version=id_.version, role="business_key", key_ordinal=1)
        create_reference(child=sale, parent=order, pairs=[(id_, order.columns.get(name="id"))])
        create_target_dataset(
            schema=create_schema(name="bizcore", layer="bizcore"),
            name="total",
            select=select(SELECTS[0], order, amount),
            business_key=["total_id"],
            historize=True,
        )
    people = (
        *(Account(user, user.username) for user in (ann, ben, cem)),
        Account(robot, "ann", by_token=True, is_program=True),
        Account(ben, "ben", by_token=True),
    )
    shop = Shop(people, world.warehouse, Judge(described()))
    FourEyes.shop = shop
    lasting().load(0, [], (ALL, False), 0, None)
    assert LoadRun.objects.get().status == "succeeded"
    assert shop.judge.histories()
    return shop


def lasting() -> FourEyes:
    """Return a state machine whose changes stay in the shop, for sequences to begin with."""
    machine = FourEyes()
    machine.savepoint.__exit__(None, None, None)
    machine.warehouse, machine.judge = machine.shop.warehouse, machine.shop.judge
    return machine


def settings_for(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        # Day runs repeat the same sequences, nightly runs draw new ones.
        derandomize=examples == BY_DAY,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


@pytest.fixture
def own_heads(settings: Any, tmp_path: Path) -> None:
    """Record heads of the chain in a folder of this test, because sequences are rolled back with their sealed links.

    Uploaded files stay in a folder beside it: each upload replaces the one before.
    """
    settings.AUDIT_FOLDER, settings.SOURCE_ROOTS = tmp_path / "audit", [str(tmp_path / "landing")]


def each_action() -> None:
    """Run actions that reach the warehouse because users other than the authors approve them."""
    machine, ann, ben, cem = FourEyes(), 0, 1, 2
    try:
        for edit in (SetSelect(0, SELECTS[1], 0), SetReference("ghost")):
            machine.carry_everything_out(ann, [edit], [cem])
            machine.undo(ben, 0, None, False, [cem])
            machine.carry_everything_out(ben, [], [cem])
        for edit in (SetReference("quarantine"), SwitchReference(), SwitchDataset(2)):
            machine.carry_everything_out(ben, [edit], [cem])
        machine.carry_everything_out(ann, [RenameDataset(1, "note"), AcceptProposal("note", "word")], [cem])
    finally:
        machine.teardown()


@pytest.mark.full
@pytest.mark.takes(seconds=25)
@pytest.mark.usefixtures("own_heads")
def test_change_approved_only_by_its_authors_never_reaches_the_warehouse() -> None:
    make_shop()
    FourEyes.succeeded.clear()
    each_action()
    assert (+FourEyes.succeeded).keys() >= NEEDED, FourEyes.succeeded
    run_state_machine_as_test(FourEyes, settings=settings_for(EXAMPLES))
