"""What the resolver computes with: frames (a function as entered by one call) and values (what an expression may
be)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from codeaudit.facts import tree as t
from codeaudit.program.index import ClassInfo, Function, Module


@dataclass(frozen=True, eq=False)
class Frame:
    """A function as entered through one call; without a parent, its callers aren't known (yet)."""

    function: Function
    parent: Frame | None = None
    call: t.Call | None = None
    receiver: Value | None = None  # what `self` is
    closure: Frame | None = None  # the frame that a nested function was defined in
    bound: tuple[t.Arg, ...] = ()  # arguments fixed earlier (functools.partial)
    bound_frame: Frame | None = None  # where they are read; else in `parent`
    skip: int = 0  # leading parameters that are filled otherwise
    fed: tuple[tuple[str, t.Node, Frame], ...] = ()  # graph inputs by name, with what the call feeds them

    @cached_property
    def depth(self) -> int:
        depth, frame = 0, self.parent
        while frame is not None:
            depth, frame = depth + 1, frame.parent
        return depth

    @property
    def root(self) -> Frame:
        """The frame that the chain of callers starts in."""
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame

    @cached_property
    def key(self) -> tuple[int, ...]:
        parent = self.parent.key if self.parent else ()
        receiver = self.receiver.key if isinstance(self.receiver, Instance) else ()
        fed = [part for _, node, frame in self.fed for part in (id(node), *frame.key)]
        closure = self.closure.key if self.closure else ()
        return (id(self.function), id(self.call), len(fed), *fed, len(closure), *closure, *receiver, *parent)

    def inside(self, function: Function) -> bool:
        """Whether the function is already being followed (recursion)."""
        frame: Frame | None = self
        while frame is not None:
            if frame.function is function:
                return True
            frame = frame.parent
        return False


@dataclass(frozen=True, eq=False)
class Value:
    """What an expression may be."""


@dataclass(frozen=True, eq=False)
class Instance(Value):
    """An object of a class of the program, with the call that made it where that is known."""

    info: ClassInfo
    call: t.Call | None = None
    frame: Frame | None = None  # where that call stands

    @property
    def key(self) -> tuple[int, ...]:
        return (id(self.info), id(self.call))


@dataclass(frozen=True, eq=False)
class FunctionValue(Value):
    function: Function
    receiver: Value | None = None
    closure: Frame | None = None
    bound: tuple[t.Arg, ...] = ()
    bound_frame: Frame | None = None
    ahead: int = 0  # leading arguments that aren't its own: the parameters in `net.apply(params, observation)`


@dataclass(frozen=True, eq=False)
class LambdaValue(Value):
    node: t.Lambda
    frame: Frame


@dataclass(frozen=True, eq=False)
class ClassValue(Value):
    info: ClassInfo


@dataclass(frozen=True, eq=False)
class ModuleValue(Value):
    module: Module


@dataclass(frozen=True, eq=False)
class Library(Value):
    """A name of a library, as imported: `torch.nn.Linear`; `call` when it is the result of calling that name."""

    name: str
    call: t.Call | None = None
    frame: Frame | None = field(default=None)
