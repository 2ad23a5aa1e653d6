"""Figures for programs and the page's chart: sums, means and extremes by the hour or day of a zone.

GET /api/v1/figures ─▶ routes ─▶ asked (which metrics, stretches and zone, compared with when) ─▶ backend/figures
    ─▶ routes ─▶ JSON, CSV
GET /api/v1/chart ─▶ web/api ─▶ asked ─▶ backend/chart
"""
