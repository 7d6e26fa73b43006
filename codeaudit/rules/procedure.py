"""CA2, the procedure: which episodes count, and which of several scores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation.sites import Evidence, Place
from codeaudit.evaluation.tools import Found
from codeaudit.facts import tree as t
from codeaudit.program.flow import Definition
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import Function, last_name
from codeaudit.rules.base import (
    Edit,
    Hit,
    Rule,
    Subject,
    last_part,
    mentions,
    place,
)

_STATISTICS = "https://arxiv.org/abs/2108.13264 (Agarwal et al., Deep RL at the Edge of the Statistical Precipice)"
_SLOTS = """\
def evaluate(actor_critic, eval_envs, num_episodes):
    returns = []
    obs = eval_envs.reset()
{counts}    while {more}:
        action = actor_critic.act(obs, deterministic=True)
        obs, reward, done, infos = eval_envs.step(action)
        for i, info in enumerate(infos):
            if 'episode' in info{quota}:
                returns.append(info['episode']['r']){count}
    return sum(returns) / len(returns)


print(evaluate(load_agent(), make_envs(), 100))
"""


class InLoopReturn(Rule):
    code = "CA201"
    name = "in-loop-test-return"
    message = "the test return is a running mean inside the training loop"
    why = (
        "The environment is stepped between updates and never reset for the measurement, so one reported number mixes "
        "episodes of many policies, and long episodes are counted late."
    )
    source = _STATISTICS
    experiment = "in_loop_differs"
    _loop = """\
import numpy as np
from collections import deque
from procgen import ProcgenEnv


def train(agent, buffer, optimizer):
    envs = ProcgenEnv(num_envs=64, env_name="miner", num_levels=200, start_level=0, rand_seed=1)
    test_envs = ProcgenEnv(num_envs=64, env_name="miner", num_levels=100, start_level=1000, rand_seed=2)
    test_returns = deque(maxlen=100)
    obs, test_obs = envs.reset(), test_envs.reset()
    for update in range(1000):
        for step in range(256):
            action = agent.act(obs)
            obs, reward, done, info = envs.step(action)
            buffer.add(obs, action, reward, done)
{test}
        optimizer.step()
        print(np.mean(test_returns))
"""
    _stepping = """
            test_action = agent.act(test_obs)
            test_obs, test_reward, test_done, test_info = test_envs.step(test_action)
            for i in test_info:
                if "episode" in i:
                    test_returns.append(i["episode"]["r"])
"""
    _agent = """

class Agent:
    def act(self, obs):
        return Categorical(logits=self.net(obs)).sample()


train(Agent(), [], None)
"""
    good = ({"main.py": "from torch.distributions import Categorical\n" + _loop.format(test="") + _agent},)
    bad = ({"main.py": "from torch.distributions import Categorical\n" + _loop.format(test=_stepping) + _agent},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.measured:
            if site.procedure == "in_loop" and site.role == "heldout":
                said = "the test environment is stepped inside the training loop; its return spans policy versions"
                yield Hit(Place(site.file, site.line), said, site.end_line, site.evidence)


class FirstFinished(Rule):
    code = "CA202"
    name = "first-finished-episodes"
    message = "the first N episodes to finish in a vector environment are counted"
    why = (
        "Short episodes finish first and so are counted more often than they occur. Where failing is quick the "
        "score is too low, where succeeding is quick too high. A quota of episodes for each slot has no such "
        "bias."
    )
    source = "https://github.com/DLR-RM/stable-baselines3/pull/447, https://github.com/chainer/chainerrl/issues/368"
    fixable = "unsafe"
    experiment = "first_finished_bias"
    good = (
        {
            "main.py": _SLOTS.format(
                counts="    counts = [0] * eval_envs.num_envs\n    quota = num_episodes // eval_envs.num_envs\n",
                more="min(counts) < quota",
                quota=" and counts[i] < quota",
                count="\n                counts[i] += 1",
            )
        },
    )
    bad = ({"main.py": _SLOTS.format(counts="", more="len(returns) < num_episodes", quota="", count="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        seen: set[int] = set()
        for found in subject.rollouts:
            if found.use.kind not in ("evaluation", "demo"):
                continue
            for loop in found.rollout.event.context.loops:
                counted = _counted_until(loop) if isinstance(loop, t.While) else ""
                if (
                    not isinstance(loop, t.While)
                    or not counted
                    or id(loop) in seen
                    or not _grows_per_slot(found, loop, counted)
                ):
                    continue
                if all(_slots(found, frame, subject) == 1 for frame in found.frames):
                    continue
                seen.add(id(loop))
                function = found.rollout.function
                said = f"stops as soon as `{counted}` is long enough, whichever slots filled it: short episodes win"
                step = Evidence(place(function, found.rollout.step), "steps all slots at once")
                at = place(function, loop)
                environment = t.dotted(found.rollout.environment)
                edit = Edit("slot_quota", at.file, at.line, counted, "", f"{environment}.num_envs", safe=False)
                evidence = (Evidence(at, "the loop's condition"), step)
                yield Hit(at, said, 0, evidence, edit if environment else None)


class BestEvaluation(Rule):
    code = "CA203"
    name = "best-of-evaluations"
    message = "the best of several evaluations is kept"
    why = (
        "The maximum of noisy evaluations is biased upwards, the more so the more evaluations there are. Select "
        "on one set of episodes or levels and report another."
    )
    source = "https://arxiv.org/abs/2108.13264 (Agarwal et al., section on reporting the maximum over training)"
    severity = "note"
    _train = """\
def evaluate(agent, env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(agent.act(obs).argmax())
        total_reward += reward
    return total_reward


def train(agent, test_env):
    best = float("-inf")
    for update in range(100):
        agent.update()
        score = evaluate(agent, test_env)
{keep}
    print(score)
"""
    good = ({"main.py": _train.format(keep="")},)
    bad = (
        {
            "main.py": _train.format(
                keep="        if score > best:\n            best = score\n            agent.save('best.pt')"
            )
        },
        {"main.py": _train.format(keep="        best = max(best, score)")},
        {
            "main.py": """\
class Agent:
    def evaluate(self):
        state, done, total_reward = self.test_env.reset(), False, 0.0
        while not done:
            state, reward, done, _ = self.test_env.step(self.net(state).argmax())
            total_reward += reward
        if total_reward > self.best_score:
            self.best_score = total_reward
            self.save("best")

    def train(self):
        self.learn()
        self.evaluate()


Agent().train()
"""
        },
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        evaluating = {(s.file, s.function) for s in subject.measured}
        for function in subject.functions:
            flow = function.flow
            for name, definitions in flow.definitions.items():
                if not re.search(r"best|max", last_part(name), re.I):
                    continue
                for d in definitions:
                    score = _kept_best(d, name)
                    if score is None:
                        continue
                    # `self.best = score` at the end of the evaluation itself, or in the loop that calls it.
                    kept = "." in name and (function.module.path, function.name) in evaluating
                    if kept or (d.context.loops and _is_evaluated(score, function, subject, evaluating, d)):
                        said = f"`{name}` is the largest of several evaluations; as a score it is biased upwards"
                        yield Hit(Place(function.module.path, d.line), said)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _counted_until(loop: t.While) -> str:
    """`x` of `while len(x) < N`, or of `while x < N`; "" for any other condition."""
    tests = [loop.test]
    while tests:
        test = tests.pop()
        if isinstance(test, t.Bool) and test.op == "and":
            tests += [test.left, test.right]
        if isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] in ("<", "<=", "!="):
            left = test.left
            if isinstance(left, t.Call) and last_name(left.func) == "len" and len(left.args) == 1:
                return t.dotted(left.args[0].value)
            if isinstance(left, (t.Name, t.Attr)) and re.search(
                r"episode|eps?$|n_done|finished|count|completed", t.dotted(left), re.I
            ):
                return t.dotted(left)
    return ""


def _grows_per_slot(found: Found, loop: t.While, counted: str) -> bool:
    """Whether `counted` grows in a loop over the slots of one step's result, with no quota per slot."""
    flow = found.rollout.function.flow
    results = set(found.rollout.results) | {"num_processes", "num_envs", "n_envs", "nenvs"}
    results.discard("_")
    grown = [
        e.context
        for e in flow.calls
        if isinstance(e.call.func, t.Attr)
        and e.call.func.name in ("append", "extend")
        and t.dotted(e.call.func.obj) == counted
    ]
    grown += [d.context for d in flow.definitions.get(counted, ()) if d.kind == "augment"]
    for context in grown:
        if not any(x is loop for x in context.loops):
            continue
        inner = [x for x in context.loops if isinstance(x, t.For) and x.line > loop.line]
        if not any(mentions(x.iter, results) for x in inner):
            continue
        if not any(
            isinstance(test, t.Compare) and isinstance(test.left, t.Sub) and test.ops[0][0] in ("<", "<=", ">", ">=")
            for guard, _ in context.guards
            for test in t.walk(guard)
        ):
            return True
    return False


def _slots(found: Found, frame: Frame, subject: Subject) -> int | None:
    """How many slots the stepped environment has when the function is entered by this frame, where that is written
    down.
    """
    for made in subject.audit.environments.made(found.rollout.environment, frame):
        call = made.call
        if call is None:
            continue
        for arg in call.args:
            if re.fullmatch(r"num|n_?envs?|num_(envs?|processes|workers|eval_envs)|nenvs?|n_proc\w*|env_num", arg.name):
                known = subject.audit.evaluator.evaluate(arg.value, made.frame)
                return known.value if known is not None and isinstance(known.value, int) else None
        first = call.args[0].value if call.args else None
        if isinstance(first, t.Seq):
            return len(first.items)
        for value in subject.audit.resolver.targets(call, made.frame)[:1]:
            if isinstance(value, FunctionValue):
                inner = subject.audit.resolver.enter(value, call, made.frame)
                for name in ("num_processes", "num_envs", "n_envs", "num_env", "nenv", "n_procs"):
                    if inner is not None and value.function.parameter(name) is not None:
                        known = subject.audit.evaluator.evaluate(t.Name(call.line, name), inner)
                        return known.value if known is not None and isinstance(known.value, int) else None
    return None


def _kept_best(d: Definition, name: str) -> t.Node | None:
    """The score of `if score > best: best = score`, or of `best = max(best, score)`."""
    value = d.value
    if d.kind != "assign" or d.selector:
        return None
    if isinstance(value, t.Call) and last_name(value.func) in ("max", "maximum"):
        args = [a.value for a in value.args if not a.name]
        if len(args) == 2 and any(t.dotted(a) == name for a in args):
            return next((a for a in args if t.dotted(a) != name), None)
        return None
    written = t.dotted(value)
    for test, held in d.context.guards if written else ():
        if not held:
            continue
        for part in t.walk(test):
            if isinstance(part, t.Compare) and len(part.ops) == 1:
                op, right = part.ops[0]
                larger, smaller = (
                    (part.left, right)
                    if op in (">", ">=")
                    else (right, part.left)
                    if op in ("<", "<=")
                    else (None, None)
                )
                if (
                    larger is not None
                    and smaller is not None
                    and t.dotted(larger) == written
                    and t.dotted(smaller) == name
                ):
                    return value
    return None


def _is_evaluated(
    score: t.Node, function: Function, subject: Subject, evaluating: set[tuple[str, str]], use: Definition
) -> bool:
    """Whether a score comes from an evaluation: a call into a function that holds a site, or one that says so."""
    calls = [part for part in t.walk(score) if isinstance(part, t.Call)]
    seen: set[str] = set()
    pending = [t.dotted(score)]
    while pending:
        name = pending.pop()
        if not name or name in seen or len(seen) > 6:
            continue
        seen.add(name)
        for d in function.flow.definitions.get(name, ()):
            if d.context.order >= use.context.order:
                continue
            for part in t.walk(d.value):
                if isinstance(part, t.Call):
                    calls.append(part)
                elif isinstance(part, t.Name) and d.kind == "assign":
                    pending.append(part.id)
    for call in calls:
        for target in subject.audit.resolver.targets(call, Frame(function))[:3]:
            if isinstance(target, FunctionValue) and (target.function.module.path, target.function.name) in evaluating:
                return True
    return False


RULES = (InLoopReturn, FirstFinished, BestEvaluation)
