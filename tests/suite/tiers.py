"""Tests that ``make test`` leaves to ``make test-full``, or runs on SQLite alone, without a mark of their own.

Services state the rules. Pages, REST, commands and attacks repeat them at the doors, for every role and every kind of
wrong input, which takes most of the time of all tests with a database. Of each file of these, ``make test`` runs the
first test and those marked ``core``. By day they run on SQLite, which takes half the time of PostgreSQL for the same
pages: services and selectors show the queries on PostgreSQL. ``make test-nightly`` runs the doors on PostgreSQL.
"""

from pathlib import PurePosixPath

_DOORS = {"views", "api", "commands", "attacks"}
_FILES_OF_DOORS = {"test_views.py", "test_api.py"}
_APPS_OF_PAGES = {"web", "accounts", "comments", "lists", "notifications", "ops"}


def is_at_a_door(file: str) -> bool:
    """Return True for a test file of pages, REST, commands or attacks, by its folder or its name."""
    folders, name = PurePosixPath(file).parts[1:-1], PurePosixPath(file).name
    if folders[:1] == ("elevata",) and _APPS_OF_PAGES & set(folders[1:2]):
        return True
    return bool(_DOORS & set(folders)) or (name in _FILES_OF_DOORS and "domain" not in folders)
