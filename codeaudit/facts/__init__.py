"""What one file says, as plain data. LibCST lives in `python.py` alone; everything above reads `tree` nodes."""
