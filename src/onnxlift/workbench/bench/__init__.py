"""`bench`: how fast models and engines are, measured by turns in one run.

verb        all of it: prepare models and engines, measure, compare
contest     contenders that run by turns, each in a child of its own
worker      the program of such a child
statistics  percentiles and ratios with their intervals, and whether they tell anything
report      the table, JSON and plot
plot        the plot as SVG
"""

from __future__ import annotations

from .verb import bench

__all__ = ["bench"]
