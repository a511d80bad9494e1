"""Response times of the web app over a large control database: invented, seeded, and valid like any other.

``python -m bench.web`` fills a PostgreSQL of its own, serves it as ``manage.py serve`` does, and measures
every page: server time, queries, and in Chromium the time to the first paint.
"""
