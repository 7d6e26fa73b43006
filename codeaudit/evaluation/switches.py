"""A collector that learning and measuring share, told apart by a switch: `run(test_mode=True)`."""

from __future__ import annotations

import re
from typing import Literal

from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import last_name
from codeaudit.program.values import Evaluator

Names = Literal["objects", "callers", "none"]

MEASURING = re.compile(r"(is_|in_|do_)?(test(ing)?|eval(uate|uation|uating)?)(_mode|_phase|_run|_episode|_flag)?$")
GREEDY = re.compile(
    r"(is_|use_)?(deterministic|greedy|mean_action|mean|mode|argmax)(_pol|_policy)?$"
)  # nobody collects to learn like that
EVALUATES = re.compile(r"_*(eval|evaluate|evaluation)(_(?!.*train)|$)")
PART = r"(envs?|policy|agent|actor|driver|runner|collector|sampler|worker)"
FOR_MEASURING = re.compile(rf"(.*_)?(eval|evaluation|test)_(data_|path_)?{PART}$|{PART}_(eval|evaluation|test)$")
FOR_LEARNING = re.compile(
    rf"(.*_)?(train|training|expl|explore|exploration)_(data_|path_)?{PART}$|{PART}_(train|training)$"
)
LEARNING = re.compile(r"(is_|in_|do_)?(train|training|learn|learning)(_mode|_phase|_run|_episode|_flag)?$")


def says_measuring(frame: Frame, evaluator: Evaluator, names: Names) -> bool | None:
    """What the nearest switch on the way into a function says; None where there is no switch, or it isn't known.

    Where there is none, names may decide: those that callers give to objects and arguments, or the callers' own."""
    current: Frame | None = frame
    while current is not None:
        said = _passed(current, evaluator)
        if said is None:
            said = _stood_under(current)
        if said is None and names == "callers" and current.parent is not None:
            said = True if EVALUATES.match(current.parent.function.name) else None
        if said is None and names == "objects":
            said = _named(current)
        if said is not None:
            return said
        current = current.parent
    return None


def _wanted(name: str) -> bool | None:
    """The value of a switch of this name that means a measurement; None for no switch."""
    return True if MEASURING.match(name) else False if LEARNING.match(name) else None


def _passed(frame: Frame, evaluator: Evaluator) -> bool | None:
    for parameter in frame.function.node.params:
        greedy = GREEDY.match(parameter.name)
        wanted = True if greedy else _wanted(parameter.name)
        if wanted is None:
            continue
        argument = evaluator.resolver.argument(parameter.name, frame)
        if argument is None and isinstance(parameter.default, t.Const) and frame.call is not None:
            argument = parameter.default, frame
        known = evaluator.evaluate(*argument) if argument is not None else None
        if known is not None and isinstance(known.value, bool):
            if known.value is wanted or not greedy:
                return known.value is wanted
    return None


def _stood_under(frame: Frame) -> bool | None:
    """`if test_mode:` around the call, in the function that calls."""
    context = frame.parent.function.flow.contexts.get(id(frame.call)) if frame.parent is not None else None
    for test, held in reversed(context.guards if context is not None else ()):
        while isinstance(test, t.Unary) and test.op == "not":
            test, held = test.value, not held
        wanted = _wanted(last_name(test)) if isinstance(test, (t.Name, t.Attr)) else None
        if wanted is not None:
            return held is wanted
    return None


def _named(frame: Frame) -> bool | None:
    """`eval_driver(eval_policy)`: what the caller calls the object and what it passes."""
    if frame.call is None:
        return None
    names = [
        last_name(n) for n in (frame.call.func, *[a.value for a in frame.call.args]) if isinstance(n, (t.Name, t.Attr))
    ]
    holder = frame.call.func.obj if isinstance(frame.call.func, t.Attr) else None
    names += [last_name(holder)] if isinstance(holder, (t.Name, t.Attr)) else []
    if any(FOR_MEASURING.match(n) for n in names):
        return True
    return False if any(FOR_LEARNING.match(n) for n in names) else None
