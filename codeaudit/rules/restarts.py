"""CA5, restarts: environments that are copied and played again, and distances between return distributions."""

from __future__ import annotations

from collections.abc import Iterator

from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name
from codeaudit.rules.base import Hit, Rule, Subject, call_text, place

_COPY = """\
import copy

import gym


def restart_returns(env, policy, n):
    returns = []
    for _ in range(n):
        twin = copy.deepcopy(env)
{seed}        done, total_reward = False, 0.0
        while not done:
            obs, reward, done, _ = twin.step(policy.act(twin))
            total_reward += reward
        returns.append(total_reward)
    return returns
"""
_WASSERSTEIN = """\
from scipy.stats import wasserstein_distance


def same(a, b):
    return {test}
"""


class CopiedGenerator(Rule):
    code = "CA501"
    name = "copied-generator"
    message = "a copied environment is played again with a copy of its random generator"
    why = (
        "Every copy then repeats the same random events, so restarts from one state look deterministic and the "
        "spread of the return is underestimated. Give each copy a fresh, seeded generator."
    )
    source = "https://numpy.org/doc/stable/reference/random/parallel.html"
    severity = "error"
    experiment = "claims_hold"
    good = ({"main.py": _COPY.format(seed="        twin.np_random = np.random.default_rng(len(returns))\n")},)
    bad = ({"main.py": _COPY.format(seed="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("deepcopy", "copy"):
            call, function = site.call, site.function
            if subject.library(call.func, function) not in ("copy.deepcopy", "copy.copy") or len(call.args) != 1:
                continue
            statement = site.event.statement
            if not isinstance(statement, t.Assign) or statement.value is not call:
                continue
            name = t.dotted(statement.targets[0])
            if not name or not subject.audit.finder.looks_like_environment(call.args[0].value, function):
                continue
            if _stepped(name, function, site.event.context.order) and not _reseeded(name, function):
                said = f"`{name}` repeats the random events of the original: its generator is copied too"
                yield Hit(place(function, call), said, call.end_line)


class HalfReplacedGenerator(Rule):
    code = "CA502"
    name = "half-replaced-generator"
    message = "MinAtar's generator is replaced in one of the two objects that hold it"
    why = (
        "The wrapper draws sticky actions and the game draws its events; each keeps a reference of its own to "
        "the generator."
    )
    source = "https://github.com/kenjyoung/MinAtar/blob/master/minatar/environment.py (`seed` sets both)"
    severity = "error"
    experiment = "claims_hold"
    _main = (
        "import numpy as np\nfrom minatar import Environment\n\nenv = Environment('breakout')\n"
        "env.random = np.random.RandomState(1)\n{inner}"
    )
    good = ({"main.py": _main.format(inner="env.env.random = env.random\n")},)
    bad = ({"main.py": _main.format(inner="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        if "minatar" not in subject.imported:
            return
        for function in subject.functions:
            stored = {name: ds for name, ds in function.flow.definitions.items() if name.endswith(".random")}
            for name, definitions in stored.items():
                holder = name.removesuffix(".random")
                inner = holder.endswith(".env")
                other = f"{holder.removesuffix('.env')}.random" if inner else f"{holder}.env.random"
                if other in stored or f"{holder}.env.env.random" in stored:
                    continue
                outer = definitions[0].statement
                node = t.Name(outer.line, holder.removesuffix(".env").partition(".")[0])
                if subject.library(node, function).startswith("minatar."):
                    said = f"`{name}` is replaced and `{other}` keeps the old generator"
                    yield Hit(place(function, outer), said)


class FixedWassersteinThreshold(Rule):
    code = "CA503"
    name = "fixed-wasserstein-threshold"
    message = "an empirical Wasserstein distance is held against a fixed number"
    why = (
        "The distance of two samples from one distribution isn't 0: it shrinks with the sample size and grows with the "
        "spread. Compare it with its own value between two halves of the truth, or by a permutation test."
    )
    source = "https://arxiv.org/abs/1707.00087 (Weed & Bach, rates of the empirical Wasserstein distance)"
    experiment = "claims_hold"
    good = (
        {"main.py": _WASSERSTEIN.format(test="wasserstein_distance(a, b) < wasserstein_distance(a[::2], a[1::2])")},
    )
    bad = ({"main.py": _WASSERSTEIN.format(test="wasserstein_distance(a, b) < 0.05")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("wasserstein_distance", "emd", "emd2"):
            names = {t.dotted(target) for target in getattr(site.event.statement, "targets", ())} - {""}
            for node in _comparisons(site.function):
                sides = [node.left, *[side for _, side in node.ops]]
                if any(_is(side, site.call, names) for side in sides):
                    numbers = [
                        subject.audit.evaluator.evaluate(side, Frame(site.function))
                        for side in sides
                        if not _is(side, site.call, names)
                    ]
                    if any(n is not None and isinstance(n.value, float) for n in numbers):
                        said = f"`{call_text(site.call)}` of two samples is compared with a fixed number"
                        yield Hit(place(site.function, node), said)
                        break


def _stepped(name: str, function: Function, order: int) -> bool:
    return any(
        isinstance(e.call.func, t.Attr) and e.call.func.name in ("step", "act") and t.dotted(e.call.func.obj) == name
        for e in function.flow.calls
        if e.context.order > order
    )


def _reseeded(name: str, function: Function) -> bool:
    for event in function.flow.calls:
        func = event.call.func
        text = t.dotted(func)
        if text.startswith(f"{name}.") and (
            "seed" in last_name(func) or "seed" in {a.name for a in event.call.args} or func_is_reset(func)
        ):
            return True
        if "seed" in last_name(func) and any(t.dotted(a.value) == name for a in event.call.args):
            return True
    return any(
        n.startswith(f"{name}.") and any(w in n for w in ("random", "rng", "rand")) for n in function.flow.definitions
    )


def func_is_reset(func: t.Node) -> bool:
    """A reset begins another episode: no restart from the copied state."""
    return isinstance(func, t.Attr) and func.name == "reset"


def _comparisons(function: Function) -> Iterator[t.Compare]:
    for statement in function.node.body:
        for node in t.walk(statement):
            if isinstance(node, t.Compare) and node.ops[0][0] in ("<", "<=", ">", ">="):
                yield node


def _is(node: t.Node, call: t.Call, names: set[str]) -> bool:
    return node is call or t.dotted(node) in names


RULES = (CopiedGenerator, HalfReplacedGenerator, FixedWassersteinThreshold)
