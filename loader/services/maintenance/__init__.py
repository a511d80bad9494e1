"""Maintenance runs: requests and work, by kind.

A maintenance run is a load run of its own kind: it is claimed, fenced, cancelled and repeated like any other. A
request that cannot be performed is refused before a run is created, or by the runner if that depends on the tables.

All but compactions need a user with the permission (Refused ``NO_PERSON``, ``NOT_PERMITTED``). ``user`` defaults
to the current actor.
"""
