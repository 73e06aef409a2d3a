"""The figures of the report, by kind. Each is a function of the data that returns a matplotlib Figure."""
