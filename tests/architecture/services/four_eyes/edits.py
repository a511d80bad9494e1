"""Random edits of metadata, each as one call of a service."""

import re
from dataclasses import dataclass

from hypothesis import strategies as st

from loader.domain.sources import proposal_states
from loader.models import SourceProposal
from loader.services.sources.checks import check_source
from loader.services.sources.proposals import accept_proposal, open_changes
from loader.services.sources.uploads import store_delivery
from metadata.models import Reference, SourceDataset, TargetColumn, TargetDataset
from metadata.services import deletion, lifecycle, quality, references, sources
from metadata.services.datasets import targets
from metadata.services.datasets.cloning import clone_dataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import exported_files, import_records, read_files

TYPES = ("string(20)", "string(50)", "string", "integer", "bigint")
NAMES = ("amount", "note", "label", "extra")
TEXTS = ("{}", "upper({})", "coalesce({}, 'none')")
CONDITIONS = ("", "{} is not null", "{} <> 'test'")
# SELECTs of a model over one dataset, whose columns they qualify. Each has the same two columns.
SELECTS = (
    "SELECT o.{key} AS total_id, o.{key} AS total_value FROM {table} AS o WHERE o.{read} IS NOT NULL",
    "SELECT o.{key} AS total_id, o.{key} AS total_value FROM {table} AS o",
    "SELECT o.{key} AS total_id, o.{read} AS total_value FROM {table} AS o",
    "SELECT o.{key} AS total_id, max(o.{key}) AS total_value FROM {table} AS o GROUP BY o.{key}, o.{read}",
)
POLICIES = ({}, {"deletes": "ignore"}, {"deletes": "tombstone"}, {"views": ["current"]}, {"track": ["amount"]})


def datasets() -> list[TargetDataset]:
    """Return the datasets that can be edited: the stage view and the tables after it, not raw tables."""
    rows = TargetDataset.objects.filter(history_of__isnull=True).exclude(schema__layer="raw")
    return list(rows.select_related("schema").order_by("pk"))


def columns() -> list[TargetColumn]:
    """Return the columns of these datasets but for those of models, which follow from their SELECTs."""
    rows = TargetColumn.objects.filter(dataset__in=datasets(), dataset__select="").select_related("dataset__schema")
    return list(rows.order_by("dataset", "ordinal", "pk"))


def read_by(dataset: TargetDataset, place: int) -> TargetColumn:
    """Return a column of the dataset that an expression or a filter may name."""
    columns = TargetColumn.objects.filter(dataset__feeds__dataset=dataset).order_by("dataset", "ordinal", "pk")
    rows = list(columns.filter(active=True) or columns)  # naming a retired one is refused
    return rows[place % len(rows)]


def select(text: str, table: TargetDataset, read: TargetColumn) -> str:
    """Return a SELECT from a dataset: the key of its rows, and what another column decides or fills."""
    key = table.columns.filter(active=True, role="business_key").first() or read
    return text.format(table=table, key=f"`{key.name}`", read=f"`{read.name}`")


@dataclass(frozen=True)
class OfColumn:
    """Edit of one column, given by its position in the list of all columns."""

    place: int

    @property
    def row(self) -> TargetColumn:
        rows = columns()
        return rows[self.place % len(rows)]

    @staticmethod
    def change(row: TargetColumn, **changes: object) -> None:
        targets.update_target_column(column=row, expected_version=row.version, **changes)


@dataclass(frozen=True)
class RenameColumn(OfColumn):
    name: str

    def do(self) -> None:
        row = self.row
        lifecycle.rename_column(column=row, name=self.name, expected_version=row.version)


@dataclass(frozen=True)
class SetExpression(OfColumn):
    text: str
    reads: int

    def do(self) -> None:
        row = self.row
        self.change(row, expression=self.text.format(f"`{read_by(row.dataset, self.reads).name}`"))


@dataclass(frozen=True)
class SetType(OfColumn):
    type: str

    def do(self) -> None:
        self.change(self.row, type=self.type)


@dataclass(frozen=True)
class ForbidNull(OfColumn):
    def do(self) -> None:
        row = self.row
        self.change(row, nullable=not row.nullable)


@dataclass(frozen=True)
class DetachColumn(OfColumn):
    """Removal of the inputs of a column, which is then matched by name upstream."""

    def do(self) -> None:
        row = self.row
        targets.update_target_column(column=row, expected_version=row.version, inputs=[])


@dataclass(frozen=True)
class SwitchColumn(OfColumn):
    """Retirement of a column, or its restoration."""

    def do(self) -> None:
        row = self.row
        switch = lifecycle.retire_column if row.active else lifecycle.unretire_column
        switch(column=row, expected_version=row.version)


@dataclass(frozen=True)
class DeleteColumn(OfColumn):
    def do(self) -> None:
        row = self.row
        deletion.delete_column(column=row, expected_version=row.version)


@dataclass(frozen=True)
class MakeKey(OfColumn):
    """Addition of a column to the business key, or its removal from it."""

    def do(self) -> None:
        row = self.row
        is_key = row.role == "business_key"
        self.change(row, role="attribute" if is_key else "business_key", key_ordinal=None if is_key else 2)


@dataclass(frozen=True)
class ImportColumn(OfColumn):
    """YAML import in which a column reads another one and has the name of the first as former name."""

    reads: int

    def do(self) -> None:
        row, before = self.row, exported_files()
        read, files = read_by(row.dataset, self.reads), dict(before)
        named = re.search("`(.*)`", row.expression)
        _in_file(files, read, "former_names", f"[{named[1] if named else row.name}]")
        _in_file(files, row, "expression", f"'{re.sub('`.*`', f'`{read.name}`', row.expression or '``')}'")
        import_records(read_files({name: text for name, text in files.items() if text != before[name]}))


def _in_file(files: dict[str, str], column: TargetColumn, field: str, value: str) -> None:
    """Replace a field in the YAML of a column."""
    name = next(name for name in files if name.endswith(f"/{column.dataset.name}.yaml"))
    before, start, after = files[name].partition(f"key: {column.key}\n")
    indent = before[before.rfind("\n") + 1 :].replace("-", " ")
    own, others = _until_next(after, indent)
    own = re.sub(rf"(?m)^{indent}{field}:.*\n(?:{indent} .*\n|{indent}- .*\n)*", "", own)
    files[name] = f"{before}{start}{indent}{field}: {value}\n{own}{others}"


def _until_next(text: str, indent: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    own = 0
    while own < len(lines) and lines[own].startswith(indent):
        own += 1
    return "".join(lines[:own]), "".join(lines[own:])


@dataclass(frozen=True)
class OfDataset:
    """Edit of one dataset, given by its position in the list of all datasets."""

    place: int

    @property
    def row(self) -> TargetDataset:
        rows = datasets()
        return rows[self.place % len(rows)]

    @staticmethod
    def change(row: TargetDataset, **changes: object) -> None:
        targets.update_target_dataset(dataset=row, expected_version=row.version, **changes)


@dataclass(frozen=True)
class SetFilter(OfDataset):
    text: str
    reads: int

    def do(self) -> None:
        row = self.row
        self.change(row, filter=self.text.format(f"`{read_by(row, self.reads).name}`"))


@dataclass(frozen=True)
class SwitchHistory(OfDataset):
    def do(self) -> None:
        row = self.row
        self.change(row, historize=not row.historize)


@dataclass(frozen=True)
class SetHistoryPolicy(OfDataset):
    policy: int

    def do(self) -> None:
        self.change(self.row, history_policy=dict(POLICIES[self.policy]))


@dataclass(frozen=True)
class SwitchDataset(OfDataset):
    """Retirement of a dataset, or its restoration."""

    def do(self) -> None:
        row = self.row
        switch = lifecycle.retire_dataset if row.active else lifecycle.unretire_dataset
        switch(dataset=row, expected_version=row.version)


@dataclass(frozen=True)
class RenameDataset(OfDataset):
    name: str

    def do(self) -> None:
        row = self.row
        lifecycle.rename_dataset(dataset=row, name=f"{row.schema.name}_{self.name}", expected_version=row.version)


@dataclass(frozen=True)
class AddColumn(OfDataset):
    name: str
    type: str
    reads: int

    def do(self) -> None:
        row = self.row
        inputs = [read_by(row, self.reads)]
        targets.create_target_column(dataset=row, name=self.name, type=self.type, inputs=inputs)


@dataclass(frozen=True)
class SetCheck(OfDataset):
    """Creation, change or deletion (with an empty severity) of the check of the dataset."""

    severity: str
    value: str

    def do(self) -> None:
        row = self.row
        arguments = {"columns": [row.columns.order_by("-pk").first().name], "values": [self.value]}
        check = row.checks.first()
        if check is None:
            quality.create_check(
                dataset=row, name="known", kind="accepted_values", arguments=arguments, severity=self.severity or "warn"
            )
        elif self.severity:
            quality.update_check(
                check=check, expected_version=check.version, arguments=arguments, severity=self.severity
            )
        else:
            quality.delete_check(check=check, expected_version=check.version)


@dataclass(frozen=True)
class SetSelect(OfDataset):
    """Change of the SELECT of a model."""

    text: str
    reads: int

    def do(self) -> None:
        models = [row for row in datasets() if row.select]
        row = models[self.place % len(models)]
        table = row.inputs.select_related("upstream__schema").get().upstream
        self.change(row, select=select(self.text, table, read_by(row, self.reads)))


@dataclass(frozen=True)
class SetReference:
    """Change of the reference's rule for unknown parents."""

    rule: str

    def do(self) -> None:
        row = Reference.objects.get()
        references.update_reference(reference=row, expected_version=row.version, unknown_parent=self.rule)


@dataclass(frozen=True)
class SwitchReference:
    """Retirement of the reference, or its restoration."""

    def do(self) -> None:
        row = Reference.objects.get()
        switch = references.retire_reference if row.active else references.unretire_reference
        switch(reference=row, expected_version=row.version)


@dataclass(frozen=True)
class Upload:
    """Upload of a delivery with an additional or a missing column, and a check of the source."""

    name: str
    value: str

    def do(self) -> None:
        source = SourceDataset.objects.get()
        known = list(source.columns.filter(active=True).values_list("name", flat=True))
        names = [name for name in known if name != self.name] + [self.name] * (self.name not in known)
        lines = (",".join(names), ",".join(self.value for _ in names), "")
        store_delivery(source=source, name="order.csv", chunks=["\n".join(lines).encode()], as_it_is=True)
        check_source(source=source)


@dataclass(frozen=True)
class AcceptProposal(Upload):
    """Acceptance of the source's open proposal; without one, a delivery is uploaded first."""

    def do(self) -> None:
        rows = SourceProposal.objects.filter(status=proposal_states.OPEN)
        if not rows.exists():
            super().do()
        for row in rows:
            accept_proposal(proposal=row, take=[change.id for change in open_changes(row)])


@dataclass(frozen=True)
class SetSource:
    """Change of a source option that decides rows, or of its rule for new columns."""

    name: str
    value: str

    def do(self) -> None:
        row = SourceDataset.objects.get()
        changes = {"new_columns": self.value} if self.name == "new_columns" else {}
        options = {**row.options, self.name: self.value} if not changes else row.options
        sources.update_source_dataset(source_dataset=row, expected_version=row.version, options=options, **changes)


@dataclass(frozen=True)
class AddSourceColumn:
    """Addition of a source column, with generated targets."""

    name: str
    type: str

    def do(self) -> None:
        source = SourceDataset.objects.get()
        sources.create_source_column(source_dataset=source, name=self.name, type=self.type)
        generate_targets(source_dataset=source)


@dataclass(frozen=True)
class RenameSourceColumn:
    """Rename of a source column, with generated targets."""

    place: int
    name: str

    def do(self) -> None:
        source = SourceDataset.objects.get()
        rows = list(source.columns.order_by("pk"))
        row = rows[self.place % len(rows)]
        sources.update_source_column(source_column=row, expected_version=row.version, name=self.name)
        generate_targets(source_dataset=source)


@dataclass(frozen=True)
class CloneDataset(OfDataset):
    name: str

    def do(self) -> None:
        row = self.row
        clone_dataset(dataset=row, schema=row.schema, name=f"{row.schema.name}_{self.name}")


OPTIONS = (("faulty_rows", "quarantine"), ("faulty_rows", "refuse"), ("null_string", "none"), ("null_string", "-"))
CHOICES = (*OPTIONS, ("fold_keys", "upper"), *(("new_columns", rule) for rule in ("ignore", "propose", "take")))
Change = (
    OfColumn | OfDataset | SetReference | SwitchReference | SetSource | AddSourceColumn | RenameSourceColumn | Upload
)


def changes() -> st.SearchStrategy[Change]:
    """Draw an edit; edits of facts that histories compare are more frequent."""
    places, names, types = st.integers(0, 5), st.sampled_from(NAMES), st.sampled_from(TYPES)
    logic = st.builds(SetExpression, places, st.sampled_from(TEXTS), places)
    filters = st.builds(SetFilter, places, st.sampled_from(CONDITIONS), places)
    history, column = st.builds(SwitchHistory, places), st.builds(SwitchColumn, places)
    imported = st.builds(ImportColumn, places, places)
    return st.one_of(
        *(logic, logic, logic, filters, filters, history, history, history, column, column, imported, imported),
        st.builds(SetCheck, places, st.sampled_from(("warn", "quarantine", "stop", "")), st.sampled_from("12")),
        st.builds(SetCheck, places, st.sampled_from(("quarantine", "stop")), st.sampled_from("12")),
        *2 * [st.sampled_from(CHOICES).map(lambda chosen: SetSource(*chosen))],
        st.builds(RenameColumn, places, names),
        st.builds(SetType, places, types),
        st.builds(ForbidNull, places),
        st.builds(DetachColumn, places),
        st.builds(DeleteColumn, places),
        st.builds(MakeKey, places),
        st.builds(SetHistoryPolicy, places, st.integers(0, len(POLICIES) - 1)),
        st.builds(SwitchDataset, places),
        st.builds(RenameDataset, places, names),
        st.builds(AddColumn, places, names, types, places),
        st.builds(AddSourceColumn, names, types),
        st.builds(RenameSourceColumn, places, names),
        st.builds(CloneDataset, places, names),
        *3 * [st.builds(SetSelect, places, st.sampled_from(SELECTS), places)],
        *3 * [st.sampled_from(("ghost", "quarantine", "keep", "null")).map(SetReference)],
        st.builds(SwitchReference),
        st.builds(Upload, names, st.sampled_from(("1", "word"))),
        *2 * [st.builds(AcceptProposal, names, st.sampled_from(("1", "word")))],
    )
