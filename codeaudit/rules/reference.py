"""CA4, the reference: what a return is held against."""

from __future__ import annotations

from collections.abc import Iterator

from codeaudit.evaluation.sites import Place
from codeaudit.rules.base import Hit, Rule, Subject, call_text, place

_EVALUATE = """\
import gym
import torch
from torch.distributions import Categorical


class Agent:
    def act(self, obs):
        return Categorical(logits=self.net(obs)).probs.argmax(-1)


def evaluate(policy, env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(policy.act(obs))
        total_reward += reward
    return total_reward

{floor}
print("test return", evaluate(Agent(), gym.make("CartPole-v1")))
"""
_FLOOR = """\
def evaluate_random(env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(env.action_space.sample())
        total_reward += reward
    return total_reward


print("random return", evaluate_random(gym.make("CartPole-v1")))
"""


class NoFloor(Rule):
    code = "CA401"
    name = "no-floor"
    message = "no return of a random policy is measured under the same harness"
    why = (
        "A return says nothing without the return of uniform random play on the same levels with the same "
        "accounting of episodes; an argmax policy can even fall below it. `codeaudit floor` measures it."
    )
    source = "https://arxiv.org/abs/1709.06009 (Machado et al., Revisiting the Arcade Learning Environment)"
    severity = "note"
    default = False  # true nearly everywhere, so it says little about one repository
    experiment = "above_floor"
    good = ({"main.py": _EVALUATE.format(floor=_FLOOR)},)
    bad = ({"main.py": _EVALUATE.format(floor="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        if any(s.agent == "random" or s.rule == "uniform_random" for s in subject.sites):
            return
        first = next((s for s in subject.measured), None)
        if first is not None:
            said = "this return is measured, and nowhere the return of random play under the same harness"
            yield Hit(Place(first.file, first.line), said, first.end_line)


class FixedNormalisation(Rule):
    code = "CA402"
    name = "fixed-normalisation-constants"
    message = "returns are normalised by constants from elsewhere"
    why = (
        "D4RL's normalised score divides by a random and an expert return that were measured once, with other "
        "versions and another harness. Report the raw return as well, and a floor of your own."
    )
    source = "https://arxiv.org/abs/2004.07219 (Fu et al., D4RL, section 5)"
    severity = "note"
    experiment = "above_floor"
    good = ({"main.py": "import d4rl\nimport gym\n\nenv = gym.make('hopper-medium-v2')\nprint(evaluate(env))\n"},)
    bad = (
        {
            "main.py": (
                "import d4rl\nimport gym\n\nenv = gym.make('hopper-medium-v2')\n"
                "print(env.get_normalized_score(evaluate(env)))\n"
            )
        },
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        seen: set[str] = set()
        for site in subject.calls("get_normalized_score"):
            if site.function.module.path not in seen:
                seen.add(site.function.module.path)
                said = f"`{call_text(site.call)}` divides by reference returns that this harness did not measure"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


RULES = (NoFloor, FixedNormalisation)
