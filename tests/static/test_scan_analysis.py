"""The scan as a library: the same result however it is run, models and dependencies, a person's corrections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import codeaudit
from codeaudit.errors import UserError
from codeaudit.evaluation.find import Audit
from codeaudit.report.json import scan_to_json

AGENT = """
from torch.distributions import Categorical


class Agent:
    def act(self, obs, deterministic=False):
        dist = Categorical(logits=self.net(obs))
        if deterministic:
            return dist.mode
        return dist.sample()
"""
EVALUATE = """
import gym
from agent import Agent


def evaluate(agent, env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(agent.act(obs{argument}))
        total_reward += reward
    return total_reward


print("mean return", evaluate(Agent(), gym.make("CartPole-v1")))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    from gitrepos import git

    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "agent.py").write_text(AGENT)
    (folder / "evaluate.py").write_text(EVALUATE.format(argument=""))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    yield folder


def scanned(target: str, cache: Path, **options: Any) -> dict[str, Any]:
    report = scan_to_json(codeaudit.scan(target, cache=cache, **options))
    report.pop("statistics")
    return report


def test_workers_and_cache_make_no_difference(tree: Path, tmp_path: Path) -> None:
    target = f"{tree}@HEAD"
    alone = scanned(target, tmp_path / "a", workers=1)
    together = scanned(target, tmp_path / "b", workers=2)
    warm = scanned(target, tmp_path / "a", workers=1)
    assert json.dumps(alone) == json.dumps(together) == json.dumps(warm)
    assert [(s["file"], s["line"], s["rule"], s["provenance"]) for s in alone["sites"]] == [
        ("evaluate.py", 9, "sampled", "inherited_default")
    ]


def test_a_damaged_cache_is_made_anew(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    before = scanned(f"{tree}@HEAD", cache)
    entries = [path for path in cache.rglob("*") if path.is_file() and "entries" in path.parts]
    assert entries
    for path in entries:
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    assert scanned(f"{tree}@HEAD", cache) == before


@pytest.mark.parametrize(
    ("argument", "rule", "provenance"),
    [
        ("", "sampled", "inherited_default"),
        (", deterministic=True", "greedy", "explicit"),
        (", True", "greedy", "explicit"),
    ],
)
def test_the_call_decides(tree: Path, tmp_path: Path, argument: str, rule: str, provenance: str) -> None:
    (tree / "evaluate.py").write_text(EVALUATE.format(argument=argument))
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert (site["rule"], site["provenance"]) == (rule, provenance)


def test_a_person_corrects_a_site(tree: Path, tmp_path: Path) -> None:
    source = EVALUATE.format(argument="").replace(
        "        obs, reward", "        # codeaudit: site rule=greedy the net's logits are one-hot\n        obs, reward"
    )
    (tree / "evaluate.py").write_text(
        source + "\n# codeaudit: site rule=best\nx = 1  # codeaudit: site role=demo why\n"
        "y = 2  # codeaudit: sites rule=greedy\nz = 3  # codeaudit: site greedy\n"
    )
    result = codeaudit.scan(str(tree), cache=tmp_path / "cache")
    (site,) = result.sites
    assert (site.rule, site.corrected) == ("greedy", "the net's logits are one-hot")
    assert site.provenance == "unknown" and site.default_site is None  # the scan's own were of another rule
    assert any("`rule=best` isn't known" in note for note in result.notes)
    assert any("stands beside no evaluation site" in note for note in result.notes)
    assert any("`codeaudit: sites` isn't known" in note for note in result.notes)
    assert any("sets nothing" in note for note in result.notes)


def test_a_folder_within_a_repository_is_said_to_be_scanned_with_the_rest(tree: Path, tmp_path: Path) -> None:
    inner = tree / "package"
    inner.mkdir()
    told = "all of the repository was scanned"
    for _ in range(2):  # also where the result is in the cache
        assert any(told in note for note in codeaudit.scan(str(inner), cache=tmp_path / "cache").notes)
    assert not any(told in note for note in codeaudit.scan(str(tree), cache=tmp_path / "cache").notes)


def test_a_users_model_of_a_library(tree: Path, tmp_path: Path) -> None:
    (tree / "evaluate.py").write_text(
        'import gym\nimport mylib\n\nprint("score", mylib.run_eval(gym.make("x"), mylib.load("a")))\n'
    )
    assert scanned(str(tree), tmp_path / "cache")["sites"] == []
    model = tmp_path / "mylib.yaml"
    model.write_text(
        "library: mylib\npackages: [mylib]\ncalls:\n  - name: run_eval\n    kind: evaluation\n"
        "    rule: {parameter: greedy, default: true, when_true: greedy, when_false: sampled}\n"
        "    environment: {parameter: env, position: 0}\n"
    )
    (site,) = scanned(str(tree), tmp_path / "cache", libraries=[model])["sites"]
    assert (site["rule"], site["provenance"], site["env_site"]["line"]) == ("greedy", "framework_default", 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calls: [", ":2: the library model isn't valid YAML"),
        ("library: x\n", "needs `library`, `packages` and a list of `calls`"),
        ("calls:\n  - {name: f, kind: evaluates}\n", "call 1: `kind` is 'evaluates'"),
        ("calls:\n  - {name: f, kind: action, rule: {always: best}}\n", "call 1: `always` is 'best'"),
    ],
)
def test_a_broken_model_says_where(tree: Path, tmp_path: Path, text: str, message: str) -> None:
    model = tmp_path / "broken.yaml"
    model.write_text(text)
    with pytest.raises(UserError) as raised:
        codeaudit.scan(str(tree), cache=tmp_path / "cache", libraries=[model])
    assert "broken.yaml" in str(raised.value) and message in str(raised.value)


def test_a_dependency_is_looked_into(tree: Path, tmp_path: Path) -> None:
    from gitrepos import git

    other = tmp_path / "other"
    (other / "agents").mkdir(parents=True)
    git(other, "init", "-q")
    (other / "agents" / "__init__.py").write_text(AGENT)
    git(other, "add", "-A")
    git(other, "commit", "-qm", "one")
    (tree / "agent.py").unlink()
    (tree / "evaluate.py").write_text(EVALUATE.format(argument="").replace("from agent import", "from agents import"))
    (alone,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert alone["rule"] == "unknown" and alone["unknown"]
    (site,) = scanned(str(tree), tmp_path / "cache", dependencies={"agents": str(other)})["sites"]
    assert (site["rule"], site["sink"]) == ("sampled", {"file": "agents:agents/__init__.py", "line": 10})


def test_a_fault_of_the_analysis_costs_one_function(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Audit, found: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(Audit, "_measured", fail)
    result = codeaudit.scan(str(tree), cache=tmp_path / "cache")
    assert result.sites == ()
    (skipped,) = result.skipped
    assert (skipped.file, skipped.line) == ("evaluate.py", 6)
    assert "the analysis of `evaluate` failed here (KeyError)" in skipped.reason


def test_folders_of_unit_tests_are_left_out_and_said(tree: Path, tmp_path: Path) -> None:
    """A helper beside the tests keeps them: they show what it is called with."""
    (tree / "tests").mkdir()
    (tree / "tests" / "test_agent.py").write_text("def test_it():\n    assert True\n")
    alone = scanned(str(tree), tmp_path / "cache")
    assert [s["reason"] for s in alone["skipped"] if s["file"] == "tests/"] == ["1 files of unit tests; not read"]
    (tree / "tests" / "util.py").write_text("def helper():\n    return 1\n")
    assert not scanned(str(tree), tmp_path / "cache")["skipped"]


def test_a_librarys_evaluation_is_inherited(tree: Path, tmp_path: Path) -> None:
    """A runner that derives from Dopamine's: its own phases are the sites, not the call that starts them; epsilon is
    that of the program's gin file."""
    (tree / "agent.py").unlink()
    (tree / "evaluate.py").write_text(
        "from dopamine.discrete_domains import run_experiment\n\n\n"
        "class Fixed(run_experiment.Runner):\n"
        "    def _run_one_iteration(self, iteration):\n"
        "        return self._run_eval_phase(iteration)\n\n\n"
        "class Logged(run_experiment.Runner):\n"
        "    def run_experiment(self):\n"
        "        super().run_experiment()\n\n\n"
        "Fixed('dir', None).run_experiment()\nLogged('dir', None).run_experiment()\n"
    )
    (tree / "dqn.gin").write_text("DQNAgent.epsilon_train = 0.01\nDQNAgent.epsilon_eval = 0.002\n")
    sites = scanned(str(tree), tmp_path / "cache")["sites"]
    assert [(s["line"], s["rule"], s["epsilon"], s["provenance"], s["default_site"]["line"]) for s in sites] == [
        (6, "epsilon_greedy", 0.002, "config", 2),
        (11, "epsilon_greedy", 0.002, "config", 2),
    ]


def test_a_name_of_many_open_parts_costs_nothing(tree: Path, tmp_path: Path) -> None:
    """As a pattern it would fit in more ways than anybody can wait for."""
    parts = "".join(f"{{names[{i}]}}" for i in range(40))
    (tree / ("a" * 120 + ".py")).write_text("def learn():\n    return 1\n")
    added = f"from importlib import import_module\nmodel = import_module(f'abc{parts}xyz').learn()\n"
    (tree / "evaluate.py").write_text(EVALUATE.format(argument="") + added)
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert site["rule"] == "sampled"


SMALL = {
    "what picks is the draw": (
        "import torch\n\n\nclass Agent:\n    def act(self, obs):\n        plans, scores = self.plan(obs)\n"
        "        chosen = torch.multinomial(scores, 1)\n        return torch.index_select(plans, 1, chosen)[0]\n",
        "sampled",
    ),
    "a sample that comes with its log-probability": (
        "import distrax\n\n\nclass Agent:\n    def act(self, obs):\n"
        "        action, log_prob = distrax.Normal(self.mean(obs), 1.0).sample_and_log_prob(seed=self.key)\n"
        "        return action\n",
        "sampled",
    ),
    "a number that is converted under its own name": (
        "import numpy as np\n\n\nclass Agent:\n    def act(self, obs):\n        chance = self.chance(obs)\n"
        "        chance = chance.numpy()\n        if chance < self.limit:\n"
        "            return self.other(obs).argmax()\n        return self.network(obs).argmax()\n",
        "greedy",
    ),
    "actions put into a list by the throw of a die": (
        "import numpy as np\n\n\nclass Agent:\n    def act(self, obs):\n        best = self.q(obs).argmax(1)\n"
        "        actions = []\n        for i in range(len(best)):\n            if np.random.random() > 0.05:\n"
        "                actions.append(best[i])\n            else:\n"
        "                actions.append(np.random.randint(0, 4))\n        return actions\n",
        "epsilon_greedy",
    ),
    "a field that takes its part of a tuple": (
        "class Agent:\n    def _both(self, obs):\n        dist = self.dist(obs)\n"
        "        return dist.probs.argmax(), dist.sample()\n\n    def act(self, obs):\n        out = {}\n"
        "        out['best'], out['action'] = self._both(obs)\n        return out['action']\n",
        "sampled",
    ),
    "noise that another branch would bring": (
        "import numpy as np\n\n\nclass Agent:\n    def act(self, obs, training=False):\n"
        "        if training:\n            noise = 0.1 * np.random.randn(2)\n        else:\n            noise = 0.0\n"
        "        return np.clip(self.actor(obs) + noise, -1, 1)\n",
        "greedy",
    ),
    "a temperature that a flag sets to zero": (
        "class Agent:\n    def act(self, obs, training=False):\n"
        "        if training:\n            temperature = 1.0\n        else:\n            temperature = 0.0\n"
        "        dist = self.actor(obs, temperature=temperature)\n        return dist.sample(seed=self.key)\n",
        "greedy",
    ),
    "a draw around the action at a fixed scale": (
        "import numpy as np\n\n\nclass Agent:\n    def act(self, obs):\n"
        "        mean = self.actor(obs)\n        return np.random.normal(mean, 0.1)\n",
        "noisy",
    ),
    "a draw around the action at the network's own scale": (
        "import numpy as np\n\n\nclass Agent:\n    def act(self, obs):\n"
        "        mean, std = self.actor(obs)\n        return np.random.normal(mean, std)\n",
        "sampled",
    ),
    "a branch that the call's own literal rules out": (
        "from torch.distributions import Normal\n\n\nclass Noisy:\n    def act(self, obs):\n"
        "        return Normal(self.mean(obs), 1.0).sample()\n\n\nclass Mean:\n    def __init__(self, policy):\n"
        "        self.policy = policy\n\n    def act(self, obs):\n        return self.policy.mean(obs).argmax()\n\n\n"
        "def produce(deterministic=False):\n    policy = Noisy()\n    if deterministic:\n"
        "        policy = Mean(policy)\n    return policy\n\n\ndef Agent():\n    return produce(deterministic=True)\n",
        "greedy",
    ),
}


@pytest.mark.parametrize("kind", SMALL)
def test_the_rule_of_small_programs(kind: str, tree: Path, tmp_path: Path) -> None:
    agent, rule = SMALL[kind]
    (tree / "agent.py").write_text(agent)
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert site["rule"] == rule


def test_a_step_through_a_helper_that_converts_the_action(tree: Path, tmp_path: Path) -> None:
    (tree / "evaluate.py").write_text(
        "import gym\nfrom agent import Agent\n\n\nclass Player:\n    def env_step(self, env, actions):\n"
        "        actions = self.to_numpy(actions)\n        return env.step(actions)\n\n    def run(self):\n"
        "        env, agent = gym.make('CartPole-v1'), Agent()\n        obs, done, total = env.reset(), False, 0.0\n"
        "        while not done:\n            action = agent.act(obs, deterministic=True)\n"
        "            obs, reward, done, _ = self.env_step(env, action)\n            total += reward\n"
        "        print('average return', total)\n\n\nPlayer().run()\n"
    )
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert (site["line"], site["rule"], site["provenance"]) == (14, "greedy", "explicit")


def test_a_script_called_like_a_unit_test(tree: Path, tmp_path: Path) -> None:
    """Nothing in a program calls a unit test; a function that the script calls measures."""
    source = EVALUATE.format(argument="")
    (tree / "evaluate.py").unlink()
    (tree / "test_agent.py").write_text(
        source.replace("def evaluate(", "def test_model(").replace("evaluate(", "test_model(")
    )
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert (site["file"], site["function"]) == ("test_agent.py", "test_model")


def test_a_guess_gives_what_the_call_takes_apart(tree: Path, tmp_path: Path) -> None:
    """The policy comes from nowhere; of the methods of that name one gives two things."""
    (tree / "agent.py").write_text(
        "class Heads:\n    def forward(self, obs):\n        return self.head(obs)\n\n\n"
        "class Model:\n    def forward(self, obs):\n        dist = self.dist(obs)\n"
        "        return dist.sample(), self.value(obs)\n"
    )
    (tree / "evaluate.py").write_text(
        "import gym\n\n\ndef evaluate(policy, env):\n    obs, done, total = env.reset(), False, 0.0\n"
        "    while not done:\n        action, value = policy.forward(obs)\n"
        "        obs, reward, done, _ = env.step(action)\n        total += reward\n    return total\n\n\n"
        "print('return', evaluate(None, gym.make('CartPole-v1')))\n"
    )
    (site,) = scanned(str(tree), tmp_path / "cache")["sites"]
    assert (site["rule"], site["sink"]["line"]) == ("sampled", 9)
