"""CA1, the action rule: who chose it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation.delegated import matching
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import Function, last_name
from codeaudit.program.libraries import Slot
from codeaudit.rules.base import Edit, Hit, Rule, Subject, keyword, unpacks

AGENT_CLASS = """\
import gym
import torch
from torch.distributions import Categorical


class Agent(torch.nn.Module):
    def act(self, obs, deterministic=False):
        dist = Categorical(logits=self.net(obs))
        if deterministic:
            return dist.probs.argmax(dim=-1)
        return dist.sample()

"""
AGENT = (
    AGENT_CLASS
    + """
def evaluate(agent, env, episodes=10):
    returns = []
    for _ in range(episodes):
        obs, done, total_reward = env.reset(), False, 0.0
        while not done:
            action = agent.act(obs{passed})
            obs, reward, done, info = env.step(action)
            total_reward += reward
        returns.append(total_reward)
    return sum(returns) / len(returns)


agent = Agent()
print(evaluate(agent, gym.make("CartPole-v1")))
"""
)
_SB3 = """
import gymnasium as gym
from stable_baselines3 import PPO
{imports}
env = gym.make("CartPole-v1")
model = PPO("MlpPolicy", env).learn(10_000)
{extra}
obs, _ = env.reset()
done, total_reward = False, 0.0
while not done:
    action, _ = model.predict(obs{passed})
    obs, reward, terminated, truncated, _ = env.step(action)
    done = terminated or truncated
    total_reward += reward
print("test return", total_reward)
"""
RULE_PARAMETER = re.compile(
    r"^(is_)?(deterministic|greedy|stochastic|argmax|eval_mode|is_eval|explore|use_mode|evaluation_mode|sample_action)$"
)


class InheritedRule(Rule):
    code = "CA101"
    name = "inherited-action-rule"
    message = "nobody chose the action rule of this evaluation"
    why = (
        "The call passes nothing, so a default written elsewhere decides whether actions are sampled or greedy. "
        "The two can give returns that differ by more than the effect that is reported, and a change of the "
        "default changes every result."
    )
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al., Deep Reinforcement Learning that Matters)"
    fixable = "safe"
    experiment = "rule_matters"
    good = ({"main.py": AGENT.format(passed=", deterministic=False")},)
    bad = ({"main.py": AGENT.format(passed="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.measured:
            if site.provenance == "inherited_default" and site.default_site is not None:
                where = f"{site.default_site.file}:{site.default_site.line}"
                unset = "the call passes nothing" if _leaves_default(subject, site) else "no caller sets it"
                said = f"actions are {_words(site)} because of a default at {where}; {unset}"
                yield at(site, said, _written_out(subject, site))


class TrainingSampler(Rule):
    code = "CA102"
    name = "training-sampler-reused"
    message = "the evaluation takes over training's own exploration"
    why = (
        "The test return then measures the exploring policy, whatever a reader assumes, and no option says so. "
        "Give the evaluation a parameter that states the rule."
    )
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al.: evaluation protocols must be stated)"
    experiment = "rule_matters"
    good = ({"main.py": AGENT.format(passed=", deterministic=True")},)
    bad = (
        {
            "main.py": """
import gym
import torch
from torch.distributions import Categorical


class Agent(torch.nn.Module):
    def act(self, obs):
        return Categorical(logits=self.net(obs)).sample()


def train(agent, env, buffer, optimizer):
    obs = env.reset()
    for step in range(1000):
        action = agent.act(obs)
        next_obs, reward, done, info = env.step(action)
        buffer.add(obs, action, reward, done)
        obs = next_obs
        optimizer.step()


def evaluate(agent, test_env):
    obs, done, total_reward = test_env.reset(), False, 0.0
    while not done:
        obs, reward, done, info = test_env.step(agent.act(obs))
        total_reward += reward
    return total_reward


agent = Agent()
train(agent, gym.make("CartPole-v1"), [], None)
print(evaluate(agent, gym.make("CartPole-v1")))
"""
        },
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.measured:
            if (
                site.provenance == "training_sampler"
                and site.rule in ("sampled", "noisy")
                and site.procedure != "in_loop"
            ):
                yield at(
                    site, f"this evaluation takes {_words(site)} actions by training's own call; nothing lets it choose"
                )


class LibraryRule(Rule):
    code = "CA103"
    name = "library-default-rule"
    message = "a library's default decides the action rule of this evaluation"
    why = (
        "Defaults of libraries differ (Stable-Baselines3: `predict` samples, `evaluate_policy` does not) and "
        "change with versions. Written out at the call, the rule survives both."
    )
    source = "https://stable-baselines3.readthedocs.io/en/v2.7.0/modules/base.html"
    fixable = "safe"
    experiment = "rule_matters"
    good = ({"main.py": _SB3.format(imports="", extra="", passed=", deterministic=False")},)
    bad = ({"main.py": _SB3.format(imports="", extra="", passed="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.measured:
            if site.provenance == "framework_default":
                edit = _library_written_out(subject, site)
                if edit is not None:
                    said = f"`{edit.keyword}` is left to the library, whose default makes the actions {_words(site)}"
                    yield at(site, said, edit)


class LibraryDefaultsDisagree(Rule):
    code = "CA104"
    name = "library-defaults-disagree"
    message = "two evaluations rely on library defaults that disagree"
    why = (
        "Stable-Baselines3's `predict` samples by default, `evaluate_policy` and `EvalCallback` do not: the "
        "curve of the callback and the final score then come from two policies."
    )
    source = "https://stable-baselines3.readthedocs.io/en/v2.7.0/common/evaluation.html"
    experiment = "rule_matters"
    _both = "from stable_baselines3.common.evaluation import evaluate_policy\n"
    good = (
        {
            "main.py": _SB3.format(
                imports=_both, extra="print(evaluate_policy(model, env))", passed=", deterministic=True"
            )
        },
    )
    bad = ({"main.py": _SB3.format(imports=_both, extra="print(evaluate_policy(model, env))", passed="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        left = [s for s in subject.measured if s.provenance == "framework_default" and _library_written_out(subject, s)]
        for site in left:
            other = next((s for s in left if s.rule != site.rule), None)
            if site.rule == "sampled" and other is not None:
                yield at(site, f"sampled by default here, {_words(other)} by default at {other.file}:{other.line}")


# --- helpers ---------------------------------------------------------------------------------------------------------


def _words(site: EvaluationSite) -> str:
    return {"epsilon_greedy": "epsilon-greedy", "uniform_random": "uniformly random"}.get(site.rule, site.rule)


def at(site: EvaluationSite, message: str, edit: Edit | None = None) -> Hit:
    return Hit(Place(site.file, site.line), message, site.end_line, site.evidence, edit)


def _leaves_default(subject: Subject, site: EvaluationSite) -> bool:
    """Whether the site's own call could pass the deciding parameter; else a caller further up could."""
    default = site.default_site
    return default is not None and any(
        isinstance(value, FunctionValue)
        and value.function.module.path == default.file
        and any(p.line == default.line for p in value.function.parameters)
        for function, event in subject.events_at(site)
        for value in subject.audit.resolver.targets(event.call, Frame(function))
    )


def _written_out(subject: Subject, site: EvaluationSite) -> Edit | None:
    """The deciding default as a keyword of the call, where the call itself could pass it."""
    default = site.default_site
    for function, event in subject.events_at(site) if default is not None else ():
        call = event.call
        for value in subject.audit.resolver.targets(call, Frame(function)) if not unpacks(call) else ():
            if isinstance(value, FunctionValue) and default is not None and value.function.module.path == default.file:
                parameter = _parameter_at(value.function, default.line)
                if parameter is None or keyword(call, parameter.name) is not None:
                    continue
                if value.function.parameters.index(parameter) >= sum(1 for a in call.args if not a.name):
                    text = repr(parameter.default.value) if isinstance(parameter.default, t.Const) else ""
                    name = last_name(call.func)
                    return Edit("add_keyword", site.file, call.line, name, parameter.name, text, safe=True)
    return None


def _parameter_at(function: Function, line: int) -> t.Param | None:
    """The parameter whose plain default stands on a line; where several do, the one that is named for the action
    rule.
    """
    found = [p for p in function.parameters if p.line == line and p.kind in ("", "kw")]
    if len(found) > 1:
        found = [p for p in found if RULE_PARAMETER.match(p.name)]
    if len(found) != 1 or not isinstance(found[0].default, t.Const):
        return None
    return found[0] if isinstance(found[0].default.value, (bool, int, float, str)) else None


def _library_written_out(subject: Subject, site: EvaluationSite) -> Edit | None:
    for function, event in subject.events_at(site):
        call = event.call
        known = subject.audit.libraries.by_name.get(last_name(call.func), [])
        model = matching(subject.audit, call, function)
        if model is None:
            model = next((m for m in known if m.kind == "action" and set(subject.imported) & set(m.packages)), None)
        if model is None or model.parameter is None or unpacks(call) or _passes(call, model.parameter):
            continue
        if isinstance(model.parameter.default, bool):
            name, value = model.parameter.name, repr(model.parameter.default)
            return Edit("add_keyword", site.file, call.line, last_name(call.func), name, value, safe=True)
    return None


def _passes(call: t.Call, slot: Slot) -> bool:
    """Whether a call passes a parameter of a library's function, by name or by position."""
    given = sum(1 for a in call.args if not a.name)
    return keyword(call, slot.name) is not None or (slot.position is not None and slot.position < given)


RULES = (InheritedRule, TrainingSampler, LibraryRule, LibraryDefaultsDisagree)
