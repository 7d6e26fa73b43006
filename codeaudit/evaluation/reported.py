"""Where the return of a rollout is reported: printed, logged, averaged or handed back."""

from __future__ import annotations

from codeaudit.evaluation import words
from codeaudit.evaluation.purpose import LOGS
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name


def report_site(function: Function, after: int, frame: Frame) -> Place | None:
    """The first place after the step where a return is logged: in the function, else in the callers that get its result."""
    returned = any(e.value is not None and _is_reward(e.value) for e in function.flow.returns)
    own = _logged(function, after, None)
    if frame.parent is not None and frame.call is not None and (returned or own is None):
        caller = frame.parent.function
        event = next((e for e in caller.flow.calls if e.call is frame.call), None)
        if event is not None:
            results = {n for n, ds in caller.flow.definitions.items() for d in ds if d.statement is event.statement}
            place = _logged(caller, event.context.order, results or None)
            if place is not None:
                return place
            if own is None:
                return report_site(caller, event.context.order, frame.parent)
    if own is not None:
        return own
    for event in function.flow.returns:
        if event.value is not None and _is_reward(event.value):
            return Place(function.module.path, event.line)
    return None


def _logged(function: Function, after: int, names: set[str] | None) -> Place | None:
    candidates: list[CallEvent] = []
    for event in function.flow.calls:
        if event.context.order <= after or last_name(event.call.func) not in LOGS:
            continue
        if names is not None:
            if any(isinstance(p, t.Name) and p.id in names for a in event.call.args for p in t.walk(a)):
                candidates.append(event)
        elif any(_is_reward(a.value) for a in event.call.args):
            candidates.append(event)
    if not candidates:
        return None
    reward = [e for e in candidates if any(_is_reward(a.value) for a in e.call.args)]
    best = (reward or candidates)[0]
    return Place(function.module.path, best.call.line)


def _is_reward(node: t.Node) -> bool:
    for part in t.walk(node):
        if isinstance(part, (t.Name, t.Attr)) and words.REWARD.search(last_name(part)):
            return True
        if isinstance(part, t.Const) and isinstance(part.value, str) and words.REWARD.search(part.value.split("/")[-1].strip()):
            return True
    return False
