"""How numbers are written in tables, sentences and plots. Not for computing them."""

from __future__ import annotations


def number(value: float | None) -> str:
    """Three significant digits, without an exponent for usual returns; – for none."""
    if value is None or value != value:
        return "–"
    if value == 0 or 0.001 <= abs(value) < 1e6:
        digits = 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
        return f"{value:,.{digits}f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"
    return f"{value:.3g}"


def ordinal(percent: float) -> str:
    """`5th`, `50th`, `22nd`."""
    text = f"{percent:g}"
    last_two = percent % 100
    ending = "th"
    if percent == int(percent) and not 10 < last_two < 14:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(int(percent) % 10, "th")
    return text + ending
