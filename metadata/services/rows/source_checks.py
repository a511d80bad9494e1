"""Checks of systems, source datasets and source columns before they are written."""

from collections.abc import Callable

from django.conf import settings
from django.db.models import Q

from elevata.audit.services.transactions import are_constraints_left_to_database, check_fields
from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.copies import check_target
from metadata.domain.history.history_policy import CDC, HistoryPolicy
from metadata.domain.sources.clusters import check_topic, parse_cluster
from metadata.domain.sources.database_locations import check_database_location
from metadata.domain.sources.formats import FORMATS_OF_KIND, OP, SEQUENCE, reads_changes
from metadata.domain.sources.intake import Intake
from metadata.domain.sources.locations import check_location
from metadata.domain.sources.option_kinds import names_of
from metadata.domain.sources.queries import check_queries
from metadata.domain.sources.reading_options import check_options
from metadata.domain.sources.rest_addresses import check_endpoint, parse_api
from metadata.domain.sources.secret_names import check_secret_name
from metadata.domain.sources.system_options import check_system_options
from metadata.domain.sql import PLACEHOLDER, placeholder_name
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.rows.checks import (
    MAX_DATASET_SHORT_NAME,
    check_free_text,
    check_key_place,
    check_other,
    check_other_column,
    reason_for_key,
    refuse_address,
    with_place,
)
from metadata.services.rows.row_names import check_word_list

LOCATION_PLACEHOLDERS = ("data_dir",)


def check_system(row: System) -> None:
    with_place(row, lambda: naming.check_short_name(row.short_name))
    check_other(row, System, "short_name")
    refuse_address(row.short_name, "short_name", str(row))
    with_place(row, lambda: _SYSTEM_LOCATIONS.get(row.kind, check_database_location)(row.location))
    with_place(row, lambda: check_secret_name(row.secret, settings.SOURCE_SECRETS))
    with_place(row, lambda: check_system_options(row.kind, row.options, secret=row.secret))
    check_word_list(row.tags, "tags", str(row))
    check_fields(row, str(row))
    _check_kind(row)
    _check_copies(row)


def _check_kind(row: System) -> None:
    """Refuse a kind that does not have the formats of the system's datasets."""
    if row.pk is None:
        return
    other = row.datasets.exclude(format__in=FORMATS_OF_KIND[row.kind]).first()
    if other is not None:
        message = f"{other} has the format {other.format}, which a system of kind {row.kind} does not have"
        raise MetadataError("in_use", f"{message}; register another system", "kind", str(row))


def _check_copies(row: System) -> None:
    """Refuse a kind or location that does not take the copies in the system."""
    copy = row.copies.select_related("dataset__schema").first() if row.pk is not None else None
    if copy is None:
        return
    try:
        check_target(row.kind, row.location)
    except MetadataError as problem:
        message = f"{copy.dataset} has a copy in it, and it {problem.message}"
        raise MetadataError("in_use", message, "kind", str(row)) from None


def check_source_dataset(row: SourceDataset) -> None:
    where = str(row)
    check_free_text(row.name, where)
    if not row.location.strip():
        raise MetadataError("invalid", "says where the data is; it cannot be empty", "location", where)
    _check_format(row, row.system.kind)
    if check := _DATASET_LOCATIONS.get(row.system.kind):
        with_place(row, lambda: check(row.location))
    with_place(row, lambda: naming.check_short_name(row.short_name, limit=MAX_DATASET_SHORT_NAME))
    with_place(row, lambda: check_options(row.format, row.options))
    if row.format == SourceDataset.Format.TABLE and row.system.location:
        with_place(row, lambda: check_queries(row.system.location, row.options))
    with_place(row, lambda: HistoryPolicy.from_dict(row.history_policy))
    with_place(row, lambda: _check_intake(row))
    check_word_list(row.tags, "tags", where)
    _check_other_source(row)
    check_fields(row, where)


def _check_format(row: SourceDataset, kind: str) -> None:
    """Refuse a format that systems of this kind do not have."""
    known = FORMATS_OF_KIND.get(kind, ())
    if not known:
        message = f"systems of kind {kind} take copies of datasets and have no sources"
        raise MetadataError("bad_format", message, "format", str(row))
    if row.format not in known:
        message = f"{str(row.format)!r} is no format of a system of kind {kind}; possible are {', '.join(known)}"
        raise MetadataError("bad_format", message, "format", str(row))


def _check_intake(row: SourceDataset) -> None:
    intake, policy = Intake.from_dict(row.intake), HistoryPolicy.from_dict(row.history_policy)
    intake.check_reader(policy)
    intake.check_detection(policy, row.format)
    check = _DATASET_LOCATIONS.get(row.system.kind)
    if intake.key_list and check is not None:
        try:
            check(intake.key_list)
        except MetadataError as problem:
            raise MetadataError(problem.code, problem.message, "intake.key_list") from None


def _check_other_source(row: SourceDataset) -> None:
    """Refuse a name or short name that another dataset of the system has."""
    if are_constraints_left_to_database():
        return
    same = Q(name=row.name) | Q(short_name__iexact=row.short_name)
    other = SourceDataset.objects.filter(same, system=row.system).exclude(pk=row.pk).first()
    if other is not None:
        field = "name" if other.name == row.name else "short_name"
        label = field.replace("_", " ")
        raise MetadataError("name_taken", f"The system has another dataset of this {label}.", field, str(row))


def check_source_column(row: SourceColumn) -> None:
    where = str(row)
    with_place(row, lambda: naming.check_column_name(row.name))
    if row.target_name:
        prefix = naming.ENGINE_PREFIX
        with_place(row, lambda: naming.check_column_name(row.target_name, reserved_prefix=prefix, field="target_name"))
    with_place(row, lambda: row.type)
    check_other_column(row, SourceColumn.objects.filter(dataset=row.dataset))
    if row.key_ordinal is not None and not row.integrate:
        raise MetadataError("invalid", "a business key column is always integrated", "integrate", where)
    check_key_place(row)
    check_word_list(row.tags, "tags", where)
    check_fields(row, where)


def check_source_policy(dataset: SourceDataset) -> None:
    """Check intake and policy of a source dataset against its columns and those that its targets will have.

    A dataset without columns is not checked, because columns are added after it.
    """
    contract = {c.name: c.type for c in dataset.columns.all() if c.active}
    if contract:
        intake = Intake.from_dict(dataset.intake)
        with_place(dataset, lambda: intake.check_against(dataset.format, contract, dataset.options))
    columns = [c for c in dataset.columns.all() if c.active and c.integrate]
    if not columns:
        return
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if policy.rank is not None:
        message = "ranks several sources, so it belongs to the policy of the dataset that unites them"
        raise MetadataError("bad_history_policy", message, "history_policy.rank", str(dataset))
    _check_deduplication(dataset, policy)
    if reads_changes(dataset.format, dataset.options) and policy.input != CDC:
        message = f"needs history input {CDC}, with op {OP} and time {SEQUENCE}"
        raise MetadataError("bad_option", message, "options.changes", str(dataset))
    if not dataset.history_policy:
        return
    with_place(dataset, lambda: policy.check_historize(dataset.historize))
    key = [column.name for column in columns if column.key_ordinal]
    if not key and (needs_key := reason_for_key(policy, historize=dataset.historize)):
        raise MetadataError("no_business_key", f"{needs_key} needs a business key", "history_policy", str(dataset))
    with_place(dataset, lambda: policy.check_described({c.name: c.type for c in columns}, key))


def _check_deduplication(dataset: SourceDataset, policy: HistoryPolicy) -> None:
    """Check that rows of one key can be ordered as the source's options say."""
    if "deduplicate" not in dataset.options:
        return
    columns = [column for column in dataset.columns.all() if column.active]
    names = {column.name for column in columns}
    missing = [name for name in names_of(dataset.options.get("order_by")) if name not in names]
    if missing:
        raise MetadataError("bad_option", f"there is no column {missing[0]!r}", "options.order_by", str(dataset))
    message = ""
    if policy.keeps_events(historize=dataset.historize):
        message = "does not go with rows that have a time of their own, of which a key may have several"
    elif not any(column.key_ordinal for column in columns):
        message = "needs a business key"
    if message:
        raise MetadataError("bad_option", message, "options.deduplicate", str(dataset))


def _check_location(location: str) -> None:
    for match in PLACEHOLDER.finditer(location):
        if placeholder_name(match) not in LOCATION_PLACEHOLDERS:
            raise MetadataError("invalid", f"{match[0]} is not known; {{{{ data_dir }}}} is", "location")
    check_location(location)


def _check_file(location: str) -> None:
    _check_location(location)
    if location.strip() and not location.strip().endswith((".duckdb", ".db")):
        raise MetadataError("bad_location", "is no file that ends with .duckdb or .db", "location")


def _check_cluster(location: str) -> None:
    if location.strip():
        parse_cluster(location)


# Checks of locations by the kind of the system; a table's location is checked by its database.
_SYSTEM_LOCATIONS: dict[str, Callable[[str], object]] = {
    System.Kind.FILES: _check_location,
    System.Kind.JDBC: check_database_location,
    System.Kind.KAFKA: _check_cluster,
    System.Kind.REST: parse_api,
    System.Kind.DUCKDB: _check_file,
    System.Kind.DELTA: _check_location,
}
_DATASET_LOCATIONS: dict[str, Callable[[str], object]] = {
    System.Kind.FILES: _check_location,
    System.Kind.KAFKA: check_topic,
    System.Kind.REST: check_endpoint,
}
