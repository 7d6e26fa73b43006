"""codeaudit: which policy do the reported test returns of a codebase measure? Libraries call `codeaudit.scan(target)`.

Not for logic: what it offers is loaded on first use, so that `import codeaudit` costs nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeaudit.scan import scan as scan

__all__ = ["__version__", "scan"]
__version__ = "0.1.0"


class _Package(ModuleType):
    """Keeps `codeaudit.scan` the function although there is a submodule of that name."""

    @property
    def scan(self) -> Any:
        """The function `codeaudit.scan.scan`."""
        from codeaudit.scan import scan

        return scan

    @scan.setter
    def scan(self, module: ModuleType) -> None:
        """Python binds a submodule to its package when it is imported; here the function keeps the name."""


sys.modules[__name__].__class__ = _Package
