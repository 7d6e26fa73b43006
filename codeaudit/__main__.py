"""`python -m codeaudit`: the command line, for where the console script is not on the path. Holds nothing else."""

from __future__ import annotations

from codeaudit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
