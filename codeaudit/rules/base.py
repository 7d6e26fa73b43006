"""What a lint rule is, and what it may look at. Not for any rule itself, nor for how findings are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from codeaudit.evaluation import words
from codeaudit.evaluation.find import Audit
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place
from codeaudit.evaluation.tools import Found
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import Frame, Library
from codeaudit.program.index import CallSite, Function, Module, last_name

Severity = Literal["error", "warning", "note"]
Files = Mapping[str, str]


@dataclass(frozen=True)
class Edit:
    """A change of source that `codeaudit.fix` knows how to make. Plain data: a rule asks, it never rewrites."""

    kind: Literal["add_keyword", "restore_mode", "slot_quota"]
    file: str
    line: int  # of the call or the loop to change, or of the function to extend
    name: str  # the call's last name (`act`), the function's name, or the list that a loop fills
    keyword: str  # the keyword to add, the receiver whose mode is restored, or ""
    value: str  # source text of the keyword's value, or of the number of slots
    safe: bool  # changes no behaviour


@dataclass(frozen=True)
class Hit:
    """One fault at one place, as a rule reports it."""

    place: Place
    message: str
    end_line: int = 0  # the last line on which an ignore comment counts; 0: the same line
    evidence: tuple[Evidence, ...] = ()
    edit: Edit | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """What a rule may look at: the program, its sites, and the files that say how it is installed."""

    audit: Audit
    sites: Sequence[EvaluationSite]
    texts: Mapping[str, str]  # requirements, lock files, Dockerfiles …: path → text

    # --- the program ------------------------------------------------------------------------------------------------

    @cached_property
    def functions(self) -> list[Function]:
        """The functions of the audited repository itself, unit tests left out; modules' own statements are
        functions.
        """
        return [f for f in self.audit.program.functions if not f.module.package and not is_test(f.module)]

    @cached_property
    def modules(self) -> list[Module]:
        return [m for m in self.audit.program.modules.values() if not m.package and not is_test(m)]

    def calls(self, *names: str) -> Iterator[CallSite]:
        """The calls under these last names, unit tests and dependencies left out."""
        for name in names:
            for site in self.audit.program.calls_by_name.get(name, ()):
                if not site.function.module.package and not is_test(site.function.module):
                    yield site

    def library(self, node: t.Node, function: Function) -> str:
        """The dotted library name that an expression means (`torch.load`), or ""."""
        for value in self.audit.resolver.types(node, Frame(function)):
            if isinstance(value, Library):
                return value.name
        return ""

    @cached_property
    def imported(self) -> dict[str, Place]:
        """The top-level packages from outside that the code imports, with the first place of each."""
        return self._imports(into_functions=True)

    @cached_property
    def imported_on_top(self) -> dict[str, Place]:
        """The same, without imports inside functions, which only some runs need."""
        return self._imports(into_functions=False)

    def _imports(self, *, into_functions: bool) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for module in sorted(self.modules, key=lambda m: (len(m.parts), m.path)):
            for node in t.walk(module.file, into_functions=into_functions):
                if not isinstance(node, t.Import) or node.level:
                    continue
                for name in [node.module] if node.module else [n for n, _ in node.names]:
                    if name and self.audit.program.find_module(name, 0, module) is None:
                        found.setdefault(name.partition(".")[0], Place(module.path, node.line))
        return found

    # --- sites and rollouts -----------------------------------------------------------------------------------------

    @cached_property
    def measured(self) -> list[EvaluationSite]:
        """The sites that report a return: no demo, no random baseline, nothing undecided."""
        return [s for s in self.sites if s.role != "demo" and s.agent != "random" and s.rule != "unknown"]

    def events_at(self, site: EvaluationSite) -> list[tuple[Function, CallEvent]]:
        """The calls that begin and end where a site does, innermost first, with the function that they stand in."""
        module = self.audit.program.modules.get(site.file)
        return [
            (function, event)
            for function in (module.functions if module is not None else ())
            if function.name == site.function
            for event in function.flow.calls
            if event.call.line == site.line and event.call.end_line == site.end_line
        ]

    @cached_property
    def rollouts(self) -> list[Found]:
        """Every stepped environment with what the rollout is for; dead code and unit tests left out."""
        return [f for f in self.audit.rollouts() if not is_test(f.rollout.function.module)]


class Rule:
    """One lint rule. `good` and `bad` are its documentation and its tests: small repositories, path → text."""

    code: ClassVar[str]
    name: ClassVar[str]
    message: ClassVar[str]  # one line, what is wrong in general
    why: ClassVar[str]  # why it matters
    source: ClassVar[str]  # paper, issue or documentation that says so
    severity: ClassVar[Severity] = "warning"
    default: ClassVar[bool] = True  # runs unless it is ignored; else only where it is selected by its whole code
    fixable: ClassVar[Literal["", "safe", "unsafe"]] = ""
    experiment: ClassVar[str] = ""  # the prediction or command that would confirm it at run time
    good: ClassVar[tuple[Files, ...]] = ()
    bad: ClassVar[tuple[Files, ...]] = ()

    def check(self, subject: Subject) -> Iterator[Hit]:
        """The faults of this kind in a program."""
        raise NotImplementedError


def setups(path: str) -> bool:
    """A file that installs the code rather than runs it."""
    return path.rpartition("/")[2] in ("setup.py", "conf.py")


def is_test(module: Module) -> bool:
    return words.is_test(module.path)


def place(function: Function, node: t.Node) -> Place:
    return Place(function.module.path, node.line)


def keyword(call: t.Call, name: str) -> t.Node | None:
    """The expression passed under a keyword."""
    return next((arg.value for arg in call.args if arg.name == name), None)


def positional(call: t.Call) -> list[t.Node]:
    return [arg.value for arg in call.args if not arg.name]


def unpacks(call: t.Call) -> bool:
    """Whether the call passes `*args` or `**kwargs`, so that what it passes isn't known."""
    return any(arg.name in ("*", "**") for arg in call.args)


def mentions(node: t.Node, names: set[str]) -> bool:
    """Whether one of the (dotted) names is read in an expression."""
    return any(
        (isinstance(part, t.Name) and part.id in names) or (isinstance(part, t.Attr) and t.dotted(part) in names)
        for part in t.walk(node)
    )


def receiver(call: t.Call) -> t.Node | None:
    """`net` of `net.eval()`."""
    return call.func.obj if isinstance(call.func, t.Attr) else None


def call_text(call: t.Call) -> str:
    """How a call is named in a message: `envs.step`."""
    return t.dotted(call.func) or last_name(call.func)


def last_part(dotted: str) -> str:
    return dotted.rpartition(".")[2]
