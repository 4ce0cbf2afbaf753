"""Statements and calls that repeat become loops."""
