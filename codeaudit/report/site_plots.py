"""Small SVG plots of measured returns for the site: one row an action rule. Draws numbers; computes none."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 640, 26, 130, 70, 20


def returns_plot(checkpoint: Mapping[str, Any]) -> str:
    """Mean and interval of each rule, the floor's too, and the published mean as a dashed line."""
    rules: Mapping[str, Mapping[str, float]] = {
        name: rule
        for name, rule in checkpoint["rules"].items()
        if None not in (rule["mean"], rule["low"], rule["high"])  # one episode has no interval
    }
    if not rules:
        return ""
    published = checkpoint.get("published")
    values = [value for rule in rules.values() for value in (rule["low"], rule["high"])]
    values += [published["mean"]] if published else []
    low, high = min(values), max(values)
    pad = (high - low) * 0.06 or max(abs(low), 1.0) * 0.1
    low, high = low - pad, high + pad

    def x(value: float) -> str:
        return f"{_LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT):.1f}"

    bottom = _TOP + _ROW * len(rules)
    parts = [f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}"/>']
    for value, anchor in ((low, "start"), (high, "end")):
        parts.append(f'<text class="small" x="{x(value)}" y="{bottom + 15}" text-anchor="{anchor}">{value:.4g}</text>')
    if published:
        mean = published["mean"]
        parts.append(f'<line class="published" x1="{x(mean)}" y1="{_TOP - 4}" x2="{x(mean)}" y2="{bottom}"/>')
        parts.append(
            f'<text class="small" x="{x(mean)}" y="{_TOP - 8}" text-anchor="middle">published {mean:.4g}</text>'
        )
    for index, (name, rule) in enumerate(rules.items()):
        y = _TOP + _ROW * index + _ROW // 2
        group = ' class="floor"' if name == "uniform_random" else ""
        parts.append(
            f'<g{group}><text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            f'<line class="bar" x1="{x(rule["low"])}" y1="{y}" x2="{x(rule["high"])}" y2="{y}"/>'
            f'<circle class="dot" cx="{x(rule["mean"])}" cy="{y}" r="4"/>'
            f'<text x="{_WIDTH}" y="{y + 4}" text-anchor="end">{rule["mean"]:.4g}</text>'
            f"<title>{escape(name)}: {rule['mean']:.4g} [{rule['low']:.4g}, {rule['high']:.4g}]</title></g>"
        )
    height = bottom + 22
    said = "; ".join(f"{name} {rule['mean']:.4g}" for name, rule in rules.items())
    label = escape(f"Mean returns: {said}" + (f"; published {published['mean']:.4g}" if published else ""))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )
