"""CA8, checkpoints and configuration that execute code when they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.facts import tree as t
from codeaudit.program.index import Function
from codeaudit.rules.base import Edit, Hit, Rule, Subject, call_text, keyword, place, positional, setups, unpacks

CHECKPOINT = re.compile(
    r"(^|[_./])(policy|models?|check_?points?|ckpt|weights|actor|critic|(obs_|ret_)?rms|normali[sz]\w*|vec_?norm\w*|"
    r"running_(mean|stat)\w*|(loaded|model|net)_params)([_./]|$)",
    re.I,
)


class UnsafeTorchLoad(Rule):
    code = "CA801"
    name = "torch-load-executes"
    message = "`torch.load` may execute code from the checkpoint"
    why = (
        "A checkpoint is a pickle, and a pickle is a program. Whoever checks a published result has to run it. "
        "`weights_only=True` reads tensors and plain data; before PyTorch 2.6 it is off by default."
    )
    source = "https://docs.pytorch.org/docs/stable/generated/torch.load.html"
    fixable = "unsafe"
    good = ({"main.py": "import torch\n\nweights = torch.load('a.pt', weights_only=True)\n"},)
    bad = (
        {"main.py": "import torch\n\nagent = torch.load('agent.pt')\n"},
        {"main.py": "import torch as th\n\nagent = th.load('agent.pt', weights_only=False)\n"},
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("load"):
            if subject.library(site.call.func, site.function) != "torch.load" or unpacks(site.call):
                continue
            given = keyword(site.call, "weights_only")
            if given is not None and not (isinstance(given, t.Const) and given.value is False):
                continue
            edit = None
            if given is None:
                edit = Edit(
                    "add_keyword", site.function.module.path, site.call.line, "load", "weights_only", "True", safe=False
                )
            said = f"`{call_text(site.call)}` unpickles: " + (
                "`weights_only=False`" if given is not None else "no `weights_only=True`"
            )
            yield Hit(place(site.function, site.call), said, site.call.end_line, edit=edit)


class UnpickledState(Rule):
    code = "CA802"
    name = "unpickled-evaluation-state"
    message = "a policy, or what it is evaluated with, is read from a pickle"
    why = (
        "To re-execute the evaluation somebody has to run whatever the file says. It also breaks with every "
        "renamed class. Store tensors and numbers (safetensors, npz, JSON)."
    )
    source = "https://docs.python.org/3/library/pickle.html (warning at its head)"
    good = ({"main.py": "import numpy as np\n\nstats = np.load('obs_rms.npz')\n"},)
    bad = ({"main.py": "import pickle\n\nwith open('obs_rms.pkl', 'rb') as file:\n    obs_rms = pickle.load(file)\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        loaders = re.compile(r"^(pickle|cloudpickle|dill|joblib|_pickle|cPickle)\.load$")
        for site in subject.calls("load"):
            name = subject.library(site.call.func, site.function)
            if loaders.match(name) and any(
                CHECKPOINT.search(x) for x in _names_around(site.call, site.event.statement, site.function)
            ):
                said = f"`{call_text(site.call)}` executes the file that part of the evaluation is read from"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


class EvaluatedConfiguration(Rule):
    code = "CA803"
    name = "evaluated-configuration"
    message = "`eval()` runs text from an option or a file"
    why = (
        "A configuration is then a program: it can't be read as data, compared, or trusted. Use "
        "`ast.literal_eval` or a table of names."
    )
    source = "https://docs.python.org/3/library/functions.html#eval"
    good = ({"main.py": "import ast\n\nkwargs = ast.literal_eval(text)\n"}, {"main.py": "net.eval()\n"})
    bad = ({"main.py": "import argparse\n\nargs = argparse.ArgumentParser().parse_args()\nalgo = eval(args.algo)\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("eval", "exec"):
            func = site.call.func
            given = positional(site.call)
            if setups(site.function.module.path):
                continue
            if (
                isinstance(func, t.Name)
                and given
                and not isinstance(given[0], t.Const)
                and not subject.audit.resolver.lookup_global(func.id, site.function.module)
            ):
                if func.id in site.function.flow.definitions or site.function.parameter(func.id) is not None:
                    continue
                said = f"`{func.id}()` executes text that isn't written in the code"
                yield Hit(place(site.function, site.call), said, site.call.end_line)


def _names_around(call: t.Call, statement: t.Node, function: Function) -> list[str]:
    """What the loaded thing and its file are called: targets, arguments, the `open(…)` behind a file object."""
    found: list[str] = []
    nodes: list[t.Node] = [arg.value for arg in call.args]
    if isinstance(statement, t.Assign):
        nodes += statement.targets
    for node in list(nodes):
        for part in t.walk(node):
            if isinstance(part, t.Name):
                for d in function.flow.definitions.get(part.id, ()):
                    if d.kind in ("with", "assign") and isinstance(d.value, t.Call) and d.value is not call:
                        nodes.append(d.value)
    for node in nodes:
        for part in t.walk(node):
            if isinstance(part, t.Name):
                found.append(part.id)
            elif isinstance(part, t.Attr):
                found.append(part.name)
            elif isinstance(part, t.Const) and isinstance(part.value, str):
                found.append(part.value)
    return [x for x in found if x != "self"]


RULES = (UnsafeTorchLoad, UnpickledState, EvaluatedConfiguration)
