"""Tests of the Fivetran destination."""
