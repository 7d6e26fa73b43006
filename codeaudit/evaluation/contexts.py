"""The ways into a function: chains of callers as frames, so that arguments, options and objects can be followed
back."""

from __future__ import annotations

from codeaudit.program.arguments import is_abstract
from codeaudit.program.frames import Frame, FunctionValue, Instance, Value
from codeaudit.program.index import CallSite, Function
from codeaudit.program.resolve import Resolver

MAX_CALLERS = 10
MAX_CONTEXTS = 24
MAX_HEIGHT = 5


def contexts(function: Function, resolver: Resolver) -> list[Frame]:
    """Frames of the function, one per chain of callers; a single frame without a parent where nobody calls it."""
    return _contexts(function, resolver, 0, ())[:MAX_CONTEXTS]


def _contexts(function: Function, resolver: Resolver, height: int, below: tuple[int, ...]) -> list[Frame]:
    if height >= MAX_HEIGHT or id(function) in below:
        return _roots(function, resolver)
    found: list[Frame] = []
    for site in resolver.callers(function)[:MAX_CALLERS]:
        for outer in _contexts(site.function, resolver, height + 1, (*below, id(function)))[:MAX_CONTEXTS]:
            found.extend(_entered(function, site, outer, resolver))
            if len(found) >= MAX_CONTEXTS:
                return found
    return found or _roots(function, resolver)


def _entered(function: Function, site: CallSite, outer: Frame, resolver: Resolver) -> list[Frame]:
    frames: list[Frame] = []
    values = resolver.types(site.call.func, outer)
    for value in values:
        if isinstance(value, Instance) and resolver.method(value.info, "__call__") is function:
            frames.append(Frame(function, parent=outer, call=site.call, receiver=value))
        if isinstance(value, FunctionValue):
            for actual in resolver.dispatched(value):
                if actual.function is function:
                    frame = resolver.enter(actual, site.call, outer)
                    if frame is not None:
                        frames.append(frame)
    if not frames and any(isinstance(v, FunctionValue) and v.receiver is outer.receiver for v in values):
        return []  # `self.evaluate()` of an object whose class has another method there
    if not frames and values and all(_of_known_object(v) for v in values):
        return []  # the object is known, and its class has another method of this name
    if not frames:
        receiver: Value | None = Instance(function.owner) if function.owner else None
        frames = [Frame(function, parent=outer, call=site.call, receiver=receiver)]
    return frames[:4]


def _of_known_object(value: Value) -> bool:
    return isinstance(value, FunctionValue) and isinstance(value.receiver, Instance) and value.receiver.call is not None


def _roots(function: Function, resolver: Resolver) -> list[Frame]:
    if function.outer is not None and function.owner is None:
        # A closure that is handed on as a value: it still sees what its function was called with.
        outer = _contexts(function.outer, resolver, MAX_HEIGHT - 2, (id(function),))
        return [Frame(function, closure=frame) for frame in outer[:6]]
    if function.owner is None:
        return [Frame(function)]
    # A method that nobody calls by a name we can follow: its own class, or the classes that inherit it.
    concrete = [sub for sub in resolver.subclasses(function.owner) if resolver.method(sub, function.name) is function]
    made = [_made(info, resolver) for info in (function.owner, *concrete)]
    instances = [m for group in made for m in group]
    if instances:
        return [Frame(function, receiver=i) for i in instances[:8]]
    has_open_steps = any(is_abstract(m) for m in function.owner.methods.values())
    if concrete and has_open_steps:
        return [Frame(function, receiver=Instance(sub)) for sub in concrete[:8]]
    return [Frame(function, receiver=Instance(function.owner))]


def _made(info: object, resolver: Resolver) -> list[Instance]:
    """The objects of a class, by the calls that make them."""
    name = info.name  # type: ignore[attr-defined]
    found: list[Instance] = []
    for site in resolver.program.calls_by_name.get(name, ())[:MAX_CALLERS]:
        frame = Frame(site.function)
        for value in resolver.types(site.call, frame):
            if isinstance(value, Instance) and value.info is info and value.call is site.call:
                found.append(value)
    return found
