"""Networks called as functions of their parameters (Flax, Haiku): which function `net.apply(params, …)` enters.

What an expression is, the resolver says."""

from __future__ import annotations

from dataclasses import replace

from codeaudit.facts import tree as t
from codeaudit.program.attributes import Attributes
from codeaudit.program.frames import ClassValue, Frame, FunctionValue, Instance, LambdaValue, Library, Value
from codeaudit.program.index import last_name

MODULES = ("flax.", "haiku.", "hk.")
TRANSFORMS = {"haiku.transform": 2, "haiku.transform_with_state": 3, "haiku.multi_transform": 2}  # leading arguments


class Functional(Attributes):
    """Questions about `apply`."""

    def is_functional(self, owner: Instance) -> bool:
        """Whether an object's class is a module whose parameters are handed in at each call."""
        return any(base.startswith(MODULES) for base in self.library_bases(owner.info))

    def applied(self, owner: Value, name: str, depth: int) -> list[Value]:
        """What `owner.apply` and `state.apply_fn` enter; nothing for any other attribute."""
        if name == "apply" and isinstance(owner, Instance) and self.is_functional(owner):
            method = self.method(owner.info, "__call__")
            return [FunctionValue(method, receiver=owner, ahead=1)] if method is not None else []
        if isinstance(owner, Library) and owner.call is not None and owner.frame is not None:
            if name == "apply_fn":  # the library's TrainState.create(apply_fn=net.apply, …)
                handed = next((a.value for a in owner.call.args if a.name == name), None)
                return self.types(handed, owner.frame, depth + 1) if handed is not None else []
            if name == "apply" and owner.call.args:
                return self._transformed(owner, depth)
        return []

    def _transformed(self, owner: Library, depth: int) -> list[Value]:
        """`hk.transform(f).apply(params, key, x)` is f(x); without_apply_rng takes the key away."""
        assert owner.call is not None and owner.frame is not None
        values = self.types(owner.call.args[0].value, owner.frame, depth + 1)
        if owner.name == "haiku.without_apply_rng":
            inner = [f for v in values for f in self.applied(v, "apply", depth + 1)]
            return [replace(f, ahead=f.ahead - 1) for f in inner if isinstance(f, FunctionValue)]
        ahead = TRANSFORMS.get(owner.name)
        if ahead is None:
            return []
        return [replace(v, ahead=ahead) if isinstance(v, FunctionValue) else v
                for v in values if isinstance(v, (FunctionValue, LambdaValue))]  # fmt: skip

    def created(self, call: t.Call, frame: Frame, depth: int) -> list[Value]:
        """`State.create(apply_fn=…)` on a class that inherits `create` from the library's TrainState: the object."""
        if not isinstance(call.func, t.Attr) or call.func.name != "create":
            return []
        classes = [v for v in self.types(call.func.obj, frame, depth + 1) if isinstance(v, ClassValue)]
        return [
            Instance(v.info, call, frame)
            for v in classes
            if self.method(v.info, "create") is None and any(b.startswith("flax.") for b in self.library_bases(v.info))
        ]

    def by_method(self, call: t.Call, frame: Frame, depth: int) -> list[Value]:
        """`net.apply(params, …, method=Net.value)`: the method that is named."""
        if last_name(call.func) not in ("apply", "apply_fn"):
            return []
        named = next((a.value for a in call.args if a.name == "method"), None)
        if named is None:
            return []
        if isinstance(named, t.Const) and isinstance(named.value, str) and isinstance(call.func, t.Attr):
            owners = [v for v in self.types(call.func.obj, frame, depth + 1) if isinstance(v, Instance)]
            found = [(self.method(v.info, named.value), v) for v in owners]
            return [FunctionValue(f, receiver=v, ahead=1) for f, v in found if f is not None]
        values = [v for v in self.types(named, frame, depth + 1) if isinstance(v, FunctionValue)]
        return [
            replace(v, receiver=v.receiver or (Instance(v.function.owner) if v.function.owner else None), ahead=1)
            for v in values
        ]
