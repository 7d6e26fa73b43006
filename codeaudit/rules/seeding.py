"""CA3, seeding and level sets: which levels are drawn, and whether they can be drawn again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation.contexts import contexts
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame, Instance
from codeaudit.program.index import CallSite, last_name
from codeaudit.rules.base import Edit, Hit, Rule, Subject, call_text, keyword, place, positional, receiver, unpacks

_PROCGEN = "https://github.com/openai/procgen/blob/master/procgen/env.py (`rand_seed`, `num_levels`, `start_level`)"
_LEVELS = """\
from procgen import ProcgenEnv


def make(train):
    if train:
        return ProcgenEnv(num_envs=64, env_name="miner", num_levels=200, start_level=0, rand_seed=1)
    return ProcgenEnv(num_envs=64, env_name="miner", num_levels={levels}, start_level={start}, rand_seed=2)
"""
_TEST = """\
from procgen import ProcgenEnv
from torch.distributions import Categorical


class Agent:
    def act(self, obs):
        return Categorical(logits=self.net(obs)).sample()


def evaluate(agent):
    test_env = ProcgenEnv(num_envs=1, env_name="miner", num_levels={levels}, start_level={start}, rand_seed=2)
    obs, done, total_reward = test_env.reset(), False, 0.0
    while not done:
        obs, reward, done, info = test_env.step(agent.act(obs))
        total_reward += reward
    return total_reward


def train(agent, buffer):
    env = ProcgenEnv(num_envs=1, env_name="miner", num_levels=200, start_level=0, rand_seed=1)
    obs = env.reset()
    for step in range(1000):
        action = agent.act(obs)
        obs, reward, done, info = env.step(action)
        buffer.add(obs, action, reward, done)
        agent.update(buffer)
    print(evaluate(agent))


train(Agent(), [])
"""
DRAWS = {
    "numpy": re.compile(
        r"^numpy\.random\.(rand|randn|randint|random|choice|normal|uniform|permutation|shuffle|random_sample|beta|dirichlet)$"
    ),
    "random": re.compile(r"^random\.(random|randint|choice|choices|sample|shuffle|uniform|gauss|randrange)$"),
    "torch": re.compile(r"^torch\.(rand|randn|randint|randperm|multinomial|bernoulli|normal)$"),
}
SEEDS = {
    "numpy": ("np.random.seed", "numpy.random.seed", "onp.random.seed"),
    "random": ("random.seed",),
    "torch": ("torch.manual_seed", "th.manual_seed"),
}
DRAWING = (
    "rand", "randn", "randint", "random", "choice", "choices", "normal", "uniform", "sample", "shuffle", "permutation",
    "random_sample", "gauss", "randrange", "randperm", "multinomial", "bernoulli", "beta", "dirichlet",
)  # fmt: skip


class LevelDrawUnseeded(Rule):
    code = "CA301"
    name = "level-draw-unseeded"
    message = "ProcGen draws its levels from an unseeded generator"
    why = (
        "`rand_seed` is the only seed of the level draw. Without it every process plays other levels in another order, "
        "however many seeds the script sets, and no result can be repeated."
    )
    source = _PROCGEN
    fixable = "unsafe"
    experiment = "level_draw_matters"
    good = ({"main.py": _LEVELS.format(levels=100, start=1000)},)
    bad = ({"main.py": _LEVELS.format(levels=100, start=1000).replace(", rand_seed=2", "")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in _procgen_calls(subject):
            if keyword(site.call, "rand_seed") is None and not unpacks(site.call):
                name = last_name(site.call.func)
                edit = Edit(
                    "add_keyword", site.function.module.path, site.call.line, name, "rand_seed", "0", safe=False
                )
                said = f"`{call_text(site.call)}` passes no `rand_seed`: the levels drawn differ from run to run"
                yield Hit(place(site.function, site.call), said, site.call.end_line, edit=edit)


class LevelsOverlap(Rule):
    code = "CA302"
    name = "heldout-levels-overlap"
    message = "the held-out levels contain the training levels"
    why = (
        "`num_levels=0` draws from all levels, those trained on among them. The share is small with 32-bit level "
        'seeds, but "unseen levels" is not what was measured.'
    )
    source = "https://arxiv.org/abs/1912.01588 (Cobbe et al., ProcGen: the full distribution as the test set)"
    severity = "note"
    experiment = "levels_overlap"
    good = ({"main.py": _TEST.format(levels=1000, start=200)},)
    bad = ({"main.py": _TEST.format(levels=0, start=0)}, {"main.py": _TEST.format(levels=300, start=100)})

    def check(self, subject: Subject) -> Iterator[Hit]:
        seen: set[tuple[str, int]] = set()
        calls = {(site.function.module.path, site.call.line): site for site in _procgen_calls(subject)}
        sets = [s for site in calls.values() for s in _level_sets(subject, site)]
        for site in subject.measured:
            key = (site.env_site.file, site.env_site.line) if site.env_site else ("", 0)
            made = calls.get(key)
            if site.role != "heldout" or made is None or key in seen:
                continue
            known = _level_sets(subject, made)
            if len(known) != 1:
                continue
            start, count = known[0]
            others = [s for s in sets if s != known[0] and s[1] > 0]
            if count == 0 and start == 0:
                said = "`num_levels=0` draws the held-out levels from all levels, those of training among them"
            elif count > 0 and any(start < o + n and o < start + count for o, n in others):
                said = f"levels {start}:{count} of the evaluation overlap levels that training is given"
            else:
                continue
            seen.add(key)
            yield Hit(place(made.function, made.call), said, made.call.end_line, site.evidence)


class StartLevelIgnored(Rule):
    code = "CA303"
    name = "start-level-ignored"
    message = "`start_level` has no effect where `num_levels` is 0"
    why = "The code reads as if held-out levels began there. ProcGen draws from all levels, the first ones included."
    source = _PROCGEN
    severity = "error"
    experiment = "levels_overlap"
    good = ({"main.py": _LEVELS.format(levels=100, start=1000)}, {"main.py": _LEVELS.format(levels=0, start=0)})
    bad = ({"main.py": _LEVELS.format(levels=0, start=1000)},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in _procgen_calls(subject):
            for start, count in _level_sets(subject, site):
                if count == 0 and start:
                    said = f"`num_levels=0` makes ProcGen ignore `start_level={start}`: all levels are drawn"
                    yield Hit(place(site.function, site.call), said, site.call.end_line)
                    break


class PartlySeeded(Rule):
    code = "CA304"
    name = "generators-partly-seeded"
    message = "some of the random generators in use are seeded and others are not"
    why = "A seed on the command line promises that a run can be repeated. One unseeded generator breaks that promise."
    source = "https://docs.pytorch.org/docs/stable/notes/randomness.html"
    _main = (
        "import random\n\nimport numpy as np\nimport torch\n\ntorch.manual_seed(1)\n"
        "{numpy}print(np.random.randint(10), torch.rand(1))\n"
    )
    good = ({"main.py": _main.format(numpy="np.random.seed(1)\n")},)
    bad = ({"main.py": _main.format(numpy="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        helpers = subject.calls("seed_everything", "set_random_seed", "set_global_seeds", "set_seed")
        ours = ("numpy", "random", "torch", "")
        if any(subject.library(s.call.func, s.function).partition(".")[0] not in ours for s in helpers):
            return  # a library's helper may seed them all
        seeding = [s for s in subject.calls("seed", "manual_seed") if s.call.args and not _is_entropy(s.call)]
        seeded = {kind: [s for s in seeding if call_text(s.call) in texts] for kind, texts in SEEDS.items()}
        first = next((calls[0] for calls in seeded.values() if calls), None)
        for kind, pattern in DRAWS.items() if first is not None else ():
            drawn = _draws(subject, pattern) if not seeded[kind] else []
            if drawn and first is not None:
                where = f"{drawn[0].function.module.path}:{drawn[0].call.line}"
                said = f"seeds are set, but not with `{SEEDS[kind][0]}`, whose generator is drawn from at {where}"
                yield Hit(place(first.function, first.call), said, first.call.end_line)


class SeedAfterReset(Rule):
    code = "CA305"
    name = "seed-without-reset"
    message = "`seed()` without a `reset()` after it"
    why = (
        "A Gym environment takes a seed into account at its next reset; the episode that is running keeps the old draw."
    )
    source = "https://github.com/openai/gym/blob/v0.21.0/gym/core.py (Env.seed)"
    _main = "import gym\n\nenv = gym.make('CartPole-v1')\n{body}"
    good = ({"main.py": _main.format(body="env.seed(1)\nobs = env.reset()\nenv.step(0)\n")},)
    bad = ({"main.py": _main.format(body="obs = env.reset()\nenv.seed(1)\nenv.step(0)\n")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("seed"):
            holder = receiver(site.call)
            name = t.dotted(holder) if holder is not None else ""
            if not name or not subject.audit.finder.looks_like_environment(t.Name(0, name), site.function):
                continue
            same = [
                e
                for e in site.function.flow.calls
                if isinstance(e.call.func, t.Attr) and t.dotted(e.call.func.obj) == name
            ]
            order = site.event.context.order
            steps = any(e.call.func.name == "step" and e.context.order > order for e in same)  # type: ignore[attr-defined]
            resets = [e.context.order for e in same if e.call.func.name == "reset"]  # type: ignore[attr-defined]
            if (
                steps
                and any(r < order for r in resets)
                and not any(r > order for r in resets)
                and not site.event.context.loops
            ):
                said = f"`{name}.seed(…)` comes after `{name}.reset()` and nothing resets before the steps that follow"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


class StickyAction(Rule):
    code = "CA306"
    name = "minatar-sticky-action"
    message = "MinAtar's sticky action survives reset()"
    why = (
        "With `sticky_action_prob` above 0 the first step of an episode may repeat the last action of the "
        "episode before: episodes of one environment object aren't independent."
    )
    source = (
        "https://github.com/kenjyoung/MinAtar/blob/master/minatar/environment.py (`last_action` is set in "
        "__init__ only)"
    )
    severity = "note"
    _main = (
        "from minatar import Environment\n\nenv = Environment('breakout'{sticky})\n"
        "for _ in range(10):\n    env.reset()\n    env.act(0)\n"
    )
    good = ({"main.py": _main.format(sticky=", sticky_action_prob=0.0")},)
    bad = ({"main.py": _main.format(sticky="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("Environment"):
            if not self._is_minatar(subject, site) or unpacks(site.call):
                continue
            given = keyword(site.call, "sticky_action_prob")
            args = positional(site.call)
            given = given if given is not None else args[1] if len(args) > 1 else None
            known = subject.audit.evaluator.evaluate(given, Frame(site.function)) if given is not None else None
            if given is not None and (known is None or known.value == 0):
                continue
            if any(isinstance(n, t.Attr) and n.name == "last_action" for n in t.walk(site.function.module.file)):
                continue
            if not any(last_name(e.call.func) == "reset" for f in site.function.module.functions for e in f.flow.calls):
                continue
            said = "the first action of an episode may be the last one of the episode before; reset `last_action` too"
            yield Hit(place(site.function, site.call), said, site.call.end_line)

    @staticmethod
    def _is_minatar(subject: Subject, site: CallSite) -> bool:
        if subject.library(site.call.func, site.function).startswith("minatar"):
            return True
        for value in subject.audit.resolver.types(site.call, Frame(site.function)):
            if isinstance(value, Instance) and value.info.node.body and "minatar" in value.info.module.parts:
                return True
        return False


class SeedFromClock(Rule):
    code = "CA307"
    name = "seed-from-clock"
    message = "a generator is seeded from the clock"
    why = (
        "The seed is used once and kept nowhere, so the run can't be repeated. Draw it once, print it, store it "
        "with the result."
    )
    source = "https://docs.pytorch.org/docs/stable/notes/randomness.html"
    good = ({"main.py": "import numpy as np\n\nnp.random.seed(1)\n"},)
    bad = ({"main.py": "import time\n\nimport numpy as np\n\nnp.random.seed(int(time.time()))\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("seed", "manual_seed", "set_random_seed", "set_global_seeds", "set_seed"):
            given = positional(site.call)[:1]
            for part in t.walk(given[0]) if given else ():
                if isinstance(part, t.Call):
                    name = subject.library(part.func, site.function)
                    if name in ("time.time", "time.time_ns", "os.urandom", "datetime.datetime.now"):
                        said = f"the seed comes from `{call_text(part)}` and is kept nowhere"
                        yield Hit(place(site.function, site.call), said, site.call.end_line)
                        break


# --- helpers ---------------------------------------------------------------------------------------------------------


def _procgen_calls(subject: Subject) -> list[CallSite]:
    """The calls that make ProcGen environments: its classes, and `gym.make("procgen:…")`."""
    found = []
    for site in subject.calls("ProcgenEnv", "ProcgenGym3Env"):
        name = subject.library(site.call.func, site.function)
        if not name or name.startswith("procgen"):
            found.append(site)
    for site in subject.calls("make"):
        texts = [n.value for n in (t.walk(site.call.args[0].value) if site.call.args else ()) if isinstance(n, t.Const)]
        if any(isinstance(x, str) and x.startswith(("procgen:", "procgen-")) for x in texts):
            found.append(site)
    return sorted(found, key=lambda s: (s.function.module.path, s.call.line))


def _draws(subject: Subject, pattern: re.Pattern[str]) -> list[CallSite]:
    """The draws from a library's global generator, in the order of the files."""
    found = [
        site
        for site in subject.calls(*DRAWING)
        if pattern.match(subject.library(site.call.func, site.function))
        and not _draws_a_seed(site)
        and "test" not in site.function.module.parts[:-1]
    ]
    return sorted(found, key=lambda s: (s.function.module.path, s.call.line))


def _is_entropy(call: t.Call) -> bool:
    """`np.random.seed(int(time.time()))` and the like: a fresh state, not a seed that somebody gave."""
    fresh = ("randint", "time", "urandom", "RandomState", "getpid", "time_ns")
    return any(isinstance(p, t.Call) and last_name(p.func) in fresh for a in call.args for p in t.walk(a.value))


def _draws_a_seed(site: CallSite) -> bool:
    """A draw that makes the default of a seed: `add_argument("--seed", default=random.randint(0, 9999))`."""
    statement = site.event.statement
    texts = (
        [n.value for n in t.walk(statement) if isinstance(n, t.Const) and isinstance(n.value, str)]
        if isinstance(statement, t.Expr)
        else []
    )
    targets = [t.dotted(target) for target in getattr(statement, "targets", ())]
    return any("seed" in x.lower() for x in (*texts, *targets))


def _level_sets(subject: Subject, site: CallSite) -> list[tuple[int, int]]:
    """(start, count) of the level set in each way into the call, where both are known; ProcGen's defaults are 0 and
    0.
    """
    if unpacks(site.call):
        return []
    found: set[tuple[int, int]] = set()
    for frame in contexts(site.function, subject.audit.resolver)[:8]:
        values = []
        for name in ("start_level", "num_levels"):
            given = keyword(site.call, name)
            known = subject.audit.evaluator.evaluate(given, frame, site.event.context) if given is not None else None
            values.append(0 if given is None else known.value if known is not None else None)
        if all(isinstance(v, int) for v in values):
            found.add((values[0], values[1]))  # type: ignore[arg-type]
    return sorted(found)


RULES = (LevelDrawUnseeded, LevelsOverlap, StartLevelIgnored, PartlySeeded, SeedAfterReset, StickyAction, SeedFromClock)
