"""Which calls may enter a function: by name first, then by what the name means there."""

from __future__ import annotations

from codeaudit.facts import tree as t
from codeaudit.program.arguments import accepts
from codeaudit.program.classes import Classes
from codeaudit.program.frames import ClassValue, Frame, FunctionValue, Instance, Value
from codeaudit.program.index import CallSite, Function, last_name


class Callers(Classes):
    """Questions about callers; the resolver says what the callee of a call is."""

    _callers: dict[int, list[CallSite]]
    _asking: set[int]
    _cuts: int

    def callers(self, function: Function) -> list[CallSite]:
        """The calls that may enter a function, by name first and then by what the name means there."""
        known = self._callers.get(id(function))
        if known is not None:
            return known
        if id(function) in self._asking:  # a recursive question gets no answer
            self._cuts += 1
            return []
        self._asking.add(id(function))
        names = [function.name]
        if function.name == "__init__" and function.owner is not None:
            subclasses = self.subclasses(function.owner)
            names = [function.owner.name, *[s.name for s in subclasses]]
        elif function.name == "__call__" and function.owner is not None:
            made = [function.owner.name, *[s.name for s in self.subclasses(function.owner)]]
            names = sorted({n for name in made for n in self.program.names_of_objects.get(name, ())})
        elif function.name in ("__call__", "forward"):
            names = []
        sites: list[CallSite] = self._through_super(function) if function.name == "__init__" else []
        unsure: list[CallSite] = []
        for name in names:
            for site in self.program.calls_by_name.get(name, ()):
                if site.function is function:
                    continue
                values = self.types(site.call.func, Frame(site.function))
                if any(self._means(value, function) for value in values):
                    sites.append(site)
                elif not values and function.owner is not None and isinstance(site.call.func, t.Attr):
                    if accepts(function, site.call):
                        unsure.append(site)
        # A function handed over as a value (`partial(f, …)`, `target=f`) is entered by whoever receives it.
        if not sites and len(self.program.methods_by_name.get(function.name, ())) <= 4:
            sites = unsure
        self._asking.discard(id(function))
        self._callers[id(function)] = sites
        return sites

    def _through_super(self, function: Function) -> list[CallSite]:
        """The calls `super().__init__(…)` in the constructors of classes that derive from this one directly."""
        owner = function.owner
        own = [
            sub.methods["__init__"]
            for sub in (self.subclasses(owner) if owner is not None else ())
            if "__init__" in sub.methods and any(base is owner for base in self.bases(sub))
        ]
        return [
            site
            for site in (self.program.calls_by_name.get("__init__", ()) if own else ())
            if any(site.function is o for o in own)
            and isinstance(site.call.func, t.Attr)
            and isinstance(site.call.func.obj, t.Call)
            and last_name(site.call.func.obj.func) == "super"
        ]

    def _means(self, value: Value, function: Function) -> bool:
        if isinstance(value, FunctionValue):
            if value.function is function:
                return True
            if function.owner is not None and value.function.owner is not None and function.name == value.function.name:
                # A call through a base class reaches the overrides.
                return value.function.owner in self.mro(function.owner)
            return False
        if isinstance(value, Instance):
            return function.name == "__call__" and self.method(value.info, "__call__") is function
        if isinstance(value, ClassValue):
            return function.name == "__init__" and self.method(value.info, "__init__") is function
        return False
