"""Source systems, datasets and columns."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower

from elevata.audit.models import Versioned
from elevata.core.lengths import MAX_SHORT_NAME
from metadata.domain.sources import contracts, formats
from metadata.models.base import Classified, Described, TypedColumn, typed_column_constraints


class System(Versioned, Described):
    """Source system: a folder of files, a database reached by JDBC, a Kafka cluster, or a REST API; target of copies.

    Copies go to PostgreSQL (``jdbc``), to a DuckDB file or to a folder of Delta tables; the latter two have no sources.

    ``short_name`` is part of the names of everything generated from it (``raw_air_airport``). ``location`` of a
    file system is a folder that the datasets' own locations are relative to; of a database or cluster it is its URL
    without a password, of an API its base URL. ``secret`` names the environment variable with the password, which is
    never stored. ``options`` are those of the kind (``metadata.domain.sources.system_options``).
    """

    LOG_KEY: ClassVar[str] = "short_name"

    class Kind(models.TextChoices):
        FILES = "files", "Files"
        JDBC = "jdbc", "Database (JDBC)"
        KAFKA = "kafka", "Kafka cluster"
        REST = "rest", "REST API"
        DUCKDB = "duckdb", "DuckDB file"
        DELTA = "delta", "Folder of Delta tables"

    name = models.CharField(max_length=200, unique=True)
    short_name = models.CharField(max_length=20, unique=True)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.FILES)
    location = models.CharField(max_length=1000, blank=True, default="")
    secret = models.CharField(max_length=100, blank=True, default="")
    options = models.JSONField(default=dict, blank=True)
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["short_name"]

    def __str__(self) -> str:
        return self.short_name


class SourceDataset(Versioned, Described):
    """Table, topic, endpoint or file of a system, as a contract of its deliveries.

    ``key`` is the stable key; ``options`` are the format's options (``metadata.domain.sources.reading_options``),
    ``intake`` selects the rows that a load reads (``metadata.domain.sources.intake``). ``new_columns`` is the rule for
    columns that are delivered but are not in the contract.
    """

    LOG_KIND: ClassVar[str] = "source_dataset"

    class Format(models.TextChoices):
        CSV = "csv", "CSV"
        FIXED = "fixed", "Fixed width"
        JSONL = "jsonl", "JSON lines"
        JSON = "json", "JSON document"
        XML = "xml", "XML"
        XLSX = "xlsx", "Excel workbook"
        PARQUET = "parquet", "Parquet"
        ORC = "orc", "ORC"
        AVRO = "avro", "Avro"
        DELTA = "delta", "Delta table"
        TABLE = "table", "Database table"
        KAFKA = "kafka", "Kafka topic"
        REST = "rest", "REST endpoint"

    class NewColumns(models.TextChoices):
        PROPOSE = contracts.PROPOSE, "Propose them"
        TAKE = contracts.TAKE, "Take them at once"
        IGNORE = contracts.IGNORE, "Ignore them"

    system = models.ForeignKey(System, on_delete=models.PROTECT, related_name="datasets")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=200)
    short_name = models.CharField(max_length=MAX_SHORT_NAME)
    location = models.CharField(max_length=1000)
    format = models.CharField(max_length=10, choices=Format, default=Format.CSV)
    options = models.JSONField(default=dict, blank=True)
    intake = models.JSONField(
        default=dict, blank=True, help_text="Rows that a load reads; empty means all rows of the delivery."
    )
    history_policy = models.JSONField(
        default=dict, blank=True, help_text="What generated history starts from; empty means full snapshots."
    )
    historize = models.BooleanField(default=True)
    new_columns = models.CharField(max_length=10, choices=NewColumns, default=NewColumns.PROPOSE)
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["system__short_name", "short_name"]
        constraints = [
            models.UniqueConstraint(
                fields=["system", "name"],
                name="source_dataset_name_once",
                violation_error_message="The system has another dataset of this name.",
            ),
            models.UniqueConstraint(
                "system",
                Lower("short_name"),
                name="source_dataset_short_name_once",
                violation_error_message="The system has another dataset of this short name.",
            ),
            models.CheckConstraint(
                name="source_dataset_format",
                condition=models.Q(format__in=formats.NAMES),
                violation_error_message="There is no such format.",
            ),
            models.CheckConstraint(
                name="source_dataset_new_columns",
                condition=models.Q(new_columns__in=contracts.NEW_COLUMNS),
                violation_error_message="There is no such rule for new columns.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.system.short_name}.{self.name}"


class SourceColumn(Versioned, Described, Classified, TypedColumn):
    """Column that a source dataset promises to deliver.

    ``key_ordinal`` is its position (from 1) in the business key, NULL outside it. ``target_name`` is its name in
    stage and rawcore; if empty, the naming rules apply.
    """

    LOG_KIND: ClassVar[str] = "source_column"

    dataset = models.ForeignKey(SourceDataset, on_delete=models.CASCADE, related_name="columns")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=200)
    target_name = models.CharField(max_length=200, blank=True, default="")
    ordinal = models.PositiveIntegerField()
    key_ordinal = models.PositiveSmallIntegerField(null=True, blank=True)
    integrate = models.BooleanField(default=True, help_text="Whether generation takes it into the warehouse.")
    pii = models.BooleanField(default=False)
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["dataset", "ordinal", "id"]
        constraints = [
            models.UniqueConstraint(
                "dataset",
                Lower("name"),
                name="source_column_name_once",
                violation_error_message="The dataset has another column of this name (case does not part names).",
            ),
            models.UniqueConstraint(
                fields=["dataset", "key_ordinal"],
                condition=models.Q(key_ordinal__isnull=False, active=True),
                name="source_column_key_ordinal_once",
                violation_error_message="Another column has this place in the business key.",
            ),
            *typed_column_constraints("source_column"),
        ]

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}"
