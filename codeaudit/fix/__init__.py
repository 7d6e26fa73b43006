"""Mend source as rules asked for, with formatting and comments kept. It decides nothing about what is wrong."""

from codeaudit.fix.source import diff, fixed, fixed_files, write_changes

__all__ = ["diff", "fixed", "fixed_files", "write_changes"]
