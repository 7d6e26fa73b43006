"""CA1, the action rule: whether the code does what its names, parameters, options and modes say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation import words
from codeaudit.evaluation.sites import Place
from codeaudit.facts import tree as t
from codeaudit.program.arguments import is_abstract
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name
from codeaudit.rules.action import AGENT, RULE_PARAMETER, at
from codeaudit.rules.base import Hit, Rule, Subject, keyword, place

EVALUATION_OPTION = re.compile(
    r"(^|_)(determin\w*|greedy|stochastic|argmax|eval\w*|test\w*|heldout|held_out|num_levels|start_level|seeds?|epsilon|eps)(_|$)",
    re.I,
)


class NameDisagrees(Rule):
    code = "CA105"
    name = "name-says-otherwise"
    message = "a name says one action rule and the code follows another"
    why = (
        "Readers, and papers, quote the name. A harness can describe itself as deterministic while it samples at "
        "every step."
    )
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al.: what is reported must be what was run)"
    severity = "error"
    experiment = "published_rule"
    _eval = AGENT.replace("evaluate(", "evaluate_deterministic(")
    good = ({"main.py": _eval.format(passed=", deterministic=True")},)
    bad = ({"main.py": _eval.format(passed=", deterministic=False")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        says = re.compile(r"determin|greedy|argmax", re.I)
        denies = re.compile(r"(non|not|in)_?determin|epsilon|e_greedy|eps_greedy|egreedy", re.I)
        for site in subject.sites:
            name = site.function
            if says.search(name) and not denies.search(name) and site.rule == "sampled":
                yield at(site, f"`{name}` says that actions are deterministic; they are sampled")
            elif re.search(r"stochastic", name, re.I) and site.rule == "greedy":
                yield at(site, f"`{name}` says that actions are stochastic; they are greedy")


class RuleParameterUnread(Rule):
    code = "CA106"
    name = "rule-parameter-unread"
    message = "a function takes a parameter for the action rule and never reads it"
    why = "Every caller that passes `deterministic=True` believes that it has chosen the rule. It has not."
    source = "https://github.com/DLR-RM/stable-baselines3/issues (questions on `deterministic` that has no effect)"
    experiment = "published_rule"
    good = ({"main.py": AGENT.format(passed=", deterministic=True")},)
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
                if is_abstract(function) or _reads(function, parameter.name):
                    continue
                if function.owner is not None and not _samples(function):
                    continue  # a greedy policy that keeps to an interface
                said = f"`{function.qualified}` takes `{parameter.name}` and never reads it: passing it chooses nothing"
                yield Hit(Place(function.module.path, parameter.line), said)


class OptionUnread(Rule):
    code = "CA107"
    name = "option-unread"
    message = "an option about evaluation or seeding is accepted and never read"
    why = "A command line in a paper's appendix that sets this option documents something that did not happen."
    source = "https://arxiv.org/abs/1709.06560 (Henderson et al.: hyper-parameters as run)"
    good = (
        {
            "main.py": (
                "import argparse\n\nparser = argparse.ArgumentParser()\n"
                "parser.add_argument('--eval_episodes', type=int)\nargs = parser.parse_args()\n"
                "print(args.eval_episodes)\n"
            )
        },
    )
    bad = (
        {
            "main.py": (
                "import argparse\n\nparser = argparse.ArgumentParser()\n"
                "parser.add_argument('--eval_episodes', type=int)\nparser.add_argument('--lr', type=float)\n"
                "args = parser.parse_args()\nprint(args.lr)\n"
            )
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
        "Dropout and NoisyNet layers then act at random during the evaluation, and batch normalisation uses, and "
        "changes, statistics of the evaluated batch."
    )
    source = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval"
    experiment = "published_rule"
    _net = AGENT.replace("agent = Agent()", "agent = Agent(){mode}").replace(
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


def _reads(function: Function, name: str) -> bool:
    return any(
        (isinstance(node, t.Name) and node.id in (name, "locals")) or (isinstance(node, t.Const) and node.value == name)
        for statement in function.node.body
        for node in t.walk(statement)
    )


def _samples(function: Function) -> bool:
    return any(last_name(event.call.func) in words.SAMPLES for event in function.flow.calls)


def _names_read(subject: Subject) -> set[str]:
    """Every attribute, key and name that the program reads anywhere, strings included; declarations of options left
    out.
    """
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
    """Whether the parsed options travel as a whole (`vars(args)`, `**args`), so that any of them may be read by
    name.
    """
    for node in t.walk(function.module.file):
        if (isinstance(node, t.Call) and last_name(node.func) in ("vars", "asdict", "Namespace")) or (
            isinstance(node, t.Attr) and node.name == "__dict__"
        ):
            return True
    users = [
        m
        for m in subject.modules
        if any(name == function.module.parts[-1] for _, _, name in m.imports.values())
        or any(source.rpartition(".")[2] == function.module.parts[-1] for source, _, _ in m.imports.values())
    ]
    return any(
        (isinstance(n, t.Call) and last_name(n.func) == "vars") or (isinstance(n, t.Attr) and n.name == "__dict__")
        for m in users
        for n in t.walk(m.file)
    )


def _sets_evaluation_mode(call: t.Call) -> bool:
    if not isinstance(call.func, t.Attr):
        return False
    first = call.args[0].value if call.args else None
    if last_name(call.func) == "eval":
        return not call.args
    return (isinstance(first, t.Const) and first.value is False) or isinstance(first, t.Name)


RULES = (NameDisagrees, RuleParameterUnread, OptionUnread, LeftInTrainingMode)
