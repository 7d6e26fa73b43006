"""Measurements and verdicts as JSON, tables, Markdown and HTML. Renders; decides nothing."""
