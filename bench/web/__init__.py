"""Response times of the web app over a large generated control database, seeded and valid.

``python -m bench.web`` fills a PostgreSQL of its own, serves it like ``manage.py serve``, and measures every
page: server time, queries, and the time to the first paint in Chromium.
"""
