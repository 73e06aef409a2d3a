"""The figures of the report: one module each (drawings: several), with ALT, caption(data) and draw(data).

draw() returns a matplotlib Figure; caption() works without matplotlib.
"""
