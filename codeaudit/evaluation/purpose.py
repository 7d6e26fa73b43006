"""What a rollout is for: learning, measuring, or showing. From what is done with its data first, from names second."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codeaudit.evaluation import words
from codeaudit.evaluation.rollouts import Rollout, region_of
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import Function, last_name
from codeaudit.program.resolve import Resolver

EVALUATES = re.compile(r"_*(eval|evaluate|evaluation|test|validate)(_|$)")


@dataclass(frozen=True)
class Use:
    """What is done with a rollout's data, and what its names say."""

    kind: str  # "evaluation", "demo", "training", "none"
    stored: bool  # transitions go to a buffer
    updates: bool  # the policy is updated in the same loop
    measured: bool  # rewards are added up or episodes' returns collected
    renders: bool
    resets: bool  # the environment is reset (or made) for the measurement
    lockstep: bool  # a training environment is stepped in the same innermost loop
    named: str  # which name decided: "function", "class", "file", "environment", "data", "weak" or ""


def use_of(rollout: Rollout, all_in_function: list[Rollout], resolver: Resolver) -> Use:
    function = rollout.function
    region = region_of(rollout, all_in_function)
    inside = [e for e in function.flow.calls if region is None or any(x is region for x in e.context.loops)]
    bound = set(rollout.results)
    for s in rollout.selections:
        bound.update(n.split(".")[-1] for n in s.names)
        bound.update(s.names)
    bound.discard("self")
    innermost = rollout.event.context.loops[-1] if rollout.event.context.loops else None
    beside = [
        o
        for o in all_in_function
        if o is not rollout
        and o.event.context.loops
        and o.event.context.loops[-1] is innermost
        and last_name(o.environment) != last_name(rollout.environment)
    ]
    stored, weak = _stores(rollout, inside, region, bound)
    selecting = {id(s.node) for s in rollout.selections}
    stem = function.module.path.rpartition("/")[2].rpartition(".")[0]
    measuring = words.says_evaluation(stem) or any(words.says_evaluation(f.qualified) for f in _nest(function))
    # An agent's own step may learn too; that is looked at in its callers. So may any call in code named for measuring.
    updates = any(
        _is_update(e, function) or (not measuring and _teaches(e, function, resolver))
        for e in inside
        if id(e.call) not in selecting
    )
    measured = _measures(rollout, inside)
    renders = any(last_name(e.call.func) == "render" for e in inside)
    resets = _resets(rollout, _learning_loop(inside, function) or region, inside_only=updates or bool(beside))
    environment = last_name(rollout.environment)
    marked = bool(words.HELDOUT_NAME.search(environment)) or bool(re.match(r"(test|eval|valid)", environment, re.I))
    called = bool(resolver.callers(function))  # nothing in a program calls a unit test
    kind, named = _kind(rollout, stored, weak, updates, measured, renders, marked, region is None, called)
    return Use(kind, stored, updates, measured, renders, resets, bool(beside), named)


def _kind(
    rollout: Rollout,
    stored: bool,
    weak: bool,
    updates: bool,
    measured: bool,
    renders: bool,
    marked: bool,
    loopless: bool,
    called: bool,
) -> tuple[str, str]:
    function = rollout.function
    path = function.module.path
    stem = path.rpartition("/")[2].rpartition(".")[0]
    learning = stored or updates
    tested = (function.name.lower().startswith("test") and not called) or function.name == "<module>"
    if words.UNIT_TEST.search(path) and (tested or "/tests/" in f"/{path}"):
        return "none", "unit test"
    if words.LEARNED_MODEL.search(last_name(rollout.environment)):
        return "none", "a learned model"
    names = [f.name for f in _nest(function) if f.name != "<module>"]
    classes = [f.owner.name for f in _nest(function) if f.owner is not None]
    if any(words.LOOKS_AHEAD.search(name) for name in classes):
        return "none", "a planner's own search"
    if (
        not learning
        and (renders or not measured)
        and any(
            words.DEMO.search(last_name(p))
            for test, held in rollout.event.context.guards
            if held
            for p in t.walk(test)
            if isinstance(p, (t.Name, t.Attr))
        )
    ):
        return "demo", "condition"
    for name in names:
        if words.DEMO.search(name) and not learning:
            # `play_episode` in a trainer plays a game; a demo script says so in its file or always renders.
            if (
                _always_renders(function)
                or words.DEMO.search(stem)
                or not re.match(r"_*(play_|record|show)", name)
                or words.says_evaluation(name)
            ):
                return "demo", "function"
        if words.says_evaluation(name) and (not updates or (measured and not stored and EVALUATES.match(name))):
            shown = renders and (not measured or any(words.DEMO.search(c) for c in classes))
            return ("demo", "render") if shown else ("evaluation", "function")
        if words.says_evaluation(name) and marked:
            return "evaluation", "function"
    if marked and not (stored and not words.EVALUATION.search(stem)):
        return "evaluation", "environment"
    if learning or _warms_up(rollout):
        return "training", "data"
    if measured and _in_evaluation_mode(rollout):
        return ("demo", "file") if words.DEMO.search(stem) else ("evaluation", "mode")
    for name in names:
        if words.TRAINING.search(name) and not measured:
            return "training", "function"
    for name in classes:
        if words.says_evaluation(name):
            return "evaluation", "class"
        if words.TRAINING.search(name) and not measured:
            return "training", "class"
    if words.DEMO.search(stem):
        return "demo", "file"
    if words.says_evaluation(stem):
        return ("demo", "render") if renders and not measured else ("evaluation", "file")
    if weak:
        return "training", "data" if any(re.match(r"_*(train|learn|explore|collect)", n) for n in names) else "weak"
    told = names if measured and renders else [*names, stem]  # a script that trains may show what it learned
    for name in told:
        if words.TRAINING.search(name) and (
            not measured
            or re.match(r"_*((run|do|play)_)?(train(?!er)|learn(?!er)|collect(?!or)|explore|gather|fill)", name)
        ):
            return "training", "name"
    if measured:
        return "evaluation", ""
    if renders:
        return "demo", "render"
    return ("training", "") if loopless else ("none", "")


def _warms_up(rollout: Rollout) -> bool:
    """A random action for the first steps, then the policy's: nobody measures like that."""
    for s in rollout.selections:
        if isinstance(s.node, t.Call) and last_name(s.node.func) == "sample" and isinstance(s.node.func, t.Attr):
            if not words.SPACE.search(last_name(s.node.func.obj)):
                continue
            for test, _ in s.guards:
                if (
                    isinstance(test, t.Compare)
                    and test.ops[0][0] in ("<", "<=", ">", ">=")
                    and not isinstance(test.left, t.Call)
                ):
                    if re.search(
                        r"step|frame|episode|^t$|iter|total|num|global|count|epoch|idx|^i", last_name(test.left)
                    ):
                        return True
    return False


def _in_evaluation_mode(rollout: Rollout) -> bool:
    """Whether the function itself puts a module into evaluation mode before it steps."""
    for event in rollout.function.flow.calls:
        func = event.call.func
        if isinstance(func, t.Attr) and event.context.order < rollout.event.context.order:
            switch = [a.value.value for a in event.call.args if isinstance(a.value, t.Const)]
            if (func.name == "eval" and not event.call.args) or (func.name == "train" and switch == [False]):
                return True
    return False


def seen_from_callers(use: Use, frames: Sequence[Frame], resolver: Resolver) -> Use:
    """A rollout helper that says too little of itself is what its callers make of it: learning, or a measurement."""
    if use.named not in ("weak", "") or use.kind == "none":
        return use
    measures = False
    learns = any(
        _is_update(e, f.function)
        for f in frames[:1]
        for e in f.function.flow.calls
        if f.function.name not in ("<module>", "main")
    )
    for frame in frames:
        entered, caller = frame, frame.parent
        while caller is not None:
            names = [f.name for f in _nest(caller.function)]
            if any(words.says_evaluation(n) for n in names):
                measures = True
            script = caller.function.name in ("<module>", "main")
            if any(
                _is_update(e, caller.function) and (e.context.loops or not script) for e in caller.function.flow.calls
            ):
                learns = True
                break
            beside = next((e for e in caller.function.flow.calls if e.call is entered.call), None)
            if beside is not None and beside.context.loops:
                loop = beside.context.loops[-1]
                if any(
                    _teaches(e, caller.function, resolver)
                    for e in caller.function.flow.calls
                    if e is not beside and any(x is loop for x in e.context.loops)
                ):
                    learns = True
                    break
            entered, caller = caller, caller.parent
    if learns and not measures:
        return replace(use, kind="training")
    if (
        (measures or not learns)
        and use.measured
        and use.kind == "training"
        and any(f.parent is not None for f in frames)
    ):
        return replace(use, kind="evaluation")
    return use


def _always_renders(function: Function) -> bool:
    return any(last_name(e.call.func) == "render" and not e.context.guards for e in function.flow.calls)


def _nest(function: Function) -> list[Function]:
    out = [function]
    while out[-1].outer is not None:
        out.append(out[-1].outer)
    return out


def _mentions(node: t.Node, names: set[str]) -> bool:
    for part in t.walk(node):
        if isinstance(part, t.Name) and part.id in names:
            return True
        if isinstance(part, t.Attr) and t.dotted(part) in names:
            return True
    return False


def _stores(rollout: Rollout, inside: list[CallEvent], region: t.Node | None, bound: set[str]) -> tuple[bool, bool]:
    """(transitions go to a buffer, actions are kept in a list)."""
    selecting = {id(s.node) for s in rollout.selections}
    beside = {n for n, ds in rollout.function.flow.definitions.items() if any(id(d.value) in selecting for d in ds)}
    acting = {n for s in rollout.selections for n in s.names} - {"self"}
    rewards = {n for n in rollout.results if words.REWARD.search(n.split(".")[-1])}
    for name, definitions in rollout.function.flow.definitions.items():  # data = observations, actions, rewards
        packed = [d.value for d in definitions if isinstance(d.value, (t.Seq, t.Map))]
        if any(_mentions(value, acting | beside) for value in packed):
            acting.add(name)
            rewards |= {name} if any(_mentions(value, rewards) for value in packed) else set()
        if any(_is_transition(value) for value in packed) and any(_mentions(value, acting) for value in packed):
            return True, False
    weak = False
    for event in inside:
        func = event.call.func
        if not isinstance(func, t.Attr):
            if isinstance(func, t.Name) and func.id in ("store_transition", "add_to_buffer", "remember"):
                return True, weak
            continue
        args = [a.value for a in event.call.args]
        holds_action = any(_mentions(a, acting) for a in args)
        if func.name == "append":
            if (
                holds_action
                and words.BUFFER.search(last_name(func.obj))
                and (len(args) > 2 or len(list(t.walk(args[0]))) > 3)
            ):
                return True, weak
            weak = weak or holds_action
            continue
        if func.name not in words.STORES:
            continue
        holder = last_name(func.obj)
        if holds_action and (words.BUFFER.search(holder) or any(_mentions(a, rewards) for a in args)):
            return True, weak
        if words.BUFFER.search(holder) and any(_mentions(a, bound) for a in args) and len(args) >= 3:
            return True, weak
    for target, value, context in rollout.function.flow.subscript_stores:
        if region is not None and not any(x is region for x in context.loops):
            continue
        if acting and _mentions(value, acting) and not isinstance(target.index, t.Const):
            holder = last_name(target.obj)
            if any(_mentions(target.obj, {n}) for n in acting):
                continue
            if "act" in holder.lower() or words.BUFFER.search(holder):
                return True, weak
    return False, weak


def _is_transition(value: t.Node) -> bool:
    """`{"obs": …, "action": …, "reward": …, "next_obs": …}`: kept to learn from."""
    keys = {str(k.value) for k, _ in value.items if isinstance(k, t.Const)} if isinstance(value, t.Map) else set()
    return all(any(k.startswith(part) for k in keys) for part in ("action", "reward", "next_"))


def _is_update(event: CallEvent, function: Function) -> bool:
    call = event.call
    name = last_name(call.func)
    if not words.UPDATES.match(name):
        if name == "step" and isinstance(call.func, t.Attr) and not call.args:
            return "optim" in last_name(call.func.obj).lower() or last_name(call.func.obj).endswith(("opt", "solver"))
        return False
    if not isinstance(call.func, t.Attr):
        return not words.says_evaluation(name)
    holder = last_name(call.func.obj)
    if name == "backward":
        return True
    if name == "train" and (not call.args or isinstance(call.args[0].value, t.Const)):
        return False  # a module's mode
    if name == "update" and ((words.NO_UPDATE.search(holder) and holder != "self") or not holder):
        return False
    if name == "update" and words.BUFFER.search(holder):
        return False
    if name.startswith("update") and call.args and isinstance(call.args[0].value, t.Map):
        return False
    if name.startswith("update_") and any(
        w in name
        for w in (
            "progress",
            "plot",
            "stats",
            "norm",
            "mean",
            "display",
            "info",
            "log",
            "obs",
            "state",
            "env",
            "render",
            "dist_",
            "level",
            "sampler",
            "seed",
            "scene",
            "camera",
        )
    ):
        return False
    if re.match(r"train\w*_(log|stats|env|envs|data|loader|mode|writer|steps?|dir|path|returns?|rewards?|info)$", name):
        return False
    return True


def _teaches(event: CallEvent, function: Function, resolver: Resolver) -> bool:
    """Whether a call takes a gradient step, itself or in a function of the program that it enters."""
    return any(
        isinstance(value, FunctionValue) and _has_gradient(value.function, resolver, 0)
        for value in resolver.targets(event.call, Frame(function))
    )


def _has_gradient(function: Function, resolver: Resolver, depth: int) -> bool:
    for event in function.flow.calls:
        name = last_name(event.call.func)
        if name in ("backward", "apply_gradients", "minimize", "apply_updates"):
            return True
        if (
            name == "step"
            and isinstance(event.call.func, t.Attr)
            and not event.call.args
            and "opt" in last_name(event.call.func.obj)
        ):
            return True
    return depth < 2 and any(
        isinstance(value, FunctionValue)
        and value.function is not function
        and _has_gradient(value.function, resolver, depth + 1)
        for event in function.flow.calls
        if isinstance(event.call.func, t.Name)
        or last_name(getattr(event.call.func, "obj", event.call)) == function.self_name
        for value in resolver.targets(event.call, Frame(function))
    )


def _measures(rollout: Rollout, inside: list[CallEvent]) -> bool:
    rewards = {n for n in rollout.results if words.REWARD.search(n.split(".")[-1])}
    results = set(rollout.results)
    flow = rollout.function.flow
    # `for seat, reward in paid.items()`: a part of what the step paid.
    rewards |= {
        name
        for name, definitions in flow.definitions.items()
        if words.REWARD.search(name) and any(d.kind == "loop" and _mentions(d.value, results) for d in definitions)
    }
    if rewards and any(
        d.kind == "augment" and _mentions(d.value, rewards) for ds in flow.definitions.values() for d in ds
    ):
        return True
    for name, definitions in flow.definitions.items():
        if not words.REWARD.search(name.split(".")[-1]) and not words.EPISODE.search(name.split(".")[-1]):
            continue
        for d in definitions:
            if d.kind == "augment" and _mentions(d.value, results | rewards):
                return True
            if d.kind == "assign" and isinstance(d.value, t.Op) and _mentions(d.value, rewards):
                return True
    for target, value, _ in flow.subscript_stores:
        paid = _mentions(value, rewards) or _takes_reward(value, results)
        if words.REWARD.search(last_name(target.obj)) and paid:
            return True
    for event in inside:
        func = event.call.func
        if isinstance(func, t.Attr) and func.name in ("append", "extend", "add", "push", "update"):
            if words.REWARD.search(last_name(func.obj)) or words.EPISODE.search(last_name(func.obj)):
                return True
        for arg in event.call.args:
            if any(
                isinstance(p, t.Const) and p.value in ("episode", "final_info", "episode_return", "r")
                for p in t.walk(arg.value)
            ):
                return True
    return any(
        isinstance(p, t.Const) and p.value in ("episode", "final_info", "episode_return", "returned_episode")
        for e in inside
        for p in t.walk(e.call)
    )


def _takes_reward(node: t.Node, results: set[str]) -> bool:
    """`data["reward"]`, of what came back from the environment."""
    return any(
        isinstance(p, t.Sub)
        and isinstance(p.index, t.Const)
        and words.REWARD.search(str(p.index.value))
        and t.dotted(p.obj) in results
        for p in t.walk(node)
    )


def _learning_loop(inside: list[CallEvent], function: Function) -> t.Node | None:
    """The outermost loop in which the policy is updated."""
    for event in inside:
        if event.context.loops and _is_update(event, function):
            return event.context.loops[0]
    return None


RESETS = {"reset", "reset_all", "reset_env", "env_reset", "new_game", "reset_envs", "reset_states"}


def _resets(rollout: Rollout, region: t.Node | None, inside_only: bool) -> bool:
    """Whether the environment is reset, or made, in this function before or between the measured steps."""
    name = last_name(rollout.environment)
    order = rollout.event.context.order
    for event in rollout.function.flow.calls:
        func = event.call.func
        if isinstance(func, t.Attr) and func.name in RESETS:
            handed = func.name in ("reset_env", "env_reset") and event.call.args  # self.env_reset(env)
            same = last_name(event.call.args[0].value if handed else func.obj) == name
            if not same:
                continue
            in_region = region is not None and any(x is region for x in event.context.loops)
            if inside_only:
                # The reset after an episode's end belongs to the stream; one before the steps begins a measurement.
                if in_region and event.context.order < order and not _after_done(event):
                    return True
                continue
            if in_region or (
                event.context.order < order and len(event.context.loops) >= _depth_outside(rollout, region)
            ):
                return True
        elif isinstance(func, t.Call) and func.args and last_name(func.args[0].value) == "reset":
            return True
    return False


def _after_done(event: CallEvent) -> bool:
    return any(
        "done" in last_name(p) or "term" in last_name(p)
        for test, _ in event.context.guards[-1:]
        for p in t.walk(test)
        if isinstance(p, (t.Name, t.Attr))
    )


def _depth_outside(rollout: Rollout, region: t.Node | None) -> int:
    loops = rollout.event.context.loops
    return next((i for i, loop in enumerate(loops) if loop is region), len(loops))
