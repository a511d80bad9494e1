"""Rules of change policies.

Each rule is a small function that returns whether it applies to an operation. Codes and texts are stable; severities
come from the environment's policy set. The first rule in ``RULES`` that applies decides on an operation. Operations
that change only metadata have no rule.
"""

from collections.abc import Callable
from dataclasses import dataclass

from architecture.domain import operations as ops
from architecture.domain.data_contracts import BREAKS_CONTRACT
from architecture.domain.operations import Operation

ALLOW, APPROVE, BLOCK = "allow", "needs_approval", "block"
SEVERITIES = (ALLOW, APPROVE, BLOCK)
# Codes that the planner gives to operations whose kind alone does not determine the rule.
POSSIBLE_RENAME, KEY_CHANGE, NOT_NULL = "POSSIBLE_RENAME", "KEY_CHANGE", "NOT_NULL"
NOT_NULL_ADDED = "NOT_NULL_ADDED"  # a warning
HISTORY_DIFFERS, MATERIALIZATION, RETYPE_COLUMN = "HISTORY_DIFFERS", "MATERIALIZATION", "RETYPE_COLUMN"
HISTORY_RESUMED = "HISTORY_RESUMED"
VIEW_COLUMN, HISTORY_FORM, KEY_RETYPED = "VIEW_COLUMN", "HISTORY_FORM", "KEY_RETYPED"
REWRITE_TABLE, FEWER_DELIVERIES = "REWRITE_TABLE", "FEWER_DELIVERIES"
SENSITIVE_COPIED = "SENSITIVE_COPIED"
FOLLOWS_TABLE, METADATA_ONLY, NAME_TAKEN = "FOLLOWS_TABLE", "METADATA_ONLY", "NAME_TAKEN"


@dataclass(frozen=True)
class Rule:
    """Rule of the change policy. ``text`` explains the operation, ``fix`` is the alternative if it is blocked.

    ``flag`` is the setting that turns blocking into approval. ``later`` marks a rule that was added after reports
    had been approved: with its default severity it is left out of stored policy sets, so that those reports stay up
    to date.
    """

    code: str
    text: str
    fix: str
    severity: str
    applies: Callable[[Operation], bool]
    flag: str = ""
    later: bool = False


RULES: list[Rule] = []
_Applies = Callable[[Operation], bool]


def _rule(
    code: str, severity: str, text: str, fix: str = "", flag: str = "", later: bool = False
) -> Callable[[_Applies], _Applies]:
    def registered(applies: _Applies) -> _Applies:
        RULES.append(Rule(code, text, fix, severity, applies, flag, later))
        return applies

    return registered


@_rule(
    KEY_CHANGE,
    BLOCK,
    "history is kept by the business key and cannot move to another key",
    "keep the key, or create a dataset with the new key",
)
def changes_the_key_of_a_history(operation: Operation) -> bool:
    return operation.code == KEY_CHANGE


@_rule(
    MATERIALIZATION,
    APPROVE,
    "a table becomes a view, or a view a table",
    "leave the materialization as it is",
)
def changes_the_materialization(operation: Operation) -> bool:
    return operation.code == MATERIALIZATION


@_rule(VIEW_COLUMN, ALLOW, "the view changes with the next load; no table changes", "leave the view as it is")
def changes_a_column_of_a_view(operation: Operation) -> bool:
    return operation.code == VIEW_COLUMN


@_rule(
    "DROP_TABLE",
    BLOCK,
    "the table is dropped with its rows",
    "deactivate the dataset instead, or let the environment allow dropping tables",
    flag="drop_tables",
)
def drops_a_table(operation: Operation) -> bool:
    return operation.op == ops.DROP_TABLE


@_rule(
    "DROP_HISTORY_COLUMN",
    BLOCK,
    "the column is dropped from all versions",
    "leave it retired, or let the environment allow dropping history columns",
    flag="drop_history_columns",
)
def drops_a_history_column(operation: Operation) -> bool:
    return operation.op == ops.DROP_COLUMN and operation.side == ops.HISTORY


@_rule(
    "DROP_COLUMN",
    BLOCK,
    "the column is dropped with its values",
    "deactivate the column instead, or let the environment allow dropping columns",
    flag="drop_columns",
)
def drops_a_column(operation: Operation) -> bool:
    return operation.op == ops.DROP_COLUMN


@_rule(
    KEY_RETYPED,
    BLOCK,
    "the business key becomes another kind of value: the history keeps the old column, retired, and its versions "
    "under the old keys, so the next load takes every key for a new one",
    "keep the type, describe a new dataset with the new key, or let the environment allow changing types",
    flag="type_alter",
    later=True,
)
def begins_a_history_key_anew(operation: Operation) -> bool:
    return operation.code == KEY_RETYPED


@_rule(
    RETYPE_COLUMN,
    BLOCK,
    "a value that does not fit fails the load",
    "keep the type, add a column of the new type, or let the environment allow changing types",
    flag="type_alter",
)
def retypes_a_column(operation: Operation) -> bool:
    # A view with a history stores no rows, so no stored value can be of the wrong type.
    is_view = operation.code == HISTORY_DIFFERS
    return (operation.op == ops.RETYPE_COLUMN and not is_view) or operation.code == RETYPE_COLUMN


@_rule("REBUILD_TABLE", APPROVE, "the table is rewritten, because Delta has no ALTER for it", "keep the types")
def rebuilds_a_table(operation: Operation) -> bool:
    return operation.op == ops.REBUILD_TABLE


@_rule(
    REWRITE_TABLE,
    APPROVE,
    "the table is written anew, so that every reader of the environment can read it",
    "keep the name or the type, or set the environment's readers to spark",
    later=True,
)
def writes_a_table_anew_for_its_readers(operation: Operation) -> bool:
    return operation.code == REWRITE_TABLE


@_rule(
    "DROP_FEATURES",
    APPROVE,
    "the table is rewritten without table features that some readers lack",
    "set the environment's readers to spark",
    later=True,
)
def drops_table_features(operation: Operation) -> bool:
    return operation.op == ops.DROP_FEATURES


@_rule(
    POSSIBLE_RENAME,
    APPROVE,
    "a column of the same type is dropped from the same table: was it renamed?",
    "if so, add the old name to the former names",
)
def may_be_a_rename(operation: Operation) -> bool:
    return operation.code == POSSIBLE_RENAME


@_rule(NOT_NULL, APPROVE, "rows without a value fail the load", "leave the column nullable")
def forbids_null(operation: Operation) -> bool:
    return operation.code == NOT_NULL


@_rule(
    HISTORY_FORM,
    APPROVE,
    "versions of two forms cannot stand in one history: every load is refused (HISTORY_POLICY_CHANGED) while it has "
    "versions, so approve this only where it has none, or else set the policy back or describe a new dataset",
    "leave the history policy as it is",
    later=True,
)
def gives_versions_another_form(operation: Operation) -> bool:
    return operation.code == HISTORY_FORM


@_rule(
    HISTORY_DIFFERS,
    APPROVE,
    "the next load compares other values, so unchanged rows may count as changed",
    "leave the logic as it is, or describe a new dataset",
)
def makes_history_compare_differently(operation: Operation) -> bool:
    return operation.code == HISTORY_DIFFERS


@_rule(
    HISTORY_RESUMED,
    APPROVE,
    "a history that was kept is followed again: the next load compares everything with versions of then, and closes "
    "those of keys that it does not find",
    "leave the history switched off, or describe a new dataset",
    later=True,
)
def takes_a_history_up_again(operation: Operation) -> bool:
    return operation.code == HISTORY_RESUMED


@_rule(
    FEWER_DELIVERIES,
    APPROVE,
    "deliveries that raw keeps are removed by a load or a vacuum, and cannot be loaded again",
    "keep as many deliveries as before",
    later=True,
)
def removes_raw_deliveries(operation: Operation) -> bool:
    return operation.code == FEWER_DELIVERIES


@_rule(
    SENSITIVE_COPIED,
    APPROVE,
    "users who read the target of the copy can read values or hashes of sensitive columns",
    "leave sensitive columns out of the copy",
    later=True,
)
def copies_sensitive_columns(operation: Operation) -> bool:
    return operation.code == SENSITIVE_COPIED


@_rule("CHANGE_LOGIC", ALLOW, "applies from the next load; no table changes", "leave the logic as it is")
def changes_logic(operation: Operation) -> bool:
    return operation.op == ops.CHANGE_LOGIC


@_rule(FOLLOWS_TABLE, ALLOW, "technical columns are named after their table", "leave the table's name as it is")
def follows_its_table(operation: Operation) -> bool:
    return operation.code == FOLLOWS_TABLE


@_rule("CREATE_TABLE", ALLOW, "a new table, empty until the next load", "deactivate the dataset")
def creates_a_table(operation: Operation) -> bool:
    return operation.op == ops.CREATE_TABLE


@_rule("RENAME_TABLE", ALLOW, "only the name changes; queries with the old name fail", "keep the name")
def renames_a_table(operation: Operation) -> bool:
    return operation.op == ops.RENAME_TABLE


@_rule("RENAME_COLUMN", ALLOW, "only the name changes; queries with the old name fail", "keep the name")
def renames_a_column(operation: Operation) -> bool:
    return operation.op == ops.RENAME_COLUMN


@_rule("ADD_COLUMN", ALLOW, "a new column, NULL in existing rows", "deactivate the column")
def adds_a_column(operation: Operation) -> bool:
    return operation.op == ops.ADD_COLUMN


@_rule("WIDEN_COLUMN", ALLOW, "every value fits the new type; no row is rewritten", "keep the type")
def widens_a_column(operation: Operation) -> bool:
    return operation.op == ops.WIDEN_COLUMN


@_rule(
    BREAKS_CONTRACT,
    APPROVE,
    "readers that rely on the contract fail, or read something else than they were promised",
    "keep what the contract promises, and describe the new beside it",
    later=True,
)
def breaks_a_contract(operation: Operation) -> bool:
    return operation.code == BREAKS_CONTRACT


@_rule("CHANGE_CONTRACT", ALLOW, "readers can rely on what was promised before", "leave the contract", later=True)
def changes_a_contract(operation: Operation) -> bool:
    return operation.op == ops.CHANGE_CONTRACT


RULE_CODES = tuple(rule.code for rule in RULES)


def rule_for(operation: Operation) -> Rule:
    """Return the rule that decides on an operation. Raise LookupError for an operation that changes only metadata."""
    for rule in RULES:
        if rule.applies(operation):
            return rule
    raise LookupError(f"{operation.op} is no rule's business")
