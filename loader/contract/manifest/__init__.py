"""Manifests: requests of a worker to the runner, as frozen dataclasses and as JSON on the pipe.

A manifest is complete; the runner looks nothing up. Tables, columns and datasets are the domains' own dataclasses,
so both sides use the same types.
"""
