"""CA2, CA3 and CA7: what a run must bound, and what it must keep so that it can be repeated."""

from __future__ import annotations

from collections.abc import Iterator

from codeaudit.evaluation import words
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.frames import Instance
from codeaudit.program.index import ClassInfo, Function, last_name
from codeaudit.rules.base import Hit, Rule, Subject, last_part, mentions, place

_CAP = """\
import torch


class Maze:
    def __init__(self, size):
        self.size = size
        self.action_space, self.observation_space = range(4), range(size)

    def reset(self):
        self.position{more} = 0{zero}
        return self.position

    def step(self, action):
        self.position += 1 if action == 1 else -1
{count}        done = self.position == self.size{cap}
        return self.position, float(done), done, {{}}


class Agent:
    def act(self, obs):
        return self.net(obs).argmax(-1)


def evaluate(agent, env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(agent.act(obs))
        total_reward += reward
    return total_reward


print("return", evaluate(Agent(), Maze(9)))
"""
COUNTS = ("step", "time", "horizon", "max", "limit", "elapsed", "length", "trunc", "count", "budget", "tick", "frame")
ENTROPY = ("urandom", "SystemRandom", "randbits")  # never the same twice, whoever was seeded
RANDOM = ("randint", "randrange", "integers", "random_integers", "getrandbits", *ENTROPY)
SEEDS = (
    "seed",
    "manual_seed",
    "set_random_seed",
    "set_global_seeds",
    "set_seed",
    "seed_everything",
    "default_rng",
    "reset",
)


class NoEpisodeCap(Rule):
    code = "CA208"
    name = "no-episode-cap"
    message = "a greedy episode may never end"
    why = (
        "The best action repeats where the observation repeats. Without a cap on steps one circling episode stops the "
        "evaluation, or is broken off by hand and not counted. Wrap the environment in gymnasium's TimeLimit, and "
        "report the cap."
    )
    source = "https://gymnasium.farama.org/api/wrappers/misc_wrappers/#gymnasium.wrappers.TimeLimit"
    severity = "note"
    experiment = "greedy_loops"
    good = (
        {
            "main.py": _CAP.format(
                more=", self.steps", zero=", 0", count="        self.steps += 1\n", cap=" or self.steps > 99"
            )
        },
    )
    bad = ({"main.py": _CAP.format(more="", zero="", count="", cap="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        greedy = {(s.file, s.line) for s in subject.measured if s.rule == "greedy"}
        for found in subject.rollouts:
            rollout = found.rollout
            loop = rollout.event.context.loops[-1] if rollout.event.context.loops else None
            if not isinstance(loop, t.While) or _is_bounded(loop):
                continue
            chosen = [s for s in rollout.selections if (rollout.function.module.path, s.node.line) in greedy]
            made = [v for f in found.frames[:4] for v in subject.audit.resolver.types(rollout.environment, f)]
            classes = [v.info for v in made if isinstance(v, Instance)]
            if chosen and classes and len(classes) == len(made) and all(_is_endless(subject, c) for c in classes):
                said = f"neither this loop nor `{classes[0].name}` counts steps: an episode may never end"
                yield Hit(place(rollout.function, loop), said)


class SeedNotRecorded(Rule):
    code = "CA308"
    name = "seed-not-recorded"
    message = "a seed is drawn at random and kept nowhere"
    why = "The run can't be repeated, not even by the one who started it. Print the seed, or store it with the result."
    source = "https://docs.pytorch.org/docs/stable/notes/randomness.html"
    _main = "import random\n\nimport torch\n\nseed = random.randint(0, 10**6)\n{kept}torch.manual_seed(seed)\ntrain()\n"
    good = (
        {"main.py": _main.format(kept='print("seed", seed)\n')},
        {
            "main.py": (
                "import random\n\nimport torch\n\nrandom.seed(3)\nseed = random.randint(0, 9)\n"
                "torch.manual_seed(seed)\n"
            )
        },
    )
    bad = ({"main.py": _main.format(kept="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for function in subject.functions:
            for name, definitions in function.flow.definitions.items():
                if "seed" not in last_part(name).lower() or "." in name or len(definitions) != 1:
                    continue
                drawn = definitions[0]
                calls = [p for p in t.walk(drawn.value) if isinstance(p, t.Call)]
                sources = {last_name(c.func) for c in calls} & set(RANDOM)
                if drawn.kind != "assign" or not sources:
                    continue
                if not sources & set(ENTROPY) and _is_seeded(subject, name):
                    continue
                used = [e.call for e in function.flow.calls if any(mentions(a.value, {name}) for a in e.call.args)]
                if used and all(last_name(c.func) in SEEDS for c in used) and not _leaves(function, name):
                    said = f"`{name}` is drawn at random, seeds a generator, and is neither printed nor stored"
                    yield Hit(place(function, t.Name(drawn.line, name)), said)


class NoCommit(Rule):
    code = "CA704"
    name = "no-recorded-commit"
    message = "results are written without the commit that made them"
    why = (
        "A result that does not name its code can't be told from one of another version. Write `git rev-parse HEAD` "
        "and whether the tree was clean beside it, or use a tracker that does."
    )
    source = "https://arxiv.org/abs/2003.12206 (Pineau et al., the machine-learning reproducibility checklist)"
    severity = "note"
    default = False  # true nearly everywhere, so it says little about one repository
    _main = "import subprocess\n\nimport numpy as np\n\n{commit}np.save('returns.npy', evaluate())\n"
    good = ({"main.py": _main.format(commit="print(subprocess.check_output(['git', 'rev-parse', 'HEAD']))\n")},)
    bad = ({"main.py": _main.format(commit="")},)
    _tracks = ("wandb", "sacred", "mlflow", "git", "guild", "comet_ml", "aim", "clearml", "neptune", "dvclive")

    def check(self, subject: Subject) -> Iterator[Hit]:
        if any(name in self._tracks for name in subject.imported):
            return
        for module in subject.modules:
            for part in t.walk(module.file):
                if isinstance(part, t.Const) and isinstance(part.value, str) and "rev-parse" in part.value:
                    return
        writes = ("save", "savez", "savetxt", "to_csv", "dump", "add_scalar", "save_model")
        found = sorted(subject.calls(*writes), key=lambda s: (s.function.module.path, s.call.line))
        if found:
            first = found[0]
            said = "results are written here, and no file of this repository reads the commit"
            yield Hit(Place(first.function.module.path, first.call.line), said, first.call.end_line)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _is_bounded(loop: t.While) -> bool:
    """Whether the loop's own condition, or a break in it, compares a number."""
    tests = [loop.test, *[n.test for s in loop.body for n in t.walk(s) if isinstance(n, t.If)]]
    ordered = ("<", "<=", ">", ">=")
    return any(isinstance(p, t.Compare) and p.ops[0][0] in ordered for test in tests for p in t.walk(test))


def _is_endless(subject: Subject, info: ClassInfo) -> bool:
    """A class of the program with a `step` in which nothing is called or named like a count of steps."""
    step = subject.audit.resolver.method(info, "step")
    if step is None or subject.audit.resolver.library_bases(info):
        return False
    names = [last_name(p) for s in step.node.body for p in t.walk(s) if isinstance(p, (t.Name, t.Attr))]
    outside = [e for e in step.flow.calls if words.ENVIRONMENT.search(last_name(getattr(e.call.func, "obj", e.call)))]
    return not outside and not any(word in n.lower() for n in names for word in COUNTS)


def _is_seeded(subject: Subject, name: str) -> bool:
    """Whether something else than the drawn name seeds a generator somewhere: the draw may then be repeated."""
    return any(
        site.call.args and not any(mentions(a.value, {name}) for a in site.call.args)
        for site in subject.calls("seed", "set_seed", "seed_everything", "set_random_seed", "set_global_seeds")
    )


def _leaves(function: Function, name: str) -> bool:
    """Whether a name is returned, or bound to something that lives on."""
    returned = any(e.value is not None and mentions(e.value, {name}) for e in function.flow.returns)
    bound = any(mentions(d.value, {name}) for n, ds in function.flow.definitions.items() if n != name for d in ds)
    stored = any(mentions(value, {name}) for _, value, _ in function.flow.subscript_stores)
    return returned or bound or stored


RULES = (NoEpisodeCap, SeedNotRecorded, NoCommit)
