"""CA6, statistics and plots: what a shaded band, a number of seeds or a bootstrap can carry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import CallSite, Function, last_name
from codeaudit.rules.base import Hit, Rule, Subject, call_text, keyword, place, positional

_BAND = """\
import matplotlib.pyplot as plt
import numpy as np


def plot(x, returns):
    mean = returns.mean(0)
    spread = {spread}
    plt.plot(x, mean{label})
    plt.fill_between(x, mean - spread, mean + spread, alpha=0.3)
"""
SAID = re.compile(
    r"(std|standard)[ ._]*err|error in (the )?mean|error of (the )?mean|\bs\.?e\.?m?\b|confidence|\bci\b|95 ?%", re.I
)


class StandardErrorBand(Rule):
    code = "CA601"
    name = "unnamed-standard-error-band"
    message = "a shaded band of standard error, and no text says so"
    why = (
        "A standard error shrinks with the number of runs and says how well the mean is known; readers take the "
        "band for the spread between runs. Name it in the legend or the caption, or draw the spread: "
        "`codeaudit variation` draws and measures it."
    )
    source = "https://arxiv.org/abs/1806.08295 (Colas et al., How Many Random Seeds?)"
    good = (
        {"main.py": _BAND.format(spread="returns.std(0)", label="")},
        {
            "main.py": _BAND.format(
                spread="returns.std(0) / np.sqrt(len(returns))", label=", label='mean, standard error'"
            )
        },
    )
    bad = ({"main.py": _BAND.format(spread="returns.std(0) / np.sqrt(len(returns))", label="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("fill_between"):
            edges = positional(site.call)[1:3]
            if not edges or not any(_is_standard_error(e, site.function, 0) for e in edges):
                continue
            if any(
                isinstance(n, t.Const) and isinstance(n.value, str) and SAID.search(n.value)
                for n in t.walk(site.function.module.file)
            ):
                continue
            said = "the band is a standard error (a spread over the root of a count), and no text in this file says so"
            yield Hit(place(site.function, site.call), said, site.call.end_line)


class FewSeeds(Rule):
    code = "CA602"
    name = "few-seeds"
    message = "fewer than five seeds"
    why = (
        "With so few runs no test can find a difference of the usual size, and the interval that is drawn is "
        "mostly luck. `codeaudit variation` says what so many runs can promise."
    )
    source = "https://arxiv.org/abs/1806.08295 (Colas et al., How Many Random Seeds?)"
    severity = "note"
    good = ({"main.py": "for seed in range(10):\n    train(seed)\n"}, {"main.py": "seeds = [1]\ntrain(seeds[0])\n"})
    bad = (
        {"main.py": "for seed in range(3):\n    train(seed)\n"},
        {"main.py": "SEEDS = [0, 1, 2]\nfor s in SEEDS:\n    train(s)\n"},
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        for function in subject.functions:
            for name, definitions in function.flow.definitions.items():
                plain = name.rpartition(".")[2].lower()
                if (
                    not re.fullmatch(r"(\w+_)?(rand(om)?_?)?seeds?(_list)?", plain)
                    or "level" in plain
                    or "env" in plain
                ):
                    continue
                for d in definitions:
                    if isinstance(d.value, t.Node) and d.kind == "loop":
                        d = replace(d, line=d.value.line)  # a comprehension's loop may begin lines below its statement
                    count = _seed_count(d.value, d.kind, subject, function) if d.selector in ((), ("*",)) else None
                    if count is not None and 2 <= count < 5:
                        said = f"{count} seeds: too few to tell a difference between runs from luck"
                        yield Hit(place(function, t.Name(d.line, name)), said)


class FewResamples(Rule):
    code = "CA603"
    name = "few-resamples"
    message = "a bootstrap with a handful of resamples"
    why = (
        "The ends of a 95 % interval rest on the outermost resamples; with a few hundred or less they move from "
        "run to run."
    )
    source = "https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.bootstrap.html (9999 by default)"
    good = ({"main.py": "from scipy.stats import bootstrap\n\nbootstrap((x,), f, n_resamples=9999)\n"},)
    bad = ({"main.py": "from scipy.stats import bootstrap\n\nbootstrap((x,), f, n_resamples=100)\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        names = (
            "bootstrap",
            "get_interval_estimates",
            "lineplot",
            "relplot",
            "barplot",
            "pointplot",
            "StratifiedBootstrap",
            "conf_int",
            "bootstrap_ci",
        )
        for site in subject.calls(*names):
            for name in (
                "n_resamples",
                "n_boot",
                "reps",
                "n_bootstrap",
                "num_bootstraps",
                "n_bootstraps",
                "num_resamples",
            ):
                given = keyword(site.call, name)
                known = subject.audit.evaluator.evaluate(given, Frame(site.function)) if given is not None else None
                if known is not None and isinstance(known.value, int) and 0 < known.value < 1000:
                    said = f"`{call_text(site.call)}` takes {known.value} resamples; an interval needs some thousands"
                    yield Hit(place(site.function, site.call), said, site.call.end_line)


class PooledReevaluations(Rule):
    code = "CA604"
    name = "pooled-reevaluations"
    message = "episodes of one agent are treated as independent runs in a test"
    why = (
        "Episodes of the same weights share the luck of their training run. A test over pooled episodes answers "
        "a question about these weights, not about the method, and its p-value is too small."
    )
    source = "https://arxiv.org/abs/1904.06979 (Colas et al., A Hitchhiker's Guide to Statistical Comparisons of RL)"
    _main = """\
import numpy as np
from scipy.stats import ttest_ind


def compare(a, b):
    return ttest_ind({a}, {b})
"""
    good = ({"main.py": _main.format(a="a.mean(axis=1)", b="b.mean(axis=1)")},)
    bad = ({"main.py": _main.format(a="a.flatten()", b="b.flatten()")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        tests = ("ttest_ind", "mannwhitneyu", "ks_2samp", "ttest_rel", "wilcoxon")
        for site in subject.calls(*tests):
            given = positional(site.call)[:2]
            if len(given) == 2 and all(is_pooled(g, site) for g in given):
                said = f"`{call_text(site.call)}` takes flattened arrays: runs and episodes count alike"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _is_standard_error(node: t.Node, function: Function, depth: int) -> bool:
    """Whether a band's edge contains a spread divided by the root of a count, or a standard error by name."""
    for part in t.walk(node):
        if isinstance(part, t.Op) and part.op == "/" and _is_root(part.right) and _is_spread(part.left, function):
            return True
        if isinstance(part, t.Call) and last_name(part.func) in ("sem", "stderr", "standard_error"):
            return True
        if isinstance(part, (t.Name, t.Attr)) and depth < 4:
            for d in function.flow.definitions.get(t.dotted(part), ()):
                if d.kind == "assign" and not d.selector and _is_standard_error(d.value, function, depth + 1):
                    return True
    return False


def _is_root(node: t.Node) -> bool:
    if isinstance(node, t.Call):
        return last_name(node.func) == "sqrt"
    return isinstance(node, t.Op) and node.op == "**" and isinstance(node.right, t.Const) and node.right.value == 0.5


def _is_spread(node: t.Node, function: Function) -> bool:
    for part in t.walk(node):
        name = last_name(part) if isinstance(part, (t.Name, t.Attr, t.Call)) else ""
        if re.search(r"std|sigma|dev", name, re.I):
            return True
    return False


def _seed_count(value: t.Node, kind: str, subject: Subject, function: Function) -> int | None:
    if kind == "loop" and isinstance(value, t.Call) and last_name(value.func) == "range" and len(value.args) == 1:
        known = subject.audit.evaluator.evaluate(value.args[0].value, Frame(function))
        return known.value if known is not None and isinstance(known.value, int) else None
    if (
        isinstance(value, t.Seq)
        and value.items
        and all(isinstance(i, t.Const) and isinstance(i.value, int) for i in value.items)
    ):
        return len(value.items)
    return None


def is_pooled(node: t.Node, site: CallSite) -> bool:
    """Whether an argument of a call is an array with its axes flattened away."""
    if isinstance(node, t.Call) and last_name(node.func) in ("flatten", "ravel"):
        return True
    if isinstance(node, t.Call) and last_name(node.func) == "reshape":
        given = positional(node)
        return len(given) == 1 and isinstance(given[0], t.Const) and given[0].value == -1
    if isinstance(node, t.Name):
        return any(
            d.context.order < site.event.context.order
            and d.kind == "assign"
            and not d.selector
            and isinstance(d.value, t.Call)
            and is_pooled(d.value, site)
            for d in site.function.flow.definitions.get(node.id, ())[-1:]
        )
    return False


RULES = (StandardErrorBand, FewSeeds, FewResamples, PooledReevaluations)
