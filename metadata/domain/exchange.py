"""Fields of metadata files.

Field names follow the models, except ``business_key`` (position in the business key) for ``key_ordinal``. An omitted
field gets its default.
"""

from collections.abc import Mapping
from typing import Any

from elevata.core import strict_fields as strict
from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Field, Node, Reader, Record, Spec, flag, text
from metadata.domain import copies, exposures
from metadata.domain.declarations import with_stored_fields
from metadata.domain.quality import check_kinds, unknown_parents
from metadata.domain.sensitivity import LEVELS
from metadata.domain.sources import contracts, formats, raw_keeping
from metadata.domain.types import DataType, parse

FORMAT = "metadata/v1"
# Format of files with unit tests of models, which may lie among metadata files.
MODEL_TESTS = "model-tests/v1"


def without_defaults(values: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return the fields that differ from their default or are required, in the order of the spec."""
    described = {}
    for name, known in spec.items():
        default = list(known.default) if isinstance(known.default, tuple) else known.default
        if name in values and (known.required or values[name] != default):
            described[name] = values[name]
    return described


def data_type(node: Node, name: str) -> DataType:
    written = text(node, name)
    try:
        return parse(written)
    except MetadataError as refused:
        raise refused.about(place=node.where) from None


def inputs(spec: Spec) -> Reader:
    """Return a reader of column inputs; a plain text names a column of the dataset's only input."""

    def read(node: Node, name: str) -> list[Record]:
        return [
            Record({"source": None, "dataset": None, "column": item.value}, item.where)
            if isinstance(item.value, str)
            else strict.read_record(item, spec, name)
            for item in strict.items(node, name)
        ]

    return read


_DESCRIBED = {"description": Field(text, ""), "owner": Field(text, ""), "tags": Field(strict.words, ())}
_RETIRED = {"retired_at": Field(strict.moment), "retired_by": Field(strict.choice("generation", "person"), "")}

SOURCE_COLUMN: Spec = {
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "type": Field(data_type, required=True),
    "target_name": Field(text, ""),
    "business_key": Field(strict.number),
    "nullable": Field(flag, True),
    "integrate": Field(flag, True),
    "pii": Field(flag, False),
    "sensitivity": Field(strict.choice(*LEVELS), ""),
    "active": Field(flag, True),
    **_DESCRIBED,
}
SOURCE_DATASET: Spec = {
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "short_name": Field(text),
    **_DESCRIBED,
    "location": Field(text, required=True),
    "format": Field(strict.choice(*formats.NAMES), formats.CSV),
    "options": Field(strict.fields, {}),
    "intake": Field(strict.fields, {}),
    "historize": Field(flag, True),
    "new_columns": Field(strict.choice(*contracts.NEW_COLUMNS), contracts.PROPOSE),
    "history_policy": Field(strict.fields, {}),
    "active": Field(flag, True),
    "generate": Field(flag),
    "columns": Field(strict.records(SOURCE_COLUMN), ()),
}
SYSTEM: Spec = {
    "short_name": Field(text, required=True),
    "name": Field(text, required=True),
    **_DESCRIBED,
    "kind": Field(strict.choice(*formats.FORMATS_OF_KIND), "files"),
    "location": Field(text, ""),
    "secret": Field(text, ""),
    "options": Field(strict.fields, {}),
    "active": Field(flag, True),
    "datasets": Field(strict.records(SOURCE_DATASET), ()),
}
SCHEMA: Spec = {
    "name": Field(text, required=True),
    "layer": Field(strict.choice("raw", "stage", "rawcore", "bizcore", "serving"), required=True),
    "ordinal": Field(strict.number, 0),
    **_DESCRIBED,
}


def unknown_parent(node: Node, name: str) -> str:
    """Read a rule for unknown parents; the rule null need not be quoted."""
    if node.value is None and node.text == unknown_parents.NULL:
        return unknown_parents.NULL
    return strict.choice(*unknown_parents.RULES)(node, name)


COLUMN_INPUT: Spec = {
    "source": Field(text),
    "dataset": Field(text),
    "column": Field(text, required=True),
}
DATASET_INPUT: Spec = {"source": Field(text), "dataset": Field(text)}
TARGET_COLUMN: Spec = {
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "former_names": Field(strict.words, ()),
    # Columns of a model may omit it: it follows from the SELECT.
    "type": Field(data_type),
    "business_key": Field(strict.number),
    "role": Field(strict.choice("attribute", "technical"), "attribute"),
    "nullable": Field(flag, True),
    "pii": Field(flag, False),
    "sensitivity": Field(strict.choice(*LEVELS), ""),
    **_DESCRIBED,
    "expression": Field(text, ""),
    "inputs": Field(inputs(COLUMN_INPUT), ()),
    **_RETIRED,
}
HISTORY: Spec = {"key": Field(strict.uuid), "former_names": Field(strict.words, ()), **_DESCRIBED, **_RETIRED}
OWN_REFERENCE: Spec = {
    "parent": Field(text, required=True),
    "role_name": Field(text, ""),
    "key": Field(strict.uuid),
    "columns": Field(strict.text_pairs, required=True),
    "unknown_parent": Field(unknown_parent, unknown_parents.KEEP),
    "active": Field(flag, True),
}
REFERENCE: Spec = {"child": Field(text, required=True), **OWN_REFERENCE}
CHECK: Spec = {
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "kind": Field(strict.choice(*check_kinds.KINDS), required=True),
    "arguments": Field(strict.fields, {}),
    "severity": Field(strict.choice(*check_kinds.SEVERITIES), check_kinds.WARN),
    "description": Field(text, ""),
    "active": Field(flag, True),
}
EXPOSURE: Spec = {
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "kind": Field(strict.choice(*exposures.KINDS), required=True),
    "owner": Field(text, required=True),
    "link": Field(text, required=True),
    "description": Field(text, ""),
}
COPY: Spec = {
    "to": Field(text, required=True),
    "key": Field(strict.uuid),
    "table": Field(text, ""),
    "mode": Field(strict.choice(*copies.MODES), copies.REPLACE),
    "sensitive": Field(strict.choice(*copies.SENSITIVE), copies.LEAVE_OUT),
}
TARGET: Spec = {
    "schema": Field(text, required=True),
    "name": Field(text, required=True),
    "key": Field(strict.uuid),
    "former_names": Field(strict.words, ()),
    **_DESCRIBED,
    "sensitivity": Field(strict.choice(*LEVELS), ""),
    "generated_from": Field(text),
    "materialization": Field(strict.choice("table", "view"), "table"),
    "historize": Field(flag, False),
    "history_policy": Field(strict.fields, {}),
    "history": Field(strict.record(HISTORY)),
    "hash_version": Field(strict.number, 1),
    "filter": Field(text, ""),
    "select": Field(text, ""),
    "increment": Field(strict.fields, {}),
    "keep": Field(strict.choice(*raw_keeping.MODES), raw_keeping.LATEST),
    "keep_days": Field(strict.number),
    "keep_deliveries": Field(strict.number),
    "inputs": Field(strict.records(DATASET_INPUT), ()),
    "columns": Field(strict.records(TARGET_COLUMN), ()),
    "references": Field(strict.records(OWN_REFERENCE), ()),
    "checks": Field(strict.records(CHECK), ()),
    "contract": Field(flag, False),
    "exposures": Field(strict.records(EXPOSURE), ()),
    "copies": Field(strict.records(COPY), ()),
    **_RETIRED,
}
FILE: Spec = {
    "format": Field(strict.choice(FORMAT), required=True),
    "system": Field(strict.record(SYSTEM, named_by=("short_name",))),
    "schemas": Field(strict.records(SCHEMA), ()),
    "dataset": Field(strict.record(TARGET, named_by=("schema", "name"))),
    "references": Field(strict.records(REFERENCE, named_by=("child",)), ()),
}


def has_model_tests(node: Node) -> bool:
    """Return True for a file with unit tests of models."""
    return isinstance(node.value, dict) and "format" in node.value and node.value["format"].value == MODEL_TESTS


def stored_file(node: Node) -> Node:
    """Return one file with its declarations replaced by stored fields.

    The format is checked first, so that a file of an unknown version is refused as such.
    """
    if isinstance(node.value, dict) and "format" in node.value:
        FILE["format"].read(node.value["format"], "format")
    return with_stored_fields(node)


def read_stored(node: Node) -> Record:
    """Return the record of one file that ``stored_file`` returned."""
    return strict.read_record(node, FILE, "file")
