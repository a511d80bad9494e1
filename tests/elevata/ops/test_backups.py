"""Copies of the control database that are checked before a restore."""

from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from elevata.ops.backups import _migrations_in, _refuse_newer

SCRIPT = """--
-- Data for Name: django_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

COPY public.django_migrations (id, app, name, applied) FROM stdin;
1\tloader\t0001_initial\t2024-01-01 00:00:00+00
2\taudit\t0001_initial\t2024-01-01 00:00:00+00
\\.


SELECT pg_catalog.setval('public.django_migrations_id_seq', 2, true);
"""


def test_migrations_are_read_from_a_copy_of_postgresql() -> None:
    assert list(_migrations_in(SCRIPT)) == [("loader", "0001_initial"), ("audit", "0001_initial")]


@pytest.mark.parametrize("app", ["accounts", "api", "audit", "jobs", "notifications", "metadata", "loader", "auth"])
def test_restore_refuses_a_copy_with_an_unknown_migration(app: str) -> None:
    with pytest.raises(MetadataError, match=f"which knows {app}.9999_newer") as refused:
        _refuse_newer(Path("control"), [("loader", "0001_initial"), (app, "9999_newer")])
    assert refused.value.code == "newer_release"


def test_a_copy_with_known_migrations_is_accepted() -> None:
    _refuse_newer(Path("control"), [("loader", "0001_initial"), ("auth", "0001_initial")])
