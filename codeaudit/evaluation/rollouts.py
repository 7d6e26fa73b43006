"""Where an environment is stepped, and which call chose the action: the raw material, before anybody asks what it
is for."""

from __future__ import annotations

from dataclasses import dataclass

from codeaudit.evaluation import words
from codeaudit.evaluation.selections import ACTION_NAME, Selection, Selections
from codeaudit.evaluation.shapes import bound, method_of, one_of, pays, plays, root_name, sets_spaces, step_pays
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import Frame, Instance, Library
from codeaudit.program.index import ClassInfo, Function, last_name
from codeaudit.program.resolve import Resolver

STEPPING = {
    "step", "act", "step_async", "env_step", "take_action", "step_env", "batch_step", "vector_step", "execute",
}  # fmt: skip


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


class Finder(Selections):
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
