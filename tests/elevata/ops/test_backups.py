"""Copies of the control database that a restore refuses before it replaces anything."""

from elevata.ops.backups import _migrations_in

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
