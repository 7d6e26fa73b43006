"""Small questions about the shape of a call, a definition or a class. No values, no frames to follow."""

from __future__ import annotations

from codeaudit.evaluation import words
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent, Context, Definition
from codeaudit.program.frames import Frame, Library
from codeaudit.program.index import ClassInfo, Function, last_name


def arity(call: t.Call, function: Function) -> int | None:
    """Into how many names the call's result is taken apart, where the code says."""
    for definitions in function.flow.definitions.values():
        for d in definitions:
            if d.value is call and d.selector and isinstance(d.statement, t.Assign):
                for target in d.statement.targets:
                    if isinstance(target, t.Seq) and not any(isinstance(i, t.Star) for i in target.items):
                        return len(target.items)
    return None


def is_called(function: Function, name: str) -> bool:
    """Whether a method's class, or a base of it, is called what the code calls the object: `policy`, `ActorPolicy`."""
    word = name.strip("_").lower().replace("_", "")
    if function.owner is None or len(word) < 4 or word == "agent":  # anything that acts may be called an agent
        return False
    names = [function.owner.name, *(last_name(base) for base in function.owner.node.bases)]
    return any(word in n.lower() for n in names)


def gives(function: Function, count: int) -> bool:
    """Whether a function has a return that is written out as so many things."""
    return any(isinstance(e.value, t.Seq) and len(e.value.items) == count for e in function.flow.returns)


def begins_as_parameter(name: str, definitions: list[Definition], frame: Frame, use: Context | None) -> bool:
    """A parameter that is bound again only after this use (`x = tanh(x)` reads the parameter)."""
    if use is None or frame.function.parameter(name) is None:
        return False
    return not use.loops and not any(d.context.order < use.order for d in definitions)


def is_object_call(node: t.Call, library: Library) -> bool:
    """Calling an object of a library's class (`self.net(x)` with `self.net = Sequential(…)`), not one of its
    methods."""
    made = last_name(library.call.func) if library.call is not None else ""
    return library.name.rpartition(".")[2] == made and made[:1].isupper()


def is_own_method(method: Library) -> bool:
    """Whether it is a method of an object that a library's class made (`Sequential(…).predict`): not of something that
    was loaded, nor of what such an object holds."""
    made = last_name(method.call.func) if method.call is not None else ""
    return made[:1].isupper() and method.name.split(".")[-2:-1] == [made]


def centred(node: t.Call, name: str) -> tuple[t.Node, t.Node] | None:
    """Mean and scale of a random draw around a mean: `np.random.normal(mu, std)`."""
    if name not in ("normal", "gauss", "normalvariate", "truncated_normal", "laplace"):
        return None
    named = {a.name: a.value for a in node.args if a.name}
    positional = [a.value for a in node.args if not a.name]
    if positional and isinstance(positional[0], (t.Seq, t.Const)):
        positional = positional[1:]  # TensorFlow's come after the shape; around a constant there is no action
    mean = next((named[n] for n in ("loc", "mean", "mu") if n in named), positional[0] if positional else None)
    scale = next(
        (named[n] for n in ("scale", "std", "stddev", "sigma") if n in named),
        positional[1] if len(positional) > 1 else None,
    )
    return (mean, scale) if mean is not None and scale is not None else None


def common_prefix(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def is_environment(function: Function) -> bool:
    """A method of a class that is an environment: by its name or its bases, or by the spaces that it sets."""
    owner = function.owner
    if owner is None or not ("step" in owner.methods and ("reset" in owner.methods or "step_wait" in owner.methods)):
        return owner is not None and owner.name.endswith(("Env", "Wrapper", "VecEnv"))
    names = [owner.name, *(last_name(base) for base in owner.node.bases)]
    if any(word in name for name in names for word in ("Env", "Wrapper", "Monitor", "Vec")):
        return True
    return sets_spaces(owner)


def sets_spaces(info: ClassInfo) -> bool:
    spaces = ("self.action_space", "self.observation_space")
    as_property = "action_space" in info.methods and "observation_space" in info.methods
    return as_property or any(name in m.flow.definitions for m in info.methods.values() for name in spaces)


def step_pays(info: ClassInfo) -> bool:
    """Whether `step` gives back a reward among other things, as an agent's doesn't."""
    step = info.methods.get("step")
    if step is None or "reset" not in info.methods:
        return False
    return any(
        isinstance(e.value, t.Seq)
        and len(e.value.items) >= 3
        and any(
            words.REWARD.search(last_name(p))
            for i in e.value.items
            for p in t.walk(i)
            if isinstance(p, (t.Name, t.Attr))
        )
        for e in step.flow.returns
    )


def one_of(node: t.Node, function: Function) -> t.Node:
    """What a local name is one of: `e` in `for e, a in zip(self.envs, actions)`."""
    definitions = function.flow.definitions.get(node.id, []) if isinstance(node, t.Name) else []
    if len(definitions) != 1 or definitions[0].kind != "loop":
        return node
    over, selector = definitions[0].value, [s for s in definitions[0].selector if s != "*"]
    if isinstance(over, t.Call) and last_name(over.func) in ("zip", "enumerate") and selector:
        at = selector[0] if last_name(over.func) == "zip" else 0
        return over.args[at].value if isinstance(at, int) and at < len(over.args) else node
    return over


def root_name(node: t.Node) -> str:
    """The name that an expression such as `self.venvs[i]` begins with."""
    while isinstance(node, (t.Attr, t.Sub)):
        node = node.obj
    return node.id if isinstance(node, t.Name) else ""


def method_of(function: Function) -> Function:
    """The method that a nested function stands in; the function itself where it stands in none."""
    while function.owner is None and function.outer is not None:
        function = function.outer
    return function


def pays(function: Function, event: CallEvent) -> bool:
    """Whether what comes back is taken apart into a reward and an end, among others."""
    names = [
        name
        for name, definitions in function.flow.definitions.items()
        for d in definitions
        if d.statement is event.statement and d.kind == "assign" and d.value is event.call
    ]
    if len(names) == 1:  # `state = step(state, action)`, whose `state.reward` is read
        return any(
            isinstance(p, t.Attr) and p.name == "reward" and t.dotted(p.obj) == names[0]
            for statement in function.node.body
            for p in t.walk(statement)
        )
    ends = any("done" in n or "term" in n for n in names)
    return len(names) >= 3 and ends and any(words.REWARD.search(n) for n in names)


def bound(function: Function, event: CallEvent) -> tuple[str, ...]:
    """The local names that a statement binds."""
    return tuple(
        name
        for name, definitions in function.flow.definitions.items()
        for d in definitions
        if d.statement is event.statement and d.kind == "assign"
    )


def plays(function: Function) -> bool:
    """A method of an environment that is given a policy to play itself with."""
    said = words.says_evaluation(function.name) or words.DEMO.search(function.name)
    return bool(said) and any(p.name in ("policy", "agent", "model", "actor", "pi") for p in function.parameters)
