"""Which call chose the action that is stepped: an action followed back, within one function, to its selection."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from codeaudit.evaluation import words
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Selector
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import ClassInfo, Function, last_name
from codeaudit.program.reaching import reaching
from codeaudit.program.resolve import Resolver

# fmt: off
NOT_SELECTING = {  # calls that hand on what they hold
    "get", "pop", "receive", "recv", "popleft", "put", "input", "reset",
    "wait", "getattr", "read", "append", "join", "format", "split", "items",
    "keys", "values", "zeros", "ones", "full", "index", "key_to_action", "get_event",
    "getkey", "readline", "loads", "load",
}
# fmt: on
BLANKS = {"zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like"}  # their arguments are shapes
ACTION_NAME = re.compile(r"^(a|u|ac|acs|act|acts|actions?|\w*_actions?|actions?_\w+)$")


@dataclass(frozen=True, eq=False)
class Selection:
    """The call (or the expression) that selects the action."""

    node: t.Node
    selector: Selector
    context: Context  # of the statement it stands in
    guards: tuple[tuple[t.Node, bool], ...]  # conditions it stands under and the step doesn't
    names: tuple[str, ...]  # the local names that hold the action on its way to the step
    replaced: Selection | None = None  # what takes its place where the last of the guards doesn't hold


class Selections:
    """The selections of an action; what an environment is, the finder says."""

    resolver: Resolver

    def is_environment_class(self, info: ClassInfo) -> bool:
        raise NotImplementedError

    def looks_like_environment(self, node: t.Node, function: Function) -> bool:
        raise NotImplementedError

    def selections(self, action: t.Node, context: Context, function: Function) -> list[Selection]:
        """The calls in this function (or in one that calls it) that select the action."""
        found: list[Selection] = []
        self._select(action, (), context, (), function, (), found, 0, set())
        best: dict[int, Selection] = {}
        for s in found:
            if id(s.node) not in best or len(s.guards) < len(best[id(s.node)].guards):
                best[id(s.node)] = s
        # The first action of an episode, chosen before the loop, is a selection of its own where the same call is made.
        loop = context.loops[-1] if context.loops else None
        inside = [s for s in best.values() if any(x is loop for x in s.context.loops)]
        names = {last_name(s.node) for s in inside}
        kept = [s for s in best.values() if not inside or s in inside or last_name(s.node) in names]
        return [_unless_replaced(s, kept, found, function) for s in kept]

    def _select(
        self,
        node: t.Node,
        selector: Selector,
        context: Context,
        guards: tuple[tuple[t.Node, bool], ...],
        function: Function,
        names: tuple[str, ...],
        found: list[Selection],
        depth: int,
        seen: set[tuple[object, ...]],
    ) -> None:
        key = (id(node), selector, *((id(test), held) for test, held in guards))
        if depth > 12 or key in seen or len(seen) > 400:
            return
        seen.add(key)

        def again(
            inner: t.Node,
            step: Selector = selector,
            at: Context = context,
            more: tuple[tuple[t.Node, bool], ...] = guards,
            held: tuple[str, ...] = names,
        ) -> None:
            self._select(inner, step, at, more, function, held, found, depth + 1, seen)

        if isinstance(node, (t.Name, t.Attr)):
            dotted = t.dotted(node)
            definitions = function.flow.definitions.get(dotted, []) if dotted else []
            if not definitions and isinstance(node, t.Attr):
                again(node.obj, (node.name, *selector))
                return
            for d, extra in reaching(definitions, context, lambda guard: None, first_turn=True):
                if (
                    d.kind == "loop"
                    and isinstance(d.value, t.Call)
                    and last_name(d.value.func) in ("range", "enumerate")
                ):
                    continue
                again(d.value, (*d.selector, *selector), d.context, (*guards, *extra), (*names, dotted))
                if isinstance(d.value, t.Seq) and not d.value.items and ACTION_NAME.match(last_name(node)):
                    filled = function.flow.appended.get(dotted, [])
                    if len(filled) == 1:  # one part of the action at a time, in a loop; several are members that vote
                        again(filled[0], (), context, guards, (*names, dotted))
                if _is_blank(d.value):  # actions = {}, actions[player] = agent.act(…)
                    for target, value, at in function.flow.subscript_stores:
                        if t.dotted(target.obj) == dotted:
                            again(value, (), at, guards, (*names, dotted))
            return
        if isinstance(node, t.Call):
            if words.OTHER_PLAYER.search(last_name(node.func)) or last_name(node.func) in BLANKS:
                return
            if self._selects(node, selector, function):
                found.append(Selection(node, selector, context, guards, names))
                return
            receiver = node.func.obj if isinstance(node.func, t.Attr) else None
            before = len(found)
            step = selector if last_name(node.func) in ("tuple", "list", "map", "zip") else ()
            if receiver is not None and not isinstance(receiver, t.Name):
                again(receiver, selector)
            elif (
                isinstance(receiver, t.Name)
                and receiver.id in function.flow.definitions
                and last_name(node.func) in words.CONVERSIONS
            ):
                again(receiver, selector)
            if len(found) == before:
                # convert(spaces, actions): what is called an action comes first.
                for arg in sorted(node.args[:4], key=lambda a: not ACTION_NAME.match(last_name(a.value))):
                    again(arg.value, step)
                    if len(found) > before:
                        break
            if len(found) == before and node.args and self._unheard_of(node, function):
                found.append(Selection(node, selector, context, guards, names))
            return
        if isinstance(node, t.Sub):
            index = node.index.value if isinstance(node.index, t.Const) else "*"
            before = len(found)
            again(node.obj, (index if isinstance(index, (int, str)) else "*", *selector))
            if isinstance(node.obj, t.Name) and len(found) == before:
                for event in function.flow.calls:  # actions.append(a): the first of them stands for the list
                    func = event.call.func
                    if (
                        isinstance(func, t.Attr)
                        and func.name == "append"
                        and t.dotted(func.obj) == node.obj.id
                        and event.call.args
                    ):
                        again(event.call.args[0].value, (), event.context)
                        if len(found) > before:
                            break
            if (
                len(found) == before
                and isinstance(node.obj, t.Call)
                and last_name(node.obj.func) in ("eye", "identity")
            ):
                again(node.index, ())  # np.eye(n)[actions]
            holder = t.dotted(node.obj)
            if holder and not isinstance(node.index, t.Const):
                for target, value, at in function.flow.subscript_stores:  # actions[i] = agent.act(obs[i])
                    if t.dotted(target.obj) == holder:
                        again(value, (), at, guards, (*names, holder))
            return
        if isinstance(node, t.Seq):
            if selector and isinstance(selector[0], int) and -len(node.items) <= selector[0] < len(node.items):
                again(node.items[selector[0]], selector[1:])
                return
            for item in node.items[:4]:
                again(item)
            return
        if isinstance(node, t.Map):
            for part, value in node.items:
                if isinstance(part, t.Const) and "act" in str(part.value).lower():
                    again(value, ())
            return
        if isinstance(node, t.Op):
            before = len(found)
            again(node.left)
            if len(found) == before or not _is_noise(
                node.right, function
            ):  # the noise of `action + noise` selects nothing
                again(node.right)
            return
        if isinstance(node, t.Cond):
            again(node.body, more=(*guards, (node.test, True)))
            again(node.orelse, more=(*guards, (node.test, False)))
            return
        if isinstance(node, t.Comp):
            again(node.element.items[0][1] if isinstance(node.element, t.Map) else node.element)
            for _, iterable, _ in node.loops:
                if not found:
                    again(iterable)
            return
        if isinstance(node, (t.Unary, t.Star)):
            again(node.value)
            return
        if isinstance(node, t.Bool):
            again(node.left)
            again(node.right)
            return
        if isinstance(node, t.Other):
            for part in node.parts:
                again(part.value if isinstance(part, t.Assign) else part)

    def _selects(self, call: t.Call, selector: Selector, function: Function) -> bool:
        """Whether a call selects an action, rather than converting one."""
        name = last_name(call.func)
        receiver = call.func.obj if isinstance(call.func, t.Attr) else None
        held_by = last_name(receiver) if receiver is not None else ""
        if name in ("get", "pop", "receive", "recv", "popleft", "put", "input", "reset", "wait", "getattr", "read"):
            return False
        if name in ("step", "reset") and receiver is not None and self.looks_like_environment(receiver, function):
            return False  # an observation
        if name == "max" and selector[:1] in ((1,), ("indices",)):
            return True
        if name in words.SAMPLES or name in ("argmax", "mode", "argsort", "topk"):
            return not (words.BUFFER.search(held_by) and not words.DISTRIBUTION.search(held_by))
        if name in ("randint", "randrange", "choice", "choices", "integers"):
            return True
        if name == "uniform" or name in words.GAUSSIAN or name in words.RANDOM_CALLS:
            return False
        if name == "run" and "sess" in held_by.lower():
            return True
        if isinstance(call.func, t.Call) and last_name(call.func.func) in ("jit", "vmap", "pmap"):
            return True
        if name in words.CONVERSIONS and receiver is not None and not self._reaches_code(call, function):
            return False
        if name in ("tree_map", "tree_multimap"):
            return False
        if name in words.CONVERSIONS and name not in ("data", "float", "int"):
            values = self.resolver.targets(call, Frame(function))
            if not any(isinstance(v, FunctionValue) for v in values):
                return False
        if name in words.SQUASHES or name in ("clip", "clamp", "clip_by_value"):
            return False
        if not words.POLICY_CALL.search(name) and any(self._inside_selects(arg.value, function) for arg in call.args):
            return False  # a conversion around the call that selects
        if any(self._holds_action(arg.value, function, call) for arg in call.args):
            return False  # a conversion of an action selected before
        if self.looks_like_environment(call.func, function) and not words.POLICY_CALL.search(name):
            return False
        if words.POLICY_CALL.search(name) or words.NETWORK.search(name):
            return True
        if receiver is not None and words.says_evaluation(name) and self.resolver.program.methods_by_name.get(name):
            return True  # `agent.test_step(observations)`, whoever the agent is
        return self._reaches_code(call, function)

    def _unheard_of(self, call: t.Call, function: Function) -> bool:
        """A method of an object that isn't the environment, under a name that says nothing: it may still select."""
        name = last_name(call.func)
        if not isinstance(call.func, t.Attr) or name in words.CONVERSIONS or name in NOT_SELECTING:
            return False
        holder = last_name(call.func.obj)
        if not holder or words.BUFFER.search(holder) or self.looks_like_environment(call.func.obj, function):
            return False
        return not self.resolver.types(call.func, Frame(function)) and holder not in (
            "np",
            "torch",
            "jnp",
            "tf",
            "random",
            "jax",
            "F",
        )

    def _holds_action(self, node: t.Node, function: Function, call: t.Call) -> bool:
        """A name such as `action` that an earlier call in this function gave its value to."""
        if not isinstance(node, t.Name) or not ACTION_NAME.match(node.id):
            return False
        definitions = function.flow.definitions.get(node.id, ())
        if len(definitions) > 1 and any(d.value is call for d in definitions):
            return True  # action = without(action, index)
        for d in definitions:
            if isinstance(d.value, t.Call) and d.value is not call and d.line <= call.line:
                inner = d.value
                if (
                    words.POLICY_CALL.search(last_name(inner.func))
                    or last_name(inner.func) in words.SAMPLES | words.MODES
                ):
                    return True
        return False

    def _inside_selects(self, node: t.Node, function: Function) -> bool:
        if not isinstance(node, t.Call) or last_name(node.func) in words.CONVERSIONS:
            return False
        name = last_name(node.func)
        telling = words.POLICY_METHOD.search(name) or words.NETWORK.search(name) or name in words.SAMPLES | words.MODES
        return bool(telling) and self._selects(node, (), function)

    def _enters_helper(self, call: t.Call, function: Function) -> bool:
        """Whether a call enters a function of the program that isn't an environment's own."""
        entered = (v.function for v in self.resolver.targets(call, Frame(function)) if isinstance(v, FunctionValue))
        return any(f.owner is None or not self.is_environment_class(f.owner) for f in entered)

    def _reaches_code(self, call: t.Call, function: Function) -> bool:
        return any(isinstance(v, FunctionValue) for v in self.resolver.targets(call, Frame(function)))


def _unless_replaced(
    selection: Selection, others: list[Selection], ways: list[Selection], function: Function
) -> Selection:
    """With the condition under which another selection takes its place: `a = pi(s)`, then `if greedy: a = mode(s)`.

    `ways` are all ways to all selections: one that leads here under a condition isn't replaced under it."""
    own = {id(test) for way in ways if way.node is selection.node for test, _ in way.guards}
    for other in others:
        more = [(test, held) for test, held in other.guards if id(test) not in own]
        if other is selection or len(more) != 1 or other.context.order <= selection.context.order:
            continue
        test, held = more[0]
        shared = [
            d for name in set(other.names) & set(selection.names) for d in function.flow.definitions.get(name, ())
        ]
        if any(
            d.context.order > selection.context.order and any(g[0] is test for g in d.context.guards) for d in shared
        ):
            return replace(selection, guards=(*selection.guards, (test, not held)), replaced=other)
    return selection


def _is_blank(node: t.Node) -> bool:
    """A dict or an array that is filled in later."""
    if isinstance(node, t.Call):
        return last_name(node.func) in BLANKS or (last_name(node.func) == "dict" and not node.args)
    return isinstance(node, t.Map) and not node.items


def _is_noise(node: t.Node, function: Function) -> bool:
    for part in t.walk(node):
        name = last_name(part) if isinstance(part, (t.Name, t.Attr, t.Call)) else ""
        if name in words.GAUSSIAN or words.NOISE_NAME.search(name):
            return True
        if isinstance(part, t.Name):
            for d in function.flow.definitions.get(part.id, ()):
                if isinstance(d.value, t.Call) and last_name(d.value.func) in words.GAUSSIAN:
                    return True
    return False
