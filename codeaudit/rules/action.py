"""CA1, the action rule: who chose it, and whether the code does what its names and options say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation.delegated import matching
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import Function, last_name
from codeaudit.program.libraries import Slot
from codeaudit.program.resolve import is_abstract
from codeaudit.rules.base import Edit, Hit, Rule, Subject, keyword, place, unpacks

_AGENT = """\
import gym
import torch
from torch.distributions import Categorical


class Agent(torch.nn.Module):
    def act(self, obs, deterministic=False):
        dist = Categorical(logits=self.net(obs))
        if deterministic:
            return dist.probs.argmax(dim=-1)
        return dist.sample()


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
EVALUATION_OPTION = re.compile(
    r"(^|_)(determin\w*|greedy|stochastic|argmax|eval\w*|test\w*|heldout|held_out|num_levels|start_level|seeds?|epsilon|eps)(_|$)",
    re.I,
)


class InheritedRule(Rule):
    code = "CA101"
    name = "inherited-action-rule"
    message = "nobody chose the action rule of this evaluation"
    why = (
        "The call passes nothing, so a default written elsewhere decides whether actions are sampled or greedy. The two can "
        "give returns that differ by more than the effect that is reported, and a change of the default changes every result."
    )
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al., Deep Reinforcement Learning that Matters)"
    fixable = "safe"
    experiment = "rule_matters"
    good = ({"main.py": _AGENT.format(passed=", deterministic=False")},)
    bad = ({"main.py": _AGENT.format(passed="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.measured:
            if site.provenance == "inherited_default" and site.default_site is not None:
                where = f"{site.default_site.file}:{site.default_site.line}"
                unset = "no caller sets it" if _is_own_default(subject, site) else "the call passes nothing"
                said = f"actions are {_words(site)} because of a default at {where}; {unset}"
                yield _at(site, said, _written_out(subject, site))


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
    good = ({"main.py": _AGENT.format(passed=", deterministic=True")},)
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
                yield _at(
                    site, f"this evaluation takes {_words(site)} actions by training's own call; nothing lets it choose"
                )


class LibraryRule(Rule):
    code = "CA103"
    name = "library-default-rule"
    message = "a library's default decides the action rule of this evaluation"
    why = (
        "Defaults of libraries differ (Stable-Baselines3: `predict` samples, `evaluate_policy` does not) and change with "
        "versions. Written out at the call, the rule survives both."
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
                    yield _at(site, said, edit)


class LibraryDefaultsDisagree(Rule):
    code = "CA104"
    name = "library-defaults-disagree"
    message = "two evaluations rely on library defaults that disagree"
    why = (
        "Stable-Baselines3's `predict` samples by default, `evaluate_policy` and `EvalCallback` do not: the curve of the "
        "callback and the final score then come from two policies."
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
                yield _at(site, f"sampled by default here, {_words(other)} by default at {other.file}:{other.line}")


class NameDisagrees(Rule):
    code = "CA105"
    name = "name-says-otherwise"
    message = "a name says one action rule and the code follows another"
    why = "Readers, and papers, quote the name. A harness can describe itself as deterministic while it samples at every step."
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al.: what is reported must be what was run)"
    severity = "error"
    experiment = "published_rule"
    _eval = _AGENT.replace("evaluate(", "evaluate_deterministic(")
    good = ({"main.py": _eval.format(passed=", deterministic=True")},)
    bad = ({"main.py": _eval.format(passed=", deterministic=False")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        says = re.compile(r"determin|greedy|argmax", re.I)
        denies = re.compile(r"(non|not|in)_?determin|epsilon|e_greedy|eps_greedy|egreedy", re.I)
        for site in subject.sites:
            name = site.function
            if says.search(name) and not denies.search(name) and site.rule == "sampled":
                yield _at(site, f"`{name}` says that actions are deterministic; they are sampled")
            elif re.search(r"stochastic", name, re.I) and site.rule == "greedy":
                yield _at(site, f"`{name}` says that actions are stochastic; they are greedy")


class RuleParameterUnread(Rule):
    code = "CA106"
    name = "rule-parameter-unread"
    message = "a function takes a parameter for the action rule and never reads it"
    why = "Every caller that passes `deterministic=True` believes that it has chosen the rule. It has not."
    source = "https://github.com/DLR-RM/stable-baselines3/issues (questions on `deterministic` that has no effect)"
    experiment = "published_rule"
    good = ({"main.py": _AGENT.format(passed=", deterministic=True")},)
    bad = (
        {
            "main.py": """
from torch.distributions import Categorical


class Agent:
    def act(self, obs, deterministic=False):
        return Categorical(logits=self.net(obs)).sample()
"""
        },
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        for function in subject.functions:
            for parameter in function.parameters:
                if parameter.kind or not RULE_PARAMETER.match(parameter.name):
                    continue
                if is_abstract(function) or _reads(function, parameter.name) or not _draws(function):
                    continue
                said = f"`{function.qualified}` takes `{parameter.name}` and never reads it; callers who pass it choose nothing"
                yield Hit(Place(function.module.path, parameter.line), said)


class OptionUnread(Rule):
    code = "CA107"
    name = "option-unread"
    message = "an option about evaluation or seeding is accepted and never read"
    why = "A command line in a paper's appendix that sets this option documents something that did not happen."
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al.: hyper-parameters as run)"
    good = (
        {
            "main.py": "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--eval_episodes', type=int)\n"
            "args = parser.parse_args()\nprint(args.eval_episodes)\n"
        },
    )
    bad = (
        {
            "main.py": "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--eval_episodes', type=int)\n"
            "parser.add_argument('--lr', type=float)\nargs = parser.parse_args()\nprint(args.lr)\n"
        },
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        read = _names_read(subject)
        for site in subject.calls("add_argument"):
            call = site.call
            texts = [a.value.value for a in call.args if not a.name and isinstance(a.value, t.Const)]
            texts = [x for x in texts if isinstance(x, str)]
            dest = keyword(call, "dest")
            action = keyword(call, "action")
            if (isinstance(action, t.Const) and action.value in ("help", "version")) or not texts:
                continue
            label = next((x for x in texts if x.startswith("--")), texts[0]).lstrip("-").replace("-", "_")
            if isinstance(dest, t.Const) and isinstance(dest.value, str):
                label = dest.value
            if not EVALUATION_OPTION.search(label) or label in read or _passed_whole(site.function, subject):
                continue
            said = f"the option `{texts[-1]}` is accepted and never read"
            yield Hit(place(site.function, call), said, call.end_line)


class LeftInTrainingMode(Rule):
    code = "CA108"
    name = "left-in-training-mode"
    message = "the network evaluates in training mode, with layers whose behaviour depends on it"
    why = (
        "Dropout and NoisyNet layers then act at random during the evaluation, and batch normalisation uses, and changes, "
        "statistics of the evaluated batch."
    )
    source = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval"
    experiment = "published_rule"
    _net = _AGENT.replace("agent = Agent()", "agent = Agent(){mode}").replace(
        "    def act(",
        "    def __init__(self):\n        self.net = torch.nn.Sequential(torch.nn.Dropout(0.1))\n\n    def act(",
    )
    good = ({"main.py": _net.format(passed=", deterministic=True", mode="\nagent.eval()")},)
    bad = ({"main.py": _net.format(passed=", deterministic=True", mode="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        if not subject.measured or any(
            _sets_evaluation_mode(e.call) for e in (*subject.calls("eval"), *subject.calls("train"))
        ):
            return
        for site in subject.calls("Dropout", "Dropout2d", "BatchNorm1d", "BatchNorm2d"):
            frame = Frame(site.function)
            if any(subject.audit.evaluator.holds(guard, frame)[0] is not True for guard in site.event.context.guards):
                continue  # an option that is off, or that can't be followed
            if subject.library(site.call.func, site.function).startswith("torch.nn."):
                layer = last_name(site.call.func)
                said = f"`{layer}` acts as in training during every evaluation: nothing calls `.eval()`"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _words(site: EvaluationSite) -> str:
    return {"epsilon_greedy": "epsilon-greedy", "uniform_random": "uniformly random"}.get(site.rule, site.rule)


def _at(site: EvaluationSite, message: str, edit: Edit | None = None) -> Hit:
    return Hit(Place(site.file, site.line), message, site.end_line, site.evidence, edit)


def _is_own_default(subject: Subject, site: EvaluationSite) -> bool:
    """Whether the deciding default is a parameter of the very function that evaluates."""
    default = site.default_site
    return default is not None and any(
        default.file == function.module.path and any(p.line == default.line for p in function.parameters)
        for function, _ in subject.events_at(site)
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
    """The parameter whose plain default stands on a line; where several do, the one that is named for the action rule."""
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


def _reads(function: Function, name: str) -> bool:
    return any(
        (isinstance(node, t.Name) and node.id in (name, "locals")) or (isinstance(node, t.Const) and node.value == name)
        for statement in function.node.body
        for node in t.walk(statement)
    )


def _draws(function: Function) -> bool:
    """Whether the function is about actions: it gives something back that is computed."""
    return any(e.value is not None and not isinstance(e.value, t.Const) for e in function.flow.returns)


def _names_read(subject: Subject) -> set[str]:
    """Every attribute, key and name that the program reads anywhere, strings included; declarations of options left out."""
    read: set[str] = set()
    for module in subject.audit.program.modules.values():
        declared: set[int] = set()
        for node in t.walk(module.file):
            if isinstance(node, t.Call) and last_name(node.func) == "add_argument":
                declared.update(id(part) for arg in node.args for part in t.walk(arg.value))
            elif id(node) in declared:
                continue
            elif isinstance(node, t.Attr):
                read.add(node.name)
            elif isinstance(node, t.Name):
                read.add(node.id)
            elif isinstance(node, t.Const) and isinstance(node.value, str) and len(node.value) < 80:
                read.add(node.value.replace("-", "_"))
            elif isinstance(node, t.Arg) and node.name:
                read.add(node.name)
            elif isinstance(node, t.Param):
                read.add(node.name)
    return read


def _passed_whole(function: Function, subject: Subject) -> bool:
    """Whether the parsed options travel as a whole (`vars(args)`, `**args`), so that any of them may be read by name."""
    for node in t.walk(function.module.file):
        if (isinstance(node, t.Call) and last_name(node.func) in ("vars", "asdict", "Namespace")) or (
            isinstance(node, t.Attr) and node.name == "__dict__"
        ):
            return True
    users = [m for m in subject.modules if any(name == function.module.parts[-1] for _, _, name in m.imports.values()) or
             any(source.rpartition(".")[2] == function.module.parts[-1] for source, _, _ in m.imports.values())]  # fmt: skip
    return any((isinstance(n, t.Call) and last_name(n.func) == "vars") or (isinstance(n, t.Attr) and n.name == "__dict__")
               for m in users for n in t.walk(m.file))  # fmt: skip


def _sets_evaluation_mode(call: t.Call) -> bool:
    if not isinstance(call.func, t.Attr):
        return False
    first = call.args[0].value if call.args else None
    if last_name(call.func) == "eval":
        return not call.args
    return (isinstance(first, t.Const) and first.value is False) or isinstance(first, t.Name)


RULES = (
    InheritedRule, TrainingSampler, LibraryRule, LibraryDefaultsDisagree, NameDisagrees, RuleParameterUnread, OptionUnread,
    LeftInTrainingMode,
)  # fmt: skip
