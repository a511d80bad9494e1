"""Tests that ``make test`` leaves to ``make test-full``, or runs on SQLite only, by their files.

Tests of services check the rules. Tests of interfaces (pages, REST, commands, attacks; the mark is ``door``) check them
again for every role and every kind of wrong input, which takes most of the time of all tests with a database.
``make test`` runs the first test of each of these files, those marked ``core``, and those without a database. By day
they run on SQLite, which takes half the time of PostgreSQL for the same pages, because tests of services and selectors
run the queries on PostgreSQL. ``make test-nightly`` runs them on PostgreSQL.

Of tests of Spark and the browser ``make test`` runs those marked ``core``: of a test with parameters the first case, or
each with ``core(each=True)``.
"""

from pathlib import PurePosixPath

# Marks of tests that need more than a database of any kind.
OTHER_NEEDS = ("spark", "browser", "services", "servers")
_DOORS = {"views", "api", "commands", "attacks"}
_FILES_OF_DOORS = {"test_views.py", "test_api.py"}
_APPS_OF_PAGES = {"web", "accounts", "comments", "lists", "notifications", "ops"}
# Folders whose files are of no interface, whatever their names.
_OF_RULES = {"domain", "dialects"}


def is_at_a_door(file: str) -> bool:
    """Return True for a test file of an interface (pages, REST, commands, attacks), by its folder or its name."""
    folders, name = PurePosixPath(file).parts[1:-1], PurePosixPath(file).name
    if folders[:1] == ("elevata",) and _APPS_OF_PAGES & set(folders[1:2]):
        return True
    return bool(_DOORS & set(folders)) or (name in _FILES_OF_DOORS and not _OF_RULES & set(folders))
