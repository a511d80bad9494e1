"""Help of pages: one sentence on what a page is for, its keys and its chapter of the documentation, by route."""

from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from elevata.core.installation import version


@dataclass(frozen=True)
class Key:
    """Keys that are pressed together or one for the other, and what they do."""

    keys: tuple[str, ...]
    does: str


@dataclass(frozen=True)
class PageHelp:
    """Help of a page: the sentence, the file in ``docs`` and the page's own keys."""

    text: str
    docs: str
    keys: tuple[Key, ...] = ()

    @property
    def docs_address(self) -> str:
        return docs_address(self.docs)

    @property
    def all_keys(self) -> tuple[Key, ...]:
        """Return the page's own keys, then those of every page."""
        return (*self.keys, *EVERYWHERE)

    @property
    def version(self) -> str:
        return _version()


EVERYWHERE = (Key(("/", "Ctrl-K"), "search"), Key(("Esc",), "close a dialog or a menu"))
_GRID = (
    Key(("↑", "↓", "←", "→"), "choose a cell"),
    Key(("Enter", "F2"), "edit the cell"),
    Key(("Tab",), "save and edit the next cell"),
    Key(("Space",), "switch yes and no"),
    Key(("Delete",), "empty the cell"),
    Key(("Ctrl-Z",), "undo the last change"),
)
_GRAPH = (
    Key(("↑", "↓", "←", "→"), "choose the next dataset of the picture"),
    Key(("Enter",), "open it"),
    Key(("+", "-", "0"), "zoom in, zoom out, show everything"),
)
_SQL = (Key(("Ctrl-Enter",), "run the query"),)
_LOG = (Key(("p",), "pause or resume the log"), Key(("End",), "jump to its newest line"))
_KEYS = {
    "dataset_page": _GRID,
    "dataset_lineage": _GRAPH,
    "column_lineage": _GRAPH,
    "sql_page": _SQL,
    "trial_page": _SQL,
    "execution_page": _LOG,
    "run_page": _LOG,
}

# Sentences by the file in docs that explains the page.
_TEXTS: dict[str, dict[str, str]] = {
    "use/first_file.md": {
        "home": "Shows what failed, what waits for you, and the state of the warehouse.",
    },
    "use/search.md": {
        "search": "Finds datasets, columns, sources, reports, runs, pages and versions of a key by a part of a name.",
    },
    "use/glossary.md": {
        "glossary": "Explains the words that the product uses.",
        "docs_page": "Shows a chapter of the documentation of this version.",
    },
    "use/identity.md": {
        "me": "Shows your roles, your tokens and your settings.",
        "own_password": "Replaces your password.",
        "user_list": "Lists users and service accounts with their roles.",
        "user_new": "Creates a user or a service account.",
        "user_page": "Changes the roles, the password and the tokens of one account.",
    },
    "use/access.md": {
        "dataset_access": "Shows who reads, changes and loads this dataset, and by which role.",
        "schema_access": "Shows who reads, changes and loads the datasets of this schema.",
        "system_access": "Shows who reads and changes the sources of this system.",
        "my_access": "Shows all that you may read, change and execute.",
        "user_access": "Shows all that this user may read, change and execute.",
        "sensitive_list": "Lists personal, confidential and restricted columns with those who read them.",
        "sensitive_source_list": "Lists sensitive columns of sources with those who read them.",
    },
    "use/lists.md": {
        "dataset_list": "Lists all datasets; filter, sort, download or change many at once.",
        "column_list": "Lists the columns of all datasets; filter, sort, download or change many at once.",
        "listed_columns_edit": "Changes columns of several datasets at once, after a preview of each.",
    },
    "use/metadata.md": {
        "dataset_page": "Describes a dataset and its columns; changes reach the table by a load or a change report.",
        "dataset_create": "Describes a new dataset.",
        "dataset_edit": "Changes the description of the dataset.",
        "dataset_edit_report": "Changes the description of the dataset and creates the change report.",
        "dataset_inputs": "Chooses the sources or datasets that the dataset is loaded from.",
        "dataset_clone": "Describes a new dataset like this one.",
        "dataset_rename": "Renames the dataset, after a look at what depends on its name.",
        "dataset_retire": "Ends the use of the dataset; its table and its history stay.",
        "dataset_restore": "Takes a retired dataset back into use.",
        "dataset_delete": "Deletes the description of a retired dataset.",
        "dataset_policy": "Chooses how the history is kept: deletes, late rows, dates of versions.",
        "datasets_edit": "Changes several datasets at once, after a preview of each.",
        "columns_edit": "Changes several columns at once, after a preview of each.",
        "columns_paste": "Adds or changes columns that you copied from a spreadsheet.",
        "column_create": "Adds a column to the dataset.",
        "column_create_report": "Adds a column to the dataset and creates the change report.",
        "column_edit": "Changes a column.",
        "column_edit_report": "Changes a column and creates the change report.",
        "column_rename": "Renames the column, after a look at what depends on its name.",
        "column_retire": "Ends the use of the column; its stored values stay.",
        "column_restore": "Takes a retired column back into use.",
        "column_delete": "Deletes the description of a retired column.",
        "reference_create": "Declares that columns of the dataset refer to the key of another one.",
        "reference_edit": "Changes a reference to another dataset.",
        "reference_retire": "Ends a reference to another dataset.",
        "reference_restore": "Takes a retired reference back into use.",
        "schema_list": "Lists the schemas with their layers.",
        "schema_create": "Creates a schema in a layer.",
        "schema_edit": "Changes a schema.",
        "metadata_import": "Imports descriptions from YAML or CSV files, after a preview.",
    },
    "use/lineage.md": {
        "dataset_lineage": "Shows where the dataset comes from and what reads it.",
        "column_lineage": "Shows every column from its source to those who read it.",
        "affected": "Names exposures, copies, owners, contracts, saved queries and schedules that a change concerns.",
        "column_impact": "Shows what breaks if this column changes.",
        "source_column_impact": "Shows what breaks if this column of the source changes.",
        "dataset_descendants": "Lists everything that is loaded from this dataset.",
        "dataset_origin": "Shows the delivery and the row that a value comes from.",
        "dataset_why": "Shows why a row has its value.",
    },
    "use/comments.md": {
        "dataset_comments": "Discusses the dataset; mention a user by @ and the name.",
        "comment_list": "Discusses this object; mention a user by @ and the name.",
        "comment_edit": "Changes your comment.",
        "comment_delete": "Deletes the comment.",
    },
    "use/change_log.md": {
        "dataset_changes": "Shows who changed the dataset, when and how.",
        "change_list": "Shows who changed what, with the former and the new values.",
        "change_undo": "Takes a change of metadata back, after a preview.",
    },
    "use/models.md": {
        "model_create": "Defines a dataset by one SELECT over others, written or put together by choices.",
        "model_edit": "Changes the SELECT of the model.",
        "model_edit_report": "Changes the SELECT of the model and creates the change report.",
        "model_preview": "Shows columns, types and errors of the SELECT.",
        "model_builder": "Puts a SELECT together by choices.",
    },
    "use/model_tests.md": {
        "trial_page": "Shows rows of a SELECT before it is saved.",
        "trial_answer": "Shows the rows of a tried SELECT.",
        "report_models": "Compares what the models of the report would load with their tables.",
    },
    "use/quality.md": {
        "dataset_quality": "Lists the checks of the dataset with their results.",
        "dataset_profile": "Counts values, NULLs and extremes of each column.",
        "suggestion_accept": "Adds a suggested check.",
        "dataset_quarantine": "Decides on rows that checks held back.",
        "check_create": "Adds a check that each load of the dataset runs.",
        "check_edit": "Changes a check.",
        "check_retire": "Ends a check.",
        "check_restore": "Takes a retired check back into use.",
        "check_delete": "Deletes a retired check.",
    },
    "use/contracts.md": {
        "dataset_contract": "Shows what the dataset promises, and who relies on it.",
        "contract_edit": "Declares what the dataset promises.",
        "exposure_create": "Names a dashboard, file or program that reads the dataset.",
        "exposure_edit": "Changes an exposure.",
        "exposure_delete": "Deletes an exposure.",
        "dataset_copies": "Shows the copies of the table in other databases and folders.",
        "dataset_copy_now": "Makes the copies of the table, or compares them.",
        "copy_create": "Keeps a copy of the table in another database or folder.",
        "copy_edit": "Changes a copy.",
        "copy_delete": "Deletes a copy; its table in the target stays.",
    },
    "use/sources.md": {
        "source_list": "Lists all sources with their systems and deliveries.",
        "source_add": "Starts the path from a file, table, topic or API to a loaded history.",
        "source_add_system": "Chooses or describes the system that the source is in.",
        "source_add_test": "Tests the connection before the system is saved.",
        "system_page": "Shows a system, its connection and its sources.",
        "system_edit": "Changes the connection of the system.",
        "system_test": "Tests the connection of the system.",
        "source_files": "Makes sources of several files: one for each, or one for all of a pattern.",
        "system_discover": "Lists the files, tables or topics that the system offers.",
        "system_delivery": "Shows one file, table or topic of the system before it becomes a source.",
        "system_upload": "Uploads a file into the folder of the system.",
        "system_generate": "Generates the datasets of all sources of the system.",
        "source_import": "Confirms the columns, types and key of a new source.",
        "source_columns": "Compares the columns of the source with a new sample.",
        "source_column_add": "Adds a column to the contract of the source.",
        "source_load_type": "Chooses between full loads and loads of only new and changed rows.",
        "source_summary": "Shows everything once more before the source is created.",
        "source_first_load": "Shows the first load of the new source and its rows.",
        "source_handover": "Asks someone who may load for the first load.",
        "source_page": "Shows the contract of a source, its deliveries and what is loaded from it.",
        "source_edit": "Changes how the source is read.",
        "sources_edit": "Changes several sources at once, after a preview of each.",
        "source_generate": "Generates or updates the raw, stage and rawcore datasets of the source.",
        "source_upload": "Uploads the next delivery, which is compared with the contract first.",
        "source_load": "Loads what the source has delivered.",
        "source_load_rest": "Quarantines rows that do not fit, and loads the others.",
        "source_check": "Compares the source with its contract now.",
        "source_proposal": "Shows how the source differs from its contract, and what to accept.",
        "source_proposal_dismiss": "Dismisses a proposed change of the contract.",
    },
    "use/query.md": {
        "dataset_data": "Shows rows of the table, masked where you may not read the values.",
        "dataset_sql": "Shows the SQL that loads the dataset and creates its table.",
        "dataset_history": "Finds a key of the history by how it begins.",
        "dataset_versions": "Shows every version of one key.",
        "dataset_as_of": "Shows the table as it was at a time.",
        "dataset_compare": "Shows the rows that differ between two dates, versions or environments.",
        "dataset_run_changes": "Shows the rows that one run changed.",
        "read_part": "Shows the rows that were asked for.",
        "sql_page": "Runs a SELECT over the tables that you may read.",
        "sql_answer": "Shows the rows of a query.",
        "saved_query_list": "Lists saved queries.",
        "saved_query_delete": "Deletes a saved query.",
    },
    "use/loading.md": {
        "dataset_runs": "Lists the loads of the dataset.",
        "dataset_charts": "Shows rows and duration of the loads of the dataset over time.",
        "dataset_rejected": "Shows the rows that a run rejected, with the reason of each.",
        "dataset_storage": "Shows files, size and versions of the table.",
        "dataset_vacuum": "Deletes files that no kept version of the table needs.",
        "dataset_prune": "Deletes versions that ended before a date.",
        "dataset_accept": "Accepts a table that was changed outside the product.",
        "dataset_check": "Checks the history against its rules.",
        "run_list": "Lists load runs and maintenance runs.",
        "run_charts": "Shows rows and duration of runs over time.",
        "run_start": "Starts a load of what you choose.",
        "run_page": "Shows one run: each dataset, its rows, and why it failed.",
        "run_live": "Shows one run while it runs.",
        "run_approve": "Approves a run that needs a second user.",
        "run_cancel": "Cancels a run.",
        "run_revert": "Takes the rows of a run back.",
        "schedule_list": "Lists when loads start by themselves.",
        "schedule_page": "Shows a schedule, its next times and its runs.",
        "schedule_times": "Shows the next times of a schedule.",
        "schedule_new": "Creates a schedule: what is loaded, and when.",
        "schedule_edit": "Changes what is loaded, and when.",
        "schedule_delete": "Deletes a schedule.",
        "lease_list": "Lists the datasets that a run or an execution is changing now.",
        "lease_break": "Frees a dataset whose run has died.",
    },
    "use/architecture_control.md": {
        "report_sql": "Shows the changes of a report as statements of an SQL dialect.",
        "inbox": "Lists what waits for you: reports to approve, runs to approve, executions.",
        "pending_changes": "Lists described changes that the tables do not have yet.",
        "report_list": "Lists change reports with their state.",
        "report_build": "Compares metadata with the warehouse and creates a change report.",
        "report_page": "Shows what a change report would do, and takes it through approval and execution.",
        "report_status": "Shows the state of a change report.",
        "report_differences": "Shows the differences between metadata and tables.",
        "report_behind": "Shows what changed since the report was created.",
        "report_downstream": "Lists what reads the datasets of the report.",
        "report_approve": "Approves the report.",
        "report_reject": "Rejects the report.",
        "report_withdraw": "Withdraws a blocked report.",
        "report_execute": "Executes the report.",
        "dry_run_live": "Shows the dry run of a report.",
        "refresh_page": "Shows the reading of the tables that a report or a drift check waits for.",
        "refresh_live": "Shows the reading of the tables.",
        "execution_list": "Lists executions of reports.",
        "execution_page": "Shows each step of an execution, its log, its record and its undo.",
        "execution_live": "Shows an execution while it runs.",
        "execution_cancel": "Cancels an execution.",
        "execution_abandon": "Ends an execution that cannot be resumed.",
        "execution_verify": "Checks that the record of the execution was not altered.",
        "execution_undo": "Creates the report that takes the execution back.",
        "drift_page": "Shows tables that differ from what was applied to them.",
        "drift_adopt": "Takes a difference of the tables into the metadata.",
        "own_policy": "Shows which changes need approval here.",
        "policy_page": "Shows which changes of an environment need approval, and who may approve.",
    },
    "use/health.md": {
        "health_page": "Lists metadata that cannot work or is probably not meant.",
        "health_check": "Checks all metadata anew.",
        "health_fix": "Corrects a finding.",
    },
    "use/notify.md": {
        "notice_list": "Lists your notices.",
        "notice_settings": "Chooses the events that you are told of, here and by email.",
        "webhook_list": "Lists the addresses that receive events.",
        "webhook_page": "Shows a webhook and its deliveries.",
        "webhook_new": "Sends events to another program.",
        "webhook_edit": "Changes a webhook.",
        "webhook_delete": "Deletes a webhook.",
        "delivery_list": "Lists webhook deliveries and emails.",
        "delivery_page": "Shows one delivery with every attempt.",
    },
    "use/rest.md": {
        "api_swagger": "Describes the REST API and tries its requests.",
    },
}

PAGES: dict[str, PageHelp] = {
    route: PageHelp(text, docs, _KEYS.get(route, ())) for docs, texts in _TEXTS.items() for route, text in texts.items()
}
_ELSEWHERE = PageHelp("Nothing is at this address; search, or choose a page above.", "use/search.md")


def help_of(request: HttpRequest) -> PageHelp:
    """Return the help of the request's page."""
    match = request.resolver_match
    return PAGES.get(match.view_name, _ELSEWHERE) if match is not None else _ELSEWHERE


def docs_address(name: str) -> str:
    """Return where a file of ``docs`` is read: where the installation publishes them, or a page of the product."""
    return f"{settings.DOCS_URL}{name}" if settings.DOCS_URL else reverse("docs_page", args=[name])


@lru_cache(maxsize=1)
def _version() -> str:
    """Return the version, which is read once for a process."""
    return version()
