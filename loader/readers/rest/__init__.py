"""Requests to REST APIs, through dlt's RESTClient, and the landing of their pages as files.

Pages of the web process ask for one page; the runner lands all pages before a load reads them. No Django, no Spark.
"""
