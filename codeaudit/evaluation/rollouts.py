"""Where an environment is stepped, and which call chose the action: the raw material, before anybody asks what it
is for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codeaudit.evaluation import words
from codeaudit.evaluation.shapes import bound, method_of, one_of, pays, plays, root_name, sets_spaces, step_pays
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent, Context, Selector
from codeaudit.program.frames import Frame, FunctionValue, Instance, Library
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
STEPPING = {"step", "act", "step_async", "env_step", "take_action", "step_env", "batch_step", "vector_step"}
ACTION_NAME = re.compile(r"^(a|u|ac|acs|act|acts|actions?|\w*_actions?|actions?_\w+)$")


@dataclass(frozen=True, eq=False)
class Selection:
    """The call (or the expression) that selects the action."""

    node: t.Node
    selector: Selector
    context: Context  # of the statement it stands in
    guards: tuple[tuple[t.Node, bool], ...]  # conditions it stands under and the step doesn't
    names: tuple[str, ...]  # the local names that hold the action on its way to the step


@dataclass(frozen=True, eq=False)
class Rollout:
    """One `env.step(action)` with what surrounds it."""

    function: Function
    event: CallEvent
    environment: t.Node
    action: t.Node
    selections: tuple[Selection, ...]
    results: tuple[str, ...]  # local names bound from the step (observation, reward, done, info)

    @property
    def step(self) -> t.Call:
        return self.event.call


class Finder:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._environment_classes: dict[int, bool] = {}

    def rollouts(self, function: Function) -> list[Rollout]:
        """Every step of an environment in a function, with the selections of its action."""
        owner = function.owner
        if owner is not None and self.is_environment_class(owner) and not plays(function):
            return []
        found = []
        for event in function.flow.calls:
            stepped = self.stepped(event.call, function, event)
            if stepped is None:
                continue
            environment, action = stepped
            if isinstance(action, t.Name) and function.parameter(action.id) and _only_converted(action.id, function):
                found.extend(self._through_helper(function, environment, action.id))
                continue
            selections = tuple(self.selections(action, event.context, function))
            answer = event
            if last_name(event.call.func) == "send":  # what comes back is bound where it is received
                order = event.context.order
                received = (e for e in function.flow.calls if last_name(e.call.func) == "recv")
                answer = next((e for e in received if e.context.order > order), event)
            found.append(Rollout(function, event, environment, action, selections, bound(function, answer)))
        return found

    def _through_helper(self, helper: Function, environment: t.Node, name: str) -> list[Rollout]:
        """The steps of a helper that is given the action: each call of it is a step of the function that calls."""
        found = []
        for site in self.resolver.callers(helper)[:6]:
            caller = site.function
            if caller.owner is not None and self.is_environment_class(caller.owner):
                continue
            frame = Frame(helper, parent=Frame(caller), call=site.call)
            action = self.resolver.argument(name, frame)
            stepped: t.Node | None = environment
            root = root_name(environment)
            if isinstance(environment, t.Name):
                given = self.resolver.argument(environment.id, frame)
                stepped = given[0] if given is not None else None
            elif root != helper.self_name:
                stepped = None
            elif root != method_of(caller).self_name:  # manager.batch_step(action), with the environment in the manager
                stepped = None
                if isinstance(environment, t.Attr) and isinstance(site.call.func, t.Attr):
                    stepped = self.resolver.keep(t.Attr(environment.line, site.call.func.obj, environment.name))
            if action is None or stepped is None:
                continue
            selections = tuple(self.selections(action[0], site.event.context, caller))
            found.append(Rollout(caller, site.event, stepped, action[0], selections, bound(caller, site.event)))
        return found

    # --- environments -----------------------------------------------------------------------------------------------

    def is_environment_class(self, info: ClassInfo) -> bool:
        """A class that is stepped: by its name or bases, by the spaces it sets, or by a reward that `step` gives."""
        known = self._environment_classes.get(id(info))
        if known is None:
            order = self.resolver.mro(info)
            names = [c.name for c in order] + [last_name(b) for c in order for b in c.node.bases]
            known = any(n in ("Wrapper", "VecEnvWrapper", "Env", "VecEnv") for n in names)
            if not known and any("step" in c.methods or "step_async" in c.methods for c in order):
                named = any(("Env" in n and "Runner" not in n) or n.endswith("Environment") for n in names)
                begins = any("reset" in c.methods for c in order)  # an agent may be wrapped too
                known = (
                    named
                    or (begins and any(n.endswith("Wrapper") for n in names))
                    or any(sets_spaces(c) or step_pays(c) for c in order)
                )
            self._environment_classes[id(info)] = known
        return known

    def looks_like_environment(self, node: t.Node, function: Function) -> bool:
        name = last_name(node)
        if words.ENVIRONMENT.search(name) or words.ENVIRONMENT.search(last_name(one_of(node, function))):
            return True
        if isinstance(node, t.Sub):
            return self.looks_like_environment(node.obj, function)
        if isinstance(node, t.Call):
            return bool(words.ENVIRONMENT.search(last_name(node.func)))
        for value in self.resolver.types(node, Frame(function)):
            if isinstance(value, Library) and (
                value.name.startswith(
                    ("gym.make", "gymnasium.make", "procgen.", "dm_env", "suite.load", "envpool.make")
                )
                or value.name.rpartition(".")[2].endswith(("Env", "VecEnv"))
            ):
                return True
            if isinstance(value, Instance) and self.is_environment_class(value.info):
                return True
        return False

    def stepped(self, call: t.Call, function: Function, event: CallEvent) -> tuple[t.Node, t.Node] | None:
        """(environment, action) of a call that steps one."""
        func = call.func
        if isinstance(func, t.Call) and last_name(func.func) in ("vmap", "jit", "pmap") and func.args:
            inner = func.args[0].value  # vmap(env.step, …)(keys, states, actions, params)
            if isinstance(inner, t.Attr) and inner.name == "step":
                action = self._action_argument(call)
                return (inner.obj, action) if action is not None else None
            return None
        if isinstance(func, t.Attr) and func.name == "send":
            sent = self._sent_action(call, function)
            return (func.obj, sent) if sent is not None else None
        if not isinstance(func, t.Attr) or func.name not in STEPPING:
            # `obs, state, reward, done, info = vmap_step(n)(key, state, action)`
            unknown = "step" in last_name(func) and not isinstance(func, t.Attr)
            if unknown and pays(function, event) and not self._enters_helper(call, function):
                action = next((a.value for a in call.args if _named_action(a.value)), None)
                return (func, action) if action is not None else None
            return None
        action = self._action_argument(call)
        if action is None:
            return None
        if self.looks_like_environment(func.obj, function):
            # `env.act(obs)` of a policy named env doesn't exist; MinAtar and gym3 step by `act`.
            return func.obj, action
        return (func.obj, action) if func.name == "step" and pays(function, event) else None

    @staticmethod
    def _sent_action(call: t.Call, function: Function) -> t.Node | None:
        """The action in a message to an environment in another process: `pipe.send(("step", action))`, or the bare
        action where this very function receives what comes back."""
        if len(call.args) != 1:
            return None
        message = call.args[0].value
        if isinstance(message, t.Seq) and len(message.items) == 2:
            tag, content = message.items
            return content if isinstance(tag, t.Const) and tag.value == "step" else None
        answered = any(last_name(e.call.func) == "recv" for e in function.flow.calls)
        named = isinstance(message, (t.Name, t.Attr, t.Sub)) and ACTION_NAME.match(last_name(message))
        return message if answered and named else None

    @staticmethod
    def _action_argument(call: t.Call) -> t.Node | None:
        for arg in call.args:
            if arg.name in ("action", "actions", "act", "a", "ac"):
                return arg.value
        positional = [a.value for a in call.args if a.name in ("", "*")]
        if not positional:
            return None
        if len(positional) >= 2:
            acting = [p for p in positional if _named_action(p)]
            if acting:
                return acting[0]
            if len(positional) >= 3:
                return positional[2]
        return positional[0]

    # --- selections -------------------------------------------------------------------------------------------------

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
        return [s for s in best.values() if not inside or s in inside or last_name(s.node) in names]

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
                for arg in node.args[:4]:
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


def _named_action(node: t.Node) -> bool:
    for part in t.walk(node):
        name = last_name(part) if isinstance(part, (t.Name, t.Attr)) else ""
        if name.lower().startswith(("act", "ac")) or "action" in name.lower() or name in ("a", "u"):
            return True
    return False


def _only_converted(name: str, function: Function) -> bool:
    """A parameter that is never bound to anything but itself, converted: `actions = self.to_numpy(actions)`."""
    return all(
        any(isinstance(p, t.Name) and p.id == name for p in t.walk(d.value))
        for d in function.flow.definitions.get(name, ())
    )


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


def region_of(rollout: Rollout, others: list[Rollout]) -> t.Node | None:
    """The largest enclosing loop that steps no other environment in a loop of its own; None for no loop at all."""
    loops = rollout.event.context.loops
    if not loops:
        return None
    region = loops[-1]
    for loop in reversed(loops[:-1]):
        inside = [o for o in others if o is not rollout and any(x is loop for x in o.event.context.loops)]
        strangers = [o for o in inside if not any(x is region for x in o.event.context.loops)]
        if strangers:
            break
        region = loop
    return region
