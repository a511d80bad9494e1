"""Options of commands that take a scope of datasets."""

from argparse import ArgumentParser, _ArgumentGroup, _MutuallyExclusiveGroup
from collections.abc import Mapping
from typing import Any

from metadata.domain.scope import DATASET, SCHEMA, SELECTION, Scope
from metadata.domain.selection import HINT


def add_scope_options(parser: ArgumentParser | _ArgumentGroup, *, selects_inputs: bool) -> _MutuallyExclusiveGroup:
    """Add the options of a scope, and return the group of those that exclude each other.

    ``selects_inputs``: the inputs of a selection belong to it without a plus.
    """
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all datasets")
    which.add_argument("--schema", metavar="S", help="the datasets of a schema and their inputs")
    which.add_argument("--dataset", metavar="S.D", help="a dataset and its inputs")
    inputs, unless_read = "", ""
    if selects_inputs:
        inputs, unless_read = ", and their inputs", ", unless one that is selected reads them"
    which.add_argument("--select", metavar="WORDS", help=f"datasets that words select{inputs}. {HINT}")
    left_out = f"words of datasets to leave out of a selection, or of all{unless_read}"
    parser.add_argument("--exclude", metavar="WORDS", default="", help=left_out)
    return which


def scope_of_options(options: Mapping[str, Any], **more: Any) -> Scope:
    """Return the requested scope; ``more`` are its other fields. Raise ScopeProblem if they contradict each other."""
    for kind in (SCHEMA, DATASET):
        if options[kind]:
            return Scope(kind, options[kind], exclude=options["exclude"], **more)
    if options["select"] or options["exclude"]:
        return Scope(SELECTION, options["select"] or "*", exclude=options["exclude"], **more)
    return Scope(**more)
