"""CA1, CA4 and CA6: numbers that are compared although they measure different things."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation.sites import Evidence, Place
from codeaudit.facts import tree as t
from codeaudit.program.index import last_name
from codeaudit.rules.action import AGENT_CLASS, at
from codeaudit.rules.base import Hit, Rule, Subject, call_text, place, positional
from codeaudit.rules.figures import is_pooled

_TRAINED = (
    AGENT_CLASS
    + """
def train(agent, train_env, buffer, optimizer):
    obs, total_reward, train_returns = train_env.reset(), 0.0, []
    for step in range(1000):
        action = agent.act(obs)
        next_obs, reward, done, info = train_env.step(action)
        buffer.add(obs, action, reward, done)
        total_reward += reward
        if done:
            train_returns.append(total_reward)
            print("train return", total_reward)
        optimizer.step()


def evaluate(agent, test_env):
    obs, done, total_reward = test_env.reset(), False, 0.0
    while not done:
        obs, reward, done, info = test_env.step(agent.act(obs, deterministic={value}))
        total_reward += reward
    return total_reward


agent = Agent()
train(agent, gym.make("Maze-v0", levels="train"), [], None)
{floor}print("test return", evaluate(agent, gym.make("Maze-v0", levels="test")))
"""
)
_FLOOR = """\
def evaluate_random(test_env):
    obs, done, total_reward = test_env.reset(), False, 0.0
    while not done:
        obs, reward, done, info = test_env.step(test_env.action_space.sample())
        total_reward += reward
    return total_reward


print("random return", evaluate_random(gym.make("Maze-v0", levels="test")))
"""
CORRECTS = re.compile(r"multipletests|holm|bonferroni|hochberg|sidak|false_discovery|\bfdr|multiplicity", re.I)
P_VALUES = (
    "ttest_ind",
    "ttest_rel",
    "ttest_1samp",
    "mannwhitneyu",
    "wilcoxon",
    "ks_2samp",
    "permutation_test",
    "f_oneway",
    "kruskal",
)
SIMILARITY = re.compile(r"(^|_)(cka|linear_cka|cca|svcca|pwcca|procrustes|rsa)(_|$)", re.I)
TRAIN_SIDE, TEST_SIDE = re.compile(r"(^|_)train", re.I), re.compile(r"(^|_)(test|eval|held_?out|unseen|valid)", re.I)
DISTANCE = re.compile(r"wasserstein|(^|_)w1(_|$)|(^|_)emd(_|$)|earth_?mover", re.I)
ATOMS = re.compile(r"quantile|atom|theta|(^|_)z(_|\d|$)", re.I)


class RulesDiffer(Rule):
    code = "CA109"
    name = "train-and-test-rules-differ"
    message = "train and test return are measured under different action rules"
    why = (
        "The difference of the two then mixes generalisation with exploration: it can have either sign without any "
        "overfitting. Measure both returns with the same call."
    )
    source = "https://arxiv.org/abs/1912.01588 (Cobbe et al., Leveraging Procedural Generation, section 3)"
    severity = "note"
    experiment = "rule_matters"
    good = ({"main.py": _TRAINED.format(value="False", floor="")},)
    bad = ({"main.py": _TRAINED.format(value="True", floor="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        trained = [f for f in subject.rollouts if f.use.kind == "training" and f.use.measured]
        for site in subject.measured:
            if site.role != "heldout" or site.agent == "value_based" or site.procedure == "in_loop":
                continue
            functions = {
                function
                for f in subject.rollouts
                for s in f.rollout.selections
                if (f.rollout.function.module.path, s.node.line) == (site.file, site.line)
                for c in subject.audit.classifier.classify(f.rollout, s, f.frames[0])
                for d in c.draws
                for function in d.through
            }
            for found in trained:
                selection = found.rollout.selections[0]
                made = subject.audit.classifier.classify(found.rollout, selection, found.frames[0])
                rules = {c.rule for c in made if c.sure and c.rule not in ("unknown", "uniform_random")}
                if (
                    len(rules) == 1
                    and site.rule not in rules
                    and any(functions & d.through for c in made for d in c.draws)
                ):
                    where = place(found.rollout.function, selection.node)
                    said = (
                        f"{site.rule} here, {rules.pop()} for the training return at {where.file}:{where.line}: "
                        "a gap between the two says little"
                    )
                    step = Evidence(where, "selects the action of the training return")
                    yield Hit(Place(site.file, site.line), said, site.end_line, (*site.evidence, step))
                    return


class ArgmaxWithoutFloor(Rule):
    code = "CA403"
    name = "argmax-without-floor"
    message = "the argmax of a stochastic policy is reported on held-out levels, without a floor"
    why = (
        "A policy trained to be sampled may circle for ever when its best action is taken, and score less than random "
        "play. Only a floor under the same harness tells a weak agent from such a one. `codeaudit floor` measures it."
    )
    source = "https://arxiv.org/abs/1709.06009 (Machado et al., Revisiting the Arcade Learning Environment)"
    severity = "note"
    experiment = "above_floor"
    good = (
        {"main.py": _TRAINED.format(value="True", floor=_FLOOR)},
        {"main.py": _TRAINED.format(value="False", floor="")},
    )
    bad = ({"main.py": _TRAINED.format(value="True", floor="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        if any(s.agent == "random" or s.rule == "uniform_random" for s in subject.sites):
            return
        for site in subject.measured:
            if site.rule == "greedy" and site.agent == "policy_gradient" and site.role == "heldout":
                yield at(
                    site, "the best action of a policy that was trained to be sampled, and no return of random play"
                )
                return


class ManyTests(Rule):
    code = "CA605"
    name = "many-tests-uncorrected"
    message = "a test for each of several environments, and no correction for their number"
    why = (
        "Of sixteen true null hypotheses one in two such tables shows a 'significant' one at 5 %. Holm's correction "
        "costs one line: scipy.stats.false_discovery_control, or statsmodels' multipletests."
    )
    source = "https://arxiv.org/abs/1904.06979 (Colas et al., A Hitchhiker's Guide to Statistical Comparisons of RL)"
    _main = """\
from scipy.stats import ttest_ind
{imported}

def compare(scores):
    p_values = []
    for game in scores:
        p_values.append(ttest_ind(scores[game]["ours"], scores[game]["theirs"]).pvalue)
    return {returned}
"""
    good = (
        {
            "main.py": _main.format(
                imported="from statsmodels.stats.multitest import multipletests\n",
                returned='multipletests(p_values, method="holm")[1]',
            )
        },
        {"main.py": "from scipy.stats import ttest_ind\n\nprint(ttest_ind(load('a'), load('b')))\n"},
    )
    bad = ({"main.py": _main.format(imported="", returned="p_values")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        if any(CORRECTS.search(word) for module in subject.modules for word in _words(module.file)):
            return
        for site in subject.calls(*P_VALUES):
            loops = site.event.context.loops
            if loops and subject.library(site.call.func, site.function).startswith(("scipy.", "pingouin.")):
                said = f"`{call_text(site.call)}` runs for each turn of the loop at line {loops[-1].line}, uncorrected"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


class PairedOnDisjoint(Rule):
    code = "CA606"
    name = "paired-similarity-on-disjoint-inputs"
    message = "a row-paired similarity is computed between training and test inputs"
    why = (
        "CKA and its kin compare what two networks say to the same rows. Rows of different levels have no pairing: the "
        "value equals that of shuffled rows, whatever the network. Compare two encoders on one batch instead."
    )
    source = "https://arxiv.org/abs/1905.00414 (Kornblith et al., Similarity of Neural Network Representations)"
    experiment = "codeaudit similarity"
    _main = "from metrics import linear_cka\n\nprint(linear_cka(encoder({a}), {other}({b})))\n"
    good = ({"main.py": _main.format(a="test_batch", other="other_encoder", b="test_batch")},)
    bad = ({"main.py": _main.format(a="train_batch", other="encoder", b="test_batch")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for function in subject.functions:
            for event in function.flow.calls:
                given = positional(event.call)
                if len(given) < 2 or not SIMILARITY.search(last_name(event.call.func)):
                    continue
                sides = [set(_names(g)) for g in given[:2]]
                train = [any(TRAIN_SIDE.search(n) for n in side) for side in sides]
                test = [any(TEST_SIDE.search(n) for n in side) for side in sides]
                if train != test and sorted(train) == sorted(test) == [False, True]:
                    said = f"`{call_text(event.call)}` pairs rows of training inputs with rows of test inputs"
                    yield Hit(place(function, event.call), said, event.call.end_line)


class UnsortedAtoms(Rule):
    code = "CA607"
    name = "unsorted-quantile-atoms"
    message = "quantile atoms are compared index by index without sorting"
    why = (
        "Learned quantiles cross. Paired by index, crossed atoms lie farther apart than the distributions do, so the "
        "distance is too large; sorted first, the mean absolute difference is the Wasserstein distance."
    )
    source = "https://arxiv.org/abs/1710.10044 (Dabney et al., Distributional RL with Quantile Regression)"
    _main = """\
import numpy as np


def wasserstein(quantiles_a, quantiles_b):
{sorting}    return np.abs(quantiles_a - quantiles_b).mean(-1)
"""
    good = (
        {
            "main.py": _main.format(
                sorting="    quantiles_a, quantiles_b = np.sort(quantiles_a, -1), np.sort(quantiles_b, -1)\n"
            )
        },
    )
    bad = ({"main.py": _main.format(sorting="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for function in subject.functions:
            if not DISTANCE.search(function.name) or any("sort" in w.lower() for w in _words(function.node)):
                continue
            for event in function.flow.calls:
                part = event.call
                inner = (
                    positional(part)[0] if last_name(part.func) in ("abs", "absolute", "fabs") and part.args else None
                )
                if inner is None and isinstance(part.func, t.Attr) and part.func.name == "abs":
                    inner = part.func.obj
                if isinstance(inner, t.Op) and inner.op == "-" and all(
                    any(ATOMS.search(n) for n in _names(side)) for side in (inner.left, inner.right)
                ):  # fmt: skip
                    yield Hit(
                        place(function, part), "atoms are paired by index, and nothing here sorts them", part.end_line
                    )


class PooledBootstrap(Rule):
    code = "CA608"
    name = "bootstrap-over-episodes"
    message = "a bootstrap resamples episodes of all runs alike"
    why = (
        "Runs are what a method is repeated over; episodes of one run share its luck. A bootstrap over the flattened "
        "array gives an interval that is too short. Resample runs, or runs and then their episodes."
    )
    source = "https://arxiv.org/abs/2108.13264 (Agarwal et al., Deep RL at the Edge of the Statistical Precipice)"
    _main = """\
import numpy as np


def bootstrap_interval(returns, rng):
    means = [rng.choice({what}, size=len(returns)).mean() for _ in range(2000)]
    return np.percentile(means, [2.5, 97.5])
"""
    good = ({"main.py": _main.format(what="returns.mean(axis=1)")},)
    bad = ({"main.py": _main.format(what="returns.flatten()")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("choice", "bootstrap", "resample"):
            given = positional(site.call)[:1]
            if given and isinstance(given[0], t.Seq):  # scipy's bootstrap takes a tuple of samples
                given = list(given[0].items[:1])
            named = "bootstrap" in (last_name(site.call.func) + site.function.qualified).lower()
            if given and named and is_pooled(given[0], site):
                said = f"`{call_text(site.call)}` draws from a flattened array: runs and episodes count alike"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _names(node: t.Node) -> list[str]:
    return [last_name(p) for p in t.walk(node) if isinstance(p, (t.Name, t.Attr))]


def _words(node: t.Node) -> Iterator[str]:
    """Every name and text in a piece of code."""
    for part in t.walk(node):
        if isinstance(part, t.Name):
            yield part.id
        elif isinstance(part, t.Attr):
            yield part.name
        elif isinstance(part, t.Const) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, t.Import):
            yield part.module
            yield from (name for name, _ in part.names)
        elif isinstance(part, t.Def):
            yield part.name


RULES = (RulesDiffer, ArgmaxWithoutFloor, ManyTests, PairedOnDisjoint, UnsortedAtoms, PooledBootstrap)
