"""Fivetran destination: a gRPC service by which Fivetran writes into this warehouse."""
