"""What claims, tables and figures need of the data that the report can do without."""
from __future__ import annotations


def needs(*files):
    """Marks a function of the data."""
    def mark(function):
        function.NEEDS = files
        return function

    return mark


def are_there(something, data) -> bool:
    """For a function that is marked, or a module with NEEDS; others need nothing."""
    return data.has(*getattr(something, "NEEDS", ()))
