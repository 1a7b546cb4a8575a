"""Draws results: text, web pages and pictures. Importing it loads numpy and nothing heavier."""

from __future__ import annotations

from infuser.reports.explanation_page import write_explanation
from infuser.reports.heatmap import draw_explanation, write_png
from infuser.reports.report import write_report

__all__ = [
    "draw_explanation",
    "write_explanation",
    "write_png",
    "write_report",
]
