"""Tests of the project's foundations: set-up, Makefile, containers, import rules between packages."""
