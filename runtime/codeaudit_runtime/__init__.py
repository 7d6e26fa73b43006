"""The runtime half of codeaudit: re-executes checkpoints and measures what they return. Never parses source code."""

from __future__ import annotations
