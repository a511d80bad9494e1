"""The same people and the same small warehouse as for the pages."""

from tests.web.conftest import (  # noqa: F401  pytest finds fixtures by their names
    add_routes,
    airport,
    operator,
    person,
    quick_passwords,
    reader,
    source,
    starter,
    warehouse,
)
