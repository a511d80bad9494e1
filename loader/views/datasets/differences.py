"""Sample rows of a difference (``loader.engine.queries.differences``) for pages."""

from collections.abc import Mapping
from typing import Any

from loader.domain.queries.differences import ADDED, CHANGED, GONE
from loader.domain.queries.query_results import Cell, cell, value_text


def differing_rows(difference: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sample rows: cells before and after, and whether they differ."""
    samples = difference["samples"]
    rows = [(kind, row, row) for kind in (ADDED, GONE) for row in samples[kind]]
    rows += [(CHANGED, row["before"], row["after"]) for row in samples[CHANGED]]
    return [
        {
            "kind": kind,
            "cells": [
                {"before": old, "after": new, "differs": kind == CHANGED and old != new}
                for old, new in zip(cells(before), cells(after), strict=True)
            ],
        }
        for kind, before, after in rows
    ]


def cells(row: list[Any]) -> list[Cell]:
    """Return the cells of one row of an answer."""
    return [cell(value_text(value)) for value in row]
