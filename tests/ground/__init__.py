"""Tests of what everything stands on: set-up, Makefile, containers, borders between the rooms."""
