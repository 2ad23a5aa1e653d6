"""Data for tests: databases, timestamps, strategies, state machines, tables written down."""
