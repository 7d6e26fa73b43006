"""Where the return of a rollout is reported: printed, logged, averaged or handed back."""

from __future__ import annotations

import re

from codeaudit.evaluation import words
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name

TEST = re.compile(r"(^|[^a-z])(test|eval|valid)", re.I)
AVERAGE = re.compile(r"(mean|avg|average|median|normalized|score)", re.I)


def report_site(function: Function, after: int, frame: Frame, results: frozenset[str] = frozenset()) -> Place | None:
    """The first place after the step where a return is logged: in the function, else in the callers that get its
    result.

    `results` are the names that the step bound; a log of what hangs on them comes before a log of any other return."""
    returned = any(e.value is not None for e in function.flow.returns)
    own = _logged(function, after, results, strict=False)
    if frame.parent is not None and frame.call is not None and (returned or own is None):
        caller = frame.parent.function
        event = next((e for e in caller.flow.calls if e.call is frame.call), None)
        if event is not None:
            around = _around(caller, frame.call)
            if around is not None:
                return around
            bound = frozenset(
                n for n, ds in caller.flow.definitions.items() for d in ds if d.statement is event.statement
            )
            place = _logged(caller, event.context.order, bound, strict=bool(bound))
            if place is not None and (bound or own is None):
                return place
            if own is None:
                return report_site(caller, event.context.order, frame.parent)
    if own is not None:
        return own
    for returning in function.flow.returns:
        if returning.value is not None and _is_reward(returning.value):
            return Place(function.module.path, returning.line)
    return None


def _around(function: Function, call: t.Call) -> Place | None:
    """A log that has the call in its arguments: `print("score", evaluate(policy))`."""
    for event in function.flow.calls:
        if last_name(event.call.func) in words.LOGS and event.call is not call:
            if any(part is call for a in event.call.args for part in t.walk(a)):
                return Place(function.module.path, event.call.line)
    return None


def _logged(function: Function, after: int, names: frozenset[str], strict: bool) -> Place | None:
    """The log after a point that mentions the names or what was made of them; unless `strict`, else any log of a
    return."""
    tied = _tied(function, names)
    mentioning: list[CallEvent] = []
    rewarding: list[CallEvent] = []
    for event in function.flow.calls:
        if event.context.order <= after or last_name(event.call.func) not in words.LOGS:
            continue
        reward = any(_is_reward(a.value) for a in event.call.args)
        parts = [p for a in event.call.args for p in t.walk(a)]
        if any(t.dotted(p) in tied for p in parts if isinstance(p, (t.Name, t.Attr))):
            mentioning.append(event)
        if reward:
            rewarding.append(event)
    both = [e for e in mentioning if any(e is r for r in rewarding)]
    found = both or (mentioning if strict else rewarding)
    if not strict and any(_says_test(e.call) for e in rewarding):
        found = rewarding
    # A log that says "test" and a mean over episodes come before one line per episode inside the loop.
    best = min(found, key=lambda e: (not _says_test(e.call), not _averages(e.call), e.context.order), default=None)
    return Place(function.module.path, best.call.line) if best is not None else None


def _says_test(call: t.Call) -> bool:
    return any(TEST.search(p.value) for p in t.walk(call) if isinstance(p, t.Const) and isinstance(p.value, str))


def _averages(call: t.Call) -> bool:
    for part in t.walk(call):
        text = (
            part.value if isinstance(part, t.Const) else last_name(part) if isinstance(part, (t.Name, t.Attr)) else ""
        )
        if isinstance(text, str) and AVERAGE.search(text):
            return True
    return False


def _tied(function: Function, names: frozenset[str]) -> frozenset[str]:
    """The names, and the names that are bound from them: by assignment, by a loop, or by being appended to."""
    tied = set(names)
    for _ in range(3):
        for name, definitions in function.flow.definitions.items():
            if name not in tied and any(
                _mentions(d.value, tied) for d in definitions if d.kind in ("assign", "loop", "augment")
            ):
                if (
                    words.REWARD.search(name.split(".")[-1])
                    or words.EPISODE.search(name.split(".")[-1])
                    or any(d.kind == "loop" for d in definitions)
                ):
                    tied.add(name)
        for event in function.flow.calls:
            func = event.call.func
            if isinstance(func, t.Attr) and func.name in ("append", "extend", "add") and t.dotted(func.obj):
                if any(_mentions(a.value, tied) for a in event.call.args):
                    tied.add(t.dotted(func.obj))
    return frozenset(tied)


def _mentions(node: t.Node, names: set[str]) -> bool:
    return any(t.dotted(p) in names for p in t.walk(node) if isinstance(p, (t.Name, t.Attr)))


def _is_reward(node: t.Node) -> bool:
    for part in t.walk(node):
        if isinstance(part, (t.Name, t.Attr)) and words.REWARD.search(last_name(part)):
            return True
        if (
            isinstance(part, t.Const)
            and isinstance(part.value, str)
            and words.REWARD.search(part.value.split("/")[-1].strip())
        ):
            return True
    return False
