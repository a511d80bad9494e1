"""Work of a copy run: its manifest, and the states of its copies."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from architecture.domain.tables import TableSpec, tables_of
from architecture.models import Environment
from architecture.services.environments import current_environment
from architecture.services.row_signatures import proven_states
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from loader.contract.manifest.copies import CopyManifest, CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.refusals import Refusal
from loader.dialects.copied_columns import copied_columns, shape_of
from loader.domain.copies import SENSITIVE
from loader.domain.queries.masking import without_examples
from loader.models import CopyState, LoadRun
from loader.selectors.copies import active_copies
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import RunWork
from loader.services.reads.read_permissions import SensitiveNames, hidden_names, sensitive_columns
from loader.services.sources.specs import copy_place, database_place
from metadata.domain.copies import DUCKDB, JDBC, LEAVE_OUT, check_table
from metadata.domain.load_policy import COPIES
from metadata.domain.state import DatasetState
from metadata.models import DatasetCopy, System
from metadata.selectors.dataset_states import copy_rule


def copy_manifest(work: RunWork) -> CopyManifest:
    """Return the manifest of a run. Raise Refusal if none of the copies can be made.

    A copy that cannot be described gets its refusal as its state; the others are made.
    """
    plan = retried(lambda: plan_named(work.run.scope["name"]))
    state, asked = plan.steps[0].dataset, work.run.details["asked"]
    work.attempt.prepare(steps=plan.steps, numbered=False)
    sensitive = retried(lambda: sensitive_columns([state])).get(state.key, SensitiveNames())
    hidden = hidden_names(state, sensitive)
    targets, refused = retried(lambda: _targets(work.run, state, hidden))
    if refused and not asked["check"]:
        retried(lambda: store_refusals(work.run, refused))
    if not targets:
        raise next(iter(refused.values()), None) or Refusal("NO_COPIES", f"{state.qualified_name} has no copies")
    return CopyManifest(
        work.run.run_id,
        state.key,
        state.qualified_name,
        tuple(targets),
        check=asked["check"],
        verify=asked["verify"],
        sensitive=tuple(sorted(sensitive.names)),
        secret=salted_hmac("loader.copies", "values", algorithm="sha256").hexdigest(),
    )


def _targets(run: LoadRun, state: DatasetState, hidden: frozenset[str]) -> tuple[list[CopyTarget], dict[str, Refusal]]:
    targets: list[CopyTarget] = []
    refused: dict[str, Refusal] = {}
    table = next(table for table in tables_of(state) if table.key == state.key)
    approved = _approved(run.environment, state)
    copies = active_copies().filter(dataset__schema__name=state.schema, dataset__name=state.name)
    known = {
        str(row.copy_key): row
        for row in CopyState.objects.filter(environment=run.environment, copy_key__in=copies.values("key"))
    }
    for copy in copies.order_by("pk"):
        try:
            targets.append(_target(run, state, copy, table, hidden, approved, known.get(str(copy.key))))
        except Refusal as refusal:
            refused[str(copy.key)] = refusal
    return targets, refused


def _target(
    run: LoadRun,
    state: DatasetState,
    copy: DatasetCopy,
    table: TableSpec,
    hidden: frozenset[str],
    approved: Mapping[str, Any],
    known: CopyState | None,
) -> CopyTarget:
    system, key = copy.system, str(copy.key)
    treatment = copy.sensitive if approved.get(key) == copy_rule(copy) else LEAVE_OUT
    try:
        check_table(system.kind, copy.table_name)
    except MetadataError as problem:  # since the copy was described, the schema was renamed or the system changed
        message = f"the table {copy.table_name} cannot be in {system.short_name}: {problem.message}"
        raise Refusal("NOT_RENDERED", message, hint="Give the copy a table of its own.") from None
    columns = copied_columns(table, system.kind, sensitive=hidden, treatment=treatment)
    owners = {state.qualified_name, *(f"{state.schema}.{name}" for name in state.former_names)}
    if known is not None and known.dataset_name:
        owners.add(known.dataset_name)
    of_database = system.kind == JDBC
    made = known if known is not None and known.system == system.short_name else None
    return CopyTarget(
        key,
        system.short_name,
        system.kind,
        copy.table_name,
        copy.mode,
        columns,
        shape_of(columns),
        owners=tuple(sorted(owners)),
        environment=run.environment.name,
        database=DatabaseSpec(database_place(system), system.secret) if of_database else None,
        location="" if of_database else _location(system),
        former_table=made.table if made is not None and not _is_given_away(made) else "",
        former_shape=made.shape if made is not None else "",
    )


def _is_given_away(made: CopyState) -> bool:
    """Return True if another copy was made under the name that a copy had before."""
    others = CopyState.objects.filter(environment=made.environment, system=made.system, table__iexact=made.table)
    return others.exclude(pk=made.pk).filter(copied_at__gt=made.copied_at).exists() if made.copied_at else False


def _location(system: System) -> str:
    """Return the file or folder of a system. Raise Refusal NOT_FROM_HERE for a file that is not of this machine."""
    place = copy_place(system)
    if system.kind == DUCKDB and not place.is_local:
        raise Refusal("NOT_FROM_HERE", f"{place} is no file of this machine", hint="Correct the system's location.")
    return place.path if place.is_local else str(place)


def _approved(environment: Environment, state: DatasetState) -> Mapping[str, Any]:
    """Return the copies with sensitive columns of the last executed report, by their keys."""
    applied = next((known for known in proven_states(environment=environment) if known.key == state.key), None)
    policy = applied.load_policy if applied is not None else None
    rules = policy.get(COPIES) if isinstance(policy, Mapping) else None
    return rules if isinstance(rules, Mapping) else {}


def store_copies(run: LoadRun, manifest: CopyManifest, answer: Mapping[str, Any]) -> None:
    """Store the results of a run, in the states of its copies and in the run's details.

    A comparison changes no state; its findings are in the details only.
    """
    results = {key: dict(result) for key, result in (answer.get("copies") or {}).items()}
    names = {target.key: target for target in manifest.targets}
    findings = retried(lambda: unapproved(manifest.name))
    listed = [
        {"to": names[key].system, "table": names[key].table, "findings": findings.get(key, []), **result}
        for key, result in results.items()
    ]

    @transaction.atomic
    def write() -> None:
        details = {**run.details, "copies": listed}
        LoadRun.objects.filter(pk=run.pk).update(details=details)
        run.details = details
        for key, result in results.items():
            if not manifest.check:
                _store(run, names[key], manifest, result, findings.get(key, []))

    retried(write)


def store_refusals(run: LoadRun, refused: Mapping[str, Refusal]) -> None:
    """Store the refusals of copies that were not tried."""
    for copy in active_copies().filter(key__in=list(refused)):
        fields = {
            "status": "failed",
            "error": refused[str(copy.key)].as_json(),
            "run": run,
            "tried_at": timezone.now(),
            "dataset_key": copy.dataset.key,
            "system": copy.system.short_name,
        }
        _forget_former_system(run, str(copy.key), copy.system.short_name)
        CopyState.objects.update_or_create(environment=run.environment, copy_key=copy.key, defaults=fields)


def _forget_former_system(run: LoadRun, key: str, system: str) -> None:
    """Forget the table that a copy has in another system than its present one."""
    states = CopyState.objects.filter(environment=run.environment, copy_key=key).exclude(system=system)
    unknown = {"table": "", "dataset_name": "", "shape": "", "checksum": "", "mode": ""}
    states.update(**unknown, version=None, row_count=None, copied_at=None)


def _store(
    run: LoadRun, target: CopyTarget, manifest: CopyManifest, result: Mapping[str, Any], findings: list[str]
) -> None:
    now, is_there = timezone.now(), result["status"] != "failed"
    fields: dict[str, Any] = {
        "dataset_key": manifest.dataset,
        "system": target.system,
        "status": "copied" if is_there else "failed",
        "tried_at": now,
        "seconds": result["seconds"],
        "run": run,
        "findings": [*result["warnings"], *findings],
        "error": without_examples(result["error"], "") if result["error"] else None,
    }
    if is_there:
        fields |= {name: result[name] for name in ("version", "row_count", "checksum")}
        fields |= {"table": target.table, "dataset_name": manifest.name, "shape": target.shape}
    if result["status"] == "copied":
        fields |= {"copied_at": now, "mode": result["mode"]}
    _forget_former_system(run, target.key, target.system)
    CopyState.objects.update_or_create(environment=run.environment, copy_key=target.key, defaults=fields)


def unapproved(name: str) -> dict[str, list[str]]:
    """Return the finding COPY_SENSITIVE by key of each copy that has fewer columns than described."""
    schema, _, own = name.partition(".")
    copies = active_copies().filter(dataset__schema__name=schema, dataset__name=own).exclude(sensitive=LEAVE_OUT)
    if not copies:
        return {}
    state = plan_named(name).steps[0].dataset
    hidden = hidden_names(state, sensitive_columns([state]).get(state.key, SensitiveNames()))
    table = next(table for table in tables_of(state) if table.key == state.key)
    names = sorted(column.name for column in table.columns if column.name.lower() in hidden)
    if not names:
        return {}
    approved = _approved(current_environment(), state)
    text = f"{SENSITIVE}: {', '.join(names)} are left out until a change report that copies them is executed"
    return {str(copy.key): [text] for copy in copies if approved.get(str(copy.key)) != copy_rule(copy)}
