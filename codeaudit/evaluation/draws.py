"""Where an action is really produced: an action's value followed back to the draw, through calls, branches and objects.

Each draw comes with the decisions on the way: the conditions that led to it and whose choice each was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from codeaudit.evaluation import words
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Definition, Guard, Selector
from codeaudit.program.frames import Frame, FunctionValue, Instance, LambdaValue, Library, Value
from codeaudit.program.index import Function, last_name
from codeaudit.program.libraries import Libraries
from codeaudit.program.resolve import Resolver, accepts, is_abstract, reaching
from codeaudit.program.values import Evaluator, Known, Origin

MAX_DEPTH = 16
MAX_DRAWS = 24


@dataclass(frozen=True)
class Decision:
    """A condition or an amount that shaped the draw, and who decided it."""

    file: str
    line: int
    origin: Origin
    what: str
    test: int = 0  # the identity of the condition; 0 for an amount (a scale, an epsilon), which always matters


@dataclass(frozen=True)
class Draw:
    """One way in which the action may be produced."""

    rule: str  # sampled, greedy, uniform_random, noisy, network (an output with nothing drawn), unknown
    file: str
    line: int
    function: Function
    decisions: tuple[Decision, ...] = ()
    epsilon: Known | None = None
    epsilon_test: tuple[str, int] | None = None
    chance: str = ""  # "random" on the branch that an epsilon test takes, "other" on the other one
    value_based: bool = False
    path: tuple[tuple[str, int, str], ...] = ()  # calls entered on the way
    owner: str = ""  # the class whose policy it is
    sure: bool = True
    squashed: bool = False
    dispatch: str = ""  # the name of the agent that a branch is for, as the code compares it
    doubt: int = 0  # undecided conditions on the way
    why: str = ""
    guards: frozenset[tuple[int, bool]] = field(default=frozenset(), repr=False)  # conditions on the way, decided or not
    through: frozenset[int] = field(default=frozenset(), repr=False)  # ids of the functions entered


class Tracer:
    def __init__(self, resolver: Resolver, evaluator: Evaluator, libraries: Libraries) -> None:
        self.resolver = resolver
        self.evaluator = evaluator
        self.libraries = libraries
        self.program = resolver.program
        self.unpruned = False

    # --- entry ------------------------------------------------------------------------------------------------------

    def draws(self, node: t.Node, frame: Frame, use: Context | None, selector: Selector = ()) -> list[Draw]:
        """All ways in which an expression's value may be drawn."""
        self._seen: set[tuple[int, ...]] = set()
        self._budget = 6000
        return self._merge(self._trace(node, selector, frame, use, 0))

    def alternatives(self, node: t.Node, frame: Frame, use: Context | None, selector: Selector = ()) -> list[Draw]:
        """The draws with every condition left open: what would be possible under other options."""
        self.unpruned = True
        try:
            return self.draws(node, frame, use, selector)
        finally:
            self.unpruned = False

    # --- following a value ------------------------------------------------------------------------------------------

    def _trace(self, node: t.Node, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        self._budget -= 1
        if depth > MAX_DEPTH or self._budget < 0:
            return []
        key = (id(node), hash(selector), *frame.key)
        if key in self._seen:
            return []
        self._seen.add(key)
        try:
            return self._follow(node, tuple(s for s in selector if s != "*"), frame, use, depth)[:MAX_DRAWS]
        finally:
            self._seen.discard(key)

    def _follow(self, node: t.Node, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        if isinstance(node, t.Name):
            return self._name(node, selector, frame, use, depth)
        if isinstance(node, t.Call):
            return self._call(node, selector, frame, use, depth)
        if isinstance(node, t.Seq):
            if selector and isinstance(selector[0], int):
                if -len(node.items) <= selector[0] < len(node.items):
                    return self._trace(node.items[selector[0]], selector[1:], frame, use, depth + 1)
                return []
            return [d for item in node.items[:8] for d in self._trace(item, selector, frame, use, depth + 1)]
        if isinstance(node, t.Map):
            for k, value in node.items:
                if selector and isinstance(k, t.Const) and k.value == selector[0]:
                    return self._trace(value, selector[1:], frame, use, depth + 1)
            actions = [v for k, v in node.items if isinstance(k, t.Const) and "act" in str(k.value).lower()]
            return [d for value in actions for d in self._trace(value, (), frame, use, depth + 1)]
        if isinstance(node, t.Sub):
            step = node.index.value if isinstance(node.index, t.Const) else "*"
            step = step if isinstance(step, (int, str)) else "*"
            return self._trace(node.obj, (step, *selector), frame, use, depth + 1)
        if isinstance(node, t.Attr):
            return self._attribute(node, selector, frame, use, depth)
        if isinstance(node, t.Cond):
            return self._choose(node.test, node.body, node.orelse, selector, frame, use, depth)
        if isinstance(node, t.Op):
            return self._operation(node, selector, frame, use, depth)
        if isinstance(node, t.Unary):
            return self._trace(node.value, selector, frame, use, depth + 1)
        if isinstance(node, t.Comp):
            return self._trace(node.element, selector, frame, use, depth + 1)
        if isinstance(node, t.Star):
            return self._trace(node.value, selector, frame, use, depth + 1)
        if isinstance(node, t.Bool):
            found = self._trace(node.right, selector, frame, use, depth + 1)
            return found or self._trace(node.left, selector, frame, use, depth + 1)
        if isinstance(node, t.Yield) and node.value is not None:
            return self._trace(node.value, selector, frame, use, depth + 1)
        if isinstance(node, t.Other) and len(node.parts) == 2 and isinstance(node.parts[0], t.Assign):
            return self._trace(node.parts[1], selector, frame, use, depth + 1)
        return []

    def _name(self, node: t.Name, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        found = self.resolver.definitions(node.id, frame)
        if found is not None and not begins_as_parameter(node.id, found[0], frame, use):
            definitions, where = found
            draws = self._definitions(definitions, selector, where, use if where is frame else None, depth)
            if draws or frame.function.parameter(node.id) is None:
                return draws
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            if function.parameter(node.id) is not None:
                argument = self.resolver.argument(node.id, current)
                if argument is not None:
                    return self._trace(argument[0], selector, argument[1], None, depth + 1)
                return []
            function = function.outer
            current = current.closure or (Frame(function) if function else None)
        definitions = frame.function.module.body.flow.definitions.get(node.id, [])
        return self._definitions(definitions, selector, Frame(frame.function.module.body), None, depth) if definitions else []

    def _definitions(
        self, definitions: list[Definition], selector: Selector, frame: Frame, use: Context | None, depth: int
    ) -> list[Draw]:
        draws: list[Draw] = []
        for d, extra in reaching(definitions, use, lambda guard: self._feasible(guard, frame)):
            if d.kind == "augment":
                more = self._trace(d.value, selector, frame, d.context, depth + 1)
                if any(x.rule == "noisy" or x.decisions for x in more):
                    return draws + [self._decided(x, extra, frame) for x in more]
                continue
            more = self._trace(d.value, (*d.selector, *selector), frame, d.context, depth + 1)
            draws.extend(self._decided(x, extra, frame) for x in more)
        return draws

    def _attribute(self, node: t.Attr, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        if node.name in ("mode", "mean") and self._is_distribution(node.obj, frame):
            return [self._draw("greedy", node, frame)]
        dotted = t.dotted(node)
        if dotted:
            found = self.resolver.definitions(dotted, frame)
            if found is not None:
                draws = self._definitions(found[0], selector, found[1], use if found[1] is frame else None, depth)
                if draws:
                    return draws
        draws = []
        for owner in self.resolver.types(node.obj, frame):
            if isinstance(owner, Instance):
                for expression, step, where in self.resolver.attribute_definitions(owner, node.name):
                    draws.extend(self._trace(expression, (*step, *selector), where, None, depth + 1))
                method = self.resolver.method(owner.info, node.name)
                if method is not None and method.is_property:
                    draws.extend(self._returns(method, selector, Frame(method, receiver=owner), depth + 1))
        if draws:
            return draws
        # A field of a result: `output.action`, `agent_output.actions`.
        return self._trace(node.obj, (node.name, *selector), frame, use, depth + 1)

    # --- choices ----------------------------------------------------------------------------------------------------

    def _choose(
        self, test: t.Node, body: t.Node, orelse: t.Node, selector: Selector, frame: Frame, use: Context | None, depth: int
    ) -> list[Draw]:
        draws: list[Draw] = []
        for branch, held in ((body, True), (orelse, False)):
            guard = (test, held)
            if self._feasible(guard, frame) is False:
                continue
            for d in self._trace(branch, selector, frame, use, depth + 1):
                draws.append(self._decided(d, (guard,), frame))
        return draws

    def _feasible(self, guard: Guard, frame: Frame) -> bool | None:
        if self.unpruned:
            return None
        if dispatch_word(guard[0]):
            return None  # one line may serve several agents: each is looked at
        return self.evaluator.holds(guard, frame)[0]

    def _decided(self, draw: Draw, guards: tuple[Guard, ...], frame: Frame) -> Draw:
        """The draw with the conditions it stands under added to its decisions."""
        file = frame.function.module.path
        if guards:
            draw = replace(draw, guards=draw.guards | {(id(test), held) for test, held in guards})
        for guard in guards:
            chance = self.epsilon_of(guard[0], frame)
            if chance is not None:
                amount, where, positive = chance
                if not draw.chance:
                    taken = "random" if guard[1] == positive else "other"
                    draw = replace(draw, chance=taken, epsilon=draw.epsilon or self.evaluator.evaluate(amount, where),
                                   epsilon_test=(file, guard[0].line))  # fmt: skip
                continue
            word = dispatch_word(guard[0])
            if word:
                if guard[1] and not draw.dispatch:
                    draw = replace(draw, dispatch=word)
                continue
            held, origin = self.evaluator.holds(guard, frame)
            if origin is None:
                draw = replace(draw, doubt=draw.doubt + 1)
                continue
            if self._is_action_test(guard[0]):
                continue
            decision = Decision(file, guard[0].line, origin, f"`{origin.name or 'a literal'}` decides", id(guard[0]))
            draw = replace(draw, decisions=(*draw.decisions, decision))
        return draw

    @staticmethod
    def _is_action_test(test: t.Node) -> bool:
        """`if action is None:` asks for an action, not for a rule."""
        if isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] in ("is", "is not", "=="):
            return isinstance(test.ops[0][1], t.Const) and test.ops[0][1].value is None
        return False

    def epsilon_of(self, test: t.Node, frame: Frame, depth: int = 0) -> tuple[t.Node, Frame, bool] | None:
        """The amount compared with a random number, the frame to read it in, and whether True means "explore"."""
        if depth > 4:
            return None
        if isinstance(test, t.Unary) and test.op == "not":
            inner = self.epsilon_of(test.value, frame, depth + 1)
            return (inner[0], inner[1], not inner[2]) if inner else None
        if isinstance(test, t.Bool):
            for side, other in ((test.left, test.right), (test.right, test.left)):
                inner = self.epsilon_of(side, frame, depth + 1)
                if inner is not None:
                    known = self.evaluator.evaluate(other, frame)
                    if known is not None and test.op == "and" and not known.value:
                        return None
                    return inner
            return None
        if isinstance(test, t.Compare) and len(test.ops) == 1:
            op, right = test.ops[0]
            if self._is_random(test.left, frame) and op in ("<", "<=", ">", ">="):
                return right, frame, op in ("<", "<=")
            if op in ("==", "is") and isinstance(right, t.Const) and right.value in (1, True) and isinstance(test.left, t.Call):
                return self.epsilon_of(test.left, frame, depth + 1)
            if self._is_random(right, frame) and op in ("<", "<=", ">", ">="):
                return test.left, frame, op in (">", ">=")
            return None
        if isinstance(test, t.Name):
            found = self.resolver.definitions(test.id, frame)
            if found and len(found[0]) == 1 and found[0][0].kind == "assign":
                return self.epsilon_of(found[0][0].value, found[1], depth + 1)
        if isinstance(test, t.Call):
            if last_name(test.func) in ("binomial", "bernoulli") and test.args:
                return test.args[-1].value, frame, True
            for target in self.resolver.targets(test, frame)[:2]:
                if isinstance(target, FunctionValue):
                    inner_frame = self.resolver.enter(target, test, frame)
                    if inner_frame is None:
                        continue
                    for event in target.function.flow.returns:
                        if event.value is None:
                            continue
                        if any(self.evaluator.holds(g, inner_frame)[0] is False for g in event.context.guards):
                            continue
                        inner = self.epsilon_of(event.value, inner_frame, depth + 1)
                        if inner is not None:
                            return inner
        return None

    def _is_random(self, node: t.Node, frame: Frame) -> bool:
        if isinstance(node, t.Call):
            name = last_name(node.func)
            if name in words.CONVERSIONS and isinstance(node.func, t.Attr):
                return self._is_random(node.func.obj, frame)
            return name in words.RANDOM_CALLS
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            return bool(found) and any(isinstance(d.value, t.Call) and self._is_random(d.value, frame) for d in found[0])
        if isinstance(node, t.Sub):
            return self._is_random(node.obj, frame)
        return False

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def _operation(self, node: t.Op, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        left = self._trace(node.left, selector, frame, use, depth + 1)
        right = self._trace(node.right, selector, frame, use, depth + 1)
        if node.op in ("+", "-"):
            for other in (node.right, node.left):
                noise = self._noise(other, frame)
                if noise is not None and not isinstance(noise, Known) and self._is_learned(other, frame):
                    return [self._draw("sampled", node, frame, why="mean plus noise of the policy's own scale is a sample")]
            for mine, other in ((left, node.right), (right, node.left)):
                noise = self._noise(other, frame)
                if mine and noise is not None:
                    scale = noise if isinstance(noise, Known) else None
                    if scale is not None and isinstance(scale.value, (int, float)) and scale.value == 0:
                        decision = Decision(frame.function.module.path, node.line, scale.origin, "the noise is scaled to zero")
                        return [replace(d, decisions=(*d.decisions, decision)) for d in mine]
                    decisions = ()
                    if scale is not None:
                        decisions = (Decision(frame.function.module.path, node.line, scale.origin, "the noise's scale"),)
                    return [
                        replace(d, rule="noisy", file=frame.function.module.path, line=node.line,
                                decisions=(*d.decisions, *decisions))
                        if d.rule in ("network", "greedy") else d
                        for d in mine
                    ]  # fmt: skip
        return left + right

    def _is_learned(self, node: t.Node, frame: Frame) -> bool:
        """Noise whose size the network gives (`mu + std * eps`): a reparameterised sample, not exploration noise."""
        for part, _ in self._expanded(node, frame, None):
            if isinstance(part, (t.Name, t.Attr)) and words.LEARNED_SCALE.search(last_name(part)):
                return True
        return False

    def _noise(self, node: t.Node, frame: Frame, depth: int = 0) -> Known | bool | None:
        """The scale of a noise term (Known), True for noise of unknown scale, None for no noise."""
        if depth > 4:
            return None
        if isinstance(node, t.Op):
            sides = [self._noise(side, frame, depth + 1) for side in (node.left, node.right)]
            if node.op in ("*", "/") and any(side is not None for side in sides):
                for side, other in ((sides[0], node.right), (sides[1], node.left)):
                    if side is not None:
                        amount = self.evaluator.evaluate(other, frame)
                        return amount if amount is not None else (self._origin_inside(other, frame) or side)
            return next((s for s in sides if s is not None), None)
        if isinstance(node, t.Call):
            name = last_name(node.func)
            if name in words.CONVERSIONS and isinstance(node.func, t.Attr):
                inner = self._noise(node.func.obj, frame, depth + 1)
                if inner is None and node.args:
                    inner = self._noise(node.args[0].value, frame, depth + 1)
                return inner
            if name in words.GAUSSIAN or (name in ("sample", "uniform") and words.NOISE_NAME.search(t.dotted(node.func) or "")):
                scale = next((a.value for a in node.args if a.name in ("scale", "std", "stddev")), None)
                positional = [a.value for a in node.args if not a.name]
                if scale is None and name in ("normal", "gauss", "laplace") and len(positional) >= 2:
                    scale = positional[1]
                if scale is not None:
                    known = self.evaluator.evaluate(scale, frame)
                    return known if known is not None else (self._origin_inside(scale, frame) or True)
                return True
            if words.NOISE_NAME.search(t.dotted(node.func) or name):
                return True
            if name in words.CONVERSIONS and node.args:
                return self._noise(node.args[0].value, frame, depth + 1)
            return None
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            if found:
                for d in found[0]:
                    if d.kind == "assign":
                        noise = self._noise(d.value, found[1], depth + 1)
                        if noise is not None:
                            return noise
            return True if words.NOISE_NAME.search(node.id) and found else None
        if isinstance(node, t.Attr) and words.NOISE_NAME.search(node.name):
            return True
        if isinstance(node, t.Sub):
            return self._noise(node.obj, frame, depth + 1)
        return None

    def _origin_inside(self, node: t.Node, frame: Frame) -> Known | None:
        """Whose choice an amount of unknown size is: the parameter or option named in it."""
        for part in t.walk(node):
            if isinstance(part, (t.Name, t.Attr)):
                known = self.evaluator.evaluate(part, frame)
                if known is not None and isinstance(known.value, (int, float)) and not isinstance(known.value, bool):
                    return known
        return None

    # --- calls ------------------------------------------------------------------------------------------------------

    def _call(self, node: t.Call, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        name = last_name(node.func)
        receiver = node.func.obj if isinstance(node.func, t.Attr) else None
        if selector and isinstance(selector[0], str):  # dict(action=…), Output(action=…): the field that is asked for
            for arg in node.args:
                if arg.name == selector[0]:
                    return self._trace(arg.value, selector[1:], frame, use, depth + 1)
        if name in ("step", "reset") and receiver is not None and words.ENVIRONMENT.search(last_name(receiver)):
            return []  # an observation, no action
        drawn = self._drawn_here(node, name, receiver, selector, frame, use)
        if drawn is not None:
            return drawn
        if name in ("where", "switch", "cond", "select", "switch_case") and len(node.args) >= 3:
            a, b, c = (arg.value for arg in node.args[:3])
            if isinstance(b, t.Lambda) and isinstance(c, t.Lambda):
                b, c = b.body, c.body
            found = self._choose(a, b, c, selector, frame, use, depth)
            if found:
                return found
        if name == "run" and node.args and receiver is not None:  # a TensorFlow session runs what it is given
            if "sess" in last_name(receiver).lower():
                # A tensor with nothing drawn on the way to it is an output of the network that this very call runs.
                return [
                    replace(d, file=frame.function.module.path, line=node.line) if d.rule == "network" and not d.guards else d
                    for d in self._trace(node.args[0].value, selector, frame, use, depth + 1)
                ]
        built = self._built(node, selector, frame, depth)
        if built:
            return built
        targets = self._targets(node, frame)
        arity = _arity(node, frame.function) if selector else None
        draws: list[Draw] = []
        entered = False
        for value, sure in targets:
            if isinstance(value, LambdaValue):
                inner = Frame(value.frame.function, value.frame.parent, value.frame.call, value.frame.receiver, value.frame.closure)
                draws.extend(self._trace(value.node.body, selector, inner, None, depth + 1))
                entered = True
            elif isinstance(value, FunctionValue):
                inner_frame = self.resolver.enter(value, node, frame)
                if inner_frame is None:
                    continue
                entered = True
                for d in self._returns(value.function, selector, inner_frame, depth + 1, arity):
                    step = (frame.function.module.path, node.line, f"calls `{value.function.qualified}`")
                    owner = d.owner or (value.receiver.info.name if isinstance(value.receiver, Instance) else "")
                    if d.rule == "network" and not d.guards and value.function.name in ("forward", "__call__", "call"):
                        d = replace(d, file=frame.function.module.path, line=node.line, function=frame.function)
                    # The outermost function is the one that was asked for an action.
                    draws.append(replace(d, path=(step, *d.path), owner=owner, sure=d.sure and sure,
                                         through=frozenset({id(value.function)})))  # fmt: skip
        if draws:
            return draws
        library = next((v for v, _ in targets if isinstance(v, Library)), None)
        modelled = self._modelled(node, name, library, entered, frame, use)
        if modelled is not None:
            return [modelled]
        if library is not None and _is_object_call(node, library):
            return [self._draw("network", node, frame)]
        if name in words.SQUASHES and node.args:
            inner = self._trace(node.args[0].value, selector, frame, use, depth + 1)
            return [replace(d, squashed=True) for d in inner] or [self._draw("network", node, frame, squashed=True)]
        if name in words.CONVERSIONS or (library is not None and not entered and name not in ("act", "step", "predict")):
            through = self._through(node, receiver, selector, frame, use, depth)
            if through:
                return through
        if isinstance(node.func, t.Call):  # jit(f)(x), vmap(f)(x)
            inner_call = node.func
            if last_name(inner_call.func) in ("jit", "vmap", "pmap", "partial", "compile", "checkpoint"):
                if inner_call.args:
                    made = self.resolver.keep(t.Call(node.line, inner_call.args[0].value, node.args, node.end_line))
                    return self._trace(made, selector, frame, use, depth + 1)
        entering = next((v.function for v, _ in targets if isinstance(v, FunctionValue)), None) if entered else None
        if entering is not None and entering.name not in ("forward", "__call__", "call") and entering.flow.returns:
            last = entering.flow.returns[-1]
            return [Draw("network", entering.module.path, last.line, entering, through=frozenset({id(entering)}))]
        if entered or targets and words.NETWORK.search(name):
            return [self._draw("network", node, frame)]
        if words.NETWORK.search(name) or words.POLICY_CALL.search(name):
            return [self._opaque(node, name, receiver, frame)]
        return self._through(node, receiver, selector, frame, use, depth)

    def _opaque(self, node: t.Call, name: str, receiver: t.Node | None, frame: Frame) -> Draw:
        """A call that can't be looked into. What comes back beside the action may still say how it was made."""
        beside = [n for n, ds in frame.function.flow.definitions.items() for d in ds if d.value is node]
        if any(words.LOG_PROB.search(n) for n in beside):
            return self._draw("sampled", node, frame, sure=False, why="a log-probability of the drawn action comes with it")
        own = receiver is not None and last_name(receiver) == frame.function.self_name
        if receiver is None or not words.POLICY_METHOD.search(name):
            return self._draw("network", node, frame, sure=own)  # `actor(obs)`, `self.network(obs)`
        return self._draw("unknown", node, frame, sure=False, why=f"`{name}` can't be looked into")

    def _modelled(
        self, node: t.Call, name: str, library: Library | None, entered: bool, frame: Frame, use: Context | None
    ) -> Draw | None:
        """A library's action call, by its model; or an unknown callee that is told the rule by a well-known keyword."""
        if entered:
            return None
        file = frame.function.module.path
        for model in self.libraries.by_name.get(name, ()) if library is not None else ():
            parts = library.name.split(".") if library is not None else []
            if model.kind != "action" or parts[0] not in model.packages:
                continue
            if model.of and not any(part in model.of for part in parts[1:-1]):
                continue
            if model.parameter is None:
                return self._draw(model.always, node, frame, why=f"as {model.library} does in `{model.name}`")
            given = next((a.value for a in node.args if a.name == model.parameter.name), None)
            positional = [a.value for a in node.args if not a.name]
            if given is None and model.parameter.position is not None and model.parameter.position < len(positional):
                given = positional[model.parameter.position]
            known = self.evaluator.likely(given, frame, use) if given is not None else None
            if given is None:
                origin = Origin("library", f"{model.library}:{model.name}", 0, model.parameter.name)
                value = model.parameter.default
            elif known is None:
                return self._draw("unknown", node, frame, why=f"the value of `{model.parameter.name}` isn't known")
            else:
                origin, value = known.origin, known.value
            decision = Decision(file, node.line, origin, f"`{model.parameter.name}` decides in {model.library}")
            owner = next((part for part in parts[1:-1] if part[:1].isupper()), "")
            rule = model.when_true if value else model.when_false
            return self._draw(rule, node, frame, decisions=(decision,), owner=owner)
        for arg in node.args:
            kind = words.RULE_KEYWORDS.get(arg.name)
            if kind is None:
                continue
            known = self.evaluator.evaluate(arg.value, frame, use)
            if known is not None and isinstance(known.value, (bool, int)):
                rule = kind[0] if known.value else kind[1]
                decision = Decision(file, node.line, known.origin, f"`{arg.name}` decides in the callee")
                return self._draw(rule, node, frame, decisions=(decision,), sure=False)
        return None

    def _through(
        self, node: t.Call, receiver: t.Node | None, selector: Selector, frame: Frame, use: Context | None, depth: int
    ) -> list[Draw]:
        """A conversion: what it converts is its receiver, or its first argument that leads to a draw."""
        step: Selector = () if last_name(node.func) in words.CONVERSIONS else selector
        if receiver is not None and not isinstance(receiver, t.Name):
            found = self._trace(receiver, selector, frame, use, depth + 1)
            if found:
                return found
        if receiver is not None and isinstance(receiver, t.Name) and self.resolver.definitions(receiver.id, frame):
            found = self._trace(receiver, selector, frame, use, depth + 1)
            if found:
                return found
        for arg in node.args[:4]:
            found = self._trace(arg.value, selector if last_name(node.func) in ("tuple", "list", "map") else step, frame, use, depth + 1)
            if found:
                return found
        return []

    def _built(self, node: t.Call, selector: Selector, frame: Frame, depth: int) -> list[Draw]:
        """A function built from a graph, `act = function(inputs, outputs)`: calling it gives the outputs."""
        values = self._made_by(node.func, frame)
        for call, where in values:
            outputs = next((a.value for a in call.args if a.name == "outputs"), None)
            positional = [a.value for a in call.args if not a.name]
            inputs = next((a.value for a in call.args if a.name == "inputs"), positional[0] if positional else None)
            if outputs is None and len(positional) >= 2:
                outputs = positional[1]
            if outputs is None or inputs is None:
                continue
            names = [last_name(item) for item in inputs.items] if isinstance(inputs, t.Seq) else []
            given = [a.value for a in node.args if not a.name]
            fed = tuple((name, value, frame) for name, value in zip(names, given, strict=False) if name)
            where = replace(where, fed=fed)
            found = self._trace(outputs, selector, where, None, depth + 1)
            if found:
                step = (frame.function.module.path, node.line, "runs a function built from a graph")
                return [replace(d, path=(step, *d.path)) for d in found]
        return []

    def _made_by(self, func: t.Node, frame: Frame) -> list[tuple[t.Call, Frame]]:
        """The calls `function(inputs, outputs)` that made a callable."""
        found: list[tuple[t.Call, Frame]] = []
        candidates: list[tuple[t.Node, Frame]] = []
        if isinstance(func, t.Name):
            local = self.resolver.definitions(func.id, frame)
            if local:
                candidates = [(d.value, local[1]) for d in local[0]]
        elif isinstance(func, t.Attr):
            for owner in self.resolver.types(func.obj, frame):
                if isinstance(owner, Instance):
                    candidates += [(e, w) for e, _, w in self.resolver.attribute_definitions(owner, func.name)]
        for value, where in candidates:
            if isinstance(value, t.Call) and last_name(value.func) in ("function", "Function", "theano_function"):
                found.append((value, where))
        return found

    def _targets(self, node: t.Call, frame: Frame) -> list[tuple[Value, bool]]:
        """The functions a call may reach, each with whether that is sure; by name alone where the receiver isn't known."""
        found = self.resolver.targets(node, frame)
        out: list[tuple[Value, bool]] = []
        for value in found:
            if isinstance(value, FunctionValue):
                for actual in self.resolver.dispatched(value):
                    if not is_abstract(actual.function):
                        out.append((actual, True))
            else:
                out.append((value, True))
        if not isinstance(node.func, t.Attr):
            return out
        made = all(isinstance(v, Library) and v.call is not None for v, _ in out)
        opaque = made and words.POLICY_METHOD.search(node.func.name) and node.func.name not in self.libraries.by_name
        if out and not opaque:
            return out
        if not out and any(not isinstance(v, Library) for v in self.resolver.types(node.func.obj, frame)):
            return out
        candidates = [
            f for f in self.program.methods_by_name.get(node.func.name, ())
            if accepts(f, node) and not is_abstract(f) and f is not frame.function and not _is_environment(f)
        ]  # fmt: skip
        if node.func.name in words.CONVERSIONS or len(candidates) > 40:
            return out
        here = frame.function.module.path.split("/")
        candidates.sort(key=lambda f: (-_common(here, f.module.path.split("/")), f.module.path, f.node.line))
        return [(FunctionValue(f, Instance(f.owner) if f.owner else None), False) for f in candidates[:4]] or out

    def _returns(
        self, function: Function, selector: Selector, frame: Frame, depth: int, arity: int | None = None
    ) -> list[Draw]:
        draws: list[Draw] = []
        for event in function.flow.returns:
            if event.value is None:
                continue
            if arity is not None and isinstance(event.value, t.Seq) and len(event.value.items) != arity:
                continue  # what comes back can't be taken apart like that: another class's method
            verdicts = [self._feasible(guard, frame) for guard in event.context.guards]
            if any(v is False for v in verdicts):
                continue
            for d in self._trace(event.value, selector, frame, event.context, depth + 1):
                draws.append(self._decided(d, event.context.guards, frame))
            if event.context.guards and all(v is True for v in verdicts) and not event.is_yield:
                break
        return draws

    # --- draws ------------------------------------------------------------------------------------------------------

    def _draw(self, rule: str, node: t.Node, frame: Frame, **more: object) -> Draw:
        return Draw(rule, frame.function.module.path, node.line, frame.function, **more)  # type: ignore[arg-type]

    def _drawn_here(
        self, node: t.Call, name: str, receiver: t.Node | None, selector: Selector, frame: Frame, use: Context | None
    ) -> list[Draw] | None:
        """The draw, if this very call is one; None where the call has to be looked into."""
        dotted = t.dotted(node.func)
        held_by = last_name(receiver) if receiver is not None else ""
        if name == "sample" and (words.SPACE.search(held_by) or held_by.endswith("space")):
            return [self._draw("uniform_random", node, frame)]
        if name in words.SAMPLES or (name == "sample" and receiver is not None):
            if words.BUFFER.search(held_by) and not words.DISTRIBUTION.search(held_by):
                return []
            if name in ("sample", "rsample", "sample_n") and receiver is not None:
                if self._noise_free(node, receiver, frame):
                    known = self._noise_free(node, receiver, frame)
                    assert known is not None
                    decision = Decision(frame.function.module.path, node.line, known.origin, "the scale is zero")
                    return [self._draw("greedy", node, frame, decisions=(decision,))]
                own = [v for v in self.resolver.targets(node, frame) if isinstance(v, FunctionValue)]
                if own and not self._is_distribution_class(own[0]):
                    return None
                return [self._draw("sampled", node, frame)]
            if name in ("multinomial", "categorical", "random_categorical") and (receiver is None or held_by in (
                "torch", "F", "random", "tf", "jax", "np", "jrandom", "jr", "distributions")):  # fmt: skip
                return [self._draw("sampled", node, frame)]
        if name in ("choice", "choices"):
            weighted = len(node.args) > 1 and any(a.name in ("p", "weights") for a in node.args) or len(node.args) > 3
            if weighted:
                return [self._draw("sampled", node, frame)]
            if "random" in dotted or held_by in ("rng", "random", "np_random"):
                return [self._draw("uniform_random", node, frame)]
        if name in ("randint", "randrange", "integers", "random_integers", "random_uniform") or (
            name in ("uniform", "rand") and ("random" in dotted or held_by in ("rng", "np", "torch"))
        ):
            return [self._draw("uniform_random", node, frame)]
        if name == "randrange" or name == "random_action":
            return [self._draw("uniform_random", node, frame)]
        if name in ("argmax", "arg_max", "nanargmax", "argmin") or (name == "max" and selector[:1] in ((1,), ("indices",))):
            over = receiver if receiver is not None and not _is_module_name(receiver) else None
            if over is None and node.args:
                over = node.args[0].value
            return [self._argmax(node, over or node, frame, use)]
        if name in ("mode", "deterministic_sample", "get_mode", "most_probable") and receiver is not None:
            return [self._draw("greedy", node, frame)]
        if name in ("topk", "argsort") and receiver is not None:
            return [self._draw("greedy", node, frame)]
        if name == "mean" and receiver is not None and self._is_distribution(receiver, frame):
            return [self._draw("greedy", node, frame)]
        return None

    def _is_distribution_class(self, value: FunctionValue) -> bool:
        owner = value.function.owner
        if owner is None:
            return False
        names = {owner.name, *(last_name(b) for b in owner.node.bases)}
        names.update(n.rpartition(".")[2] for n in self.resolver.library_bases(owner))
        pattern = ("categorical", "normal", "gaussian", "distribution", "dist", "bernoulli", "pd", "beta", "transform")
        return any(any(p in n.lower() for p in pattern) for n in names)

    def _is_distribution(self, node: t.Node, frame: Frame) -> bool:
        if words.DISTRIBUTION.search(last_name(node)):
            return True
        for value in self.resolver.types(node, frame):
            if isinstance(value, Library) and any(
                p in value.name.rpartition(".")[2].lower() for p in ("normal", "categorical", "distribution", "gaussian", "beta")
            ):
                return True
            if isinstance(value, Instance) and any(
                p in value.info.name.lower() for p in ("normal", "categorical", "distribution", "gaussian", "pd", "dist")
            ):
                return True
        return False

    def _noise_free(self, node: t.Call, receiver: t.Node, frame: Frame) -> Known | None:
        """A distribution whose scale, temperature or variance was set to zero: what decided it."""
        names = ("temperature", "scale", "std", "stddev", "noise_scale", "temp")
        for part, where in [(node, frame), *self._defining_calls(receiver, frame)]:
            for arg in part.args:
                if arg.name in names or (not arg.name and last_name(arg.value) in names):
                    known = self.evaluator.evaluate(arg.value, where)
                    if known is not None and isinstance(known.value, (int, float)) and known.value == 0:
                        return known
            # A network with a temperature of its own: `dist = actor(obs, temperature)`.
            for target in self.resolver.targets(part, where)[:2] if part is not node else ():
                if isinstance(target, FunctionValue):
                    inner = self.resolver.enter(target, part, where)
                    if inner is None:
                        continue
                    for name in names:
                        if target.function.parameter(name) is not None:
                            known = self.evaluator.evaluate(self.resolver.keep(t.Name(node.line, name)), inner)
                            if known is not None and isinstance(known.value, (int, float)) and known.value == 0:
                                return known
            if last_name(part.func) in ("Normal", "MultivariateNormalDiag", "TruncatedNormal", "normal") and len(part.args) > 1:
                known = self.evaluator.evaluate(part.args[1].value, where)
                if known is not None and isinstance(known.value, (int, float)) and not known.value:
                    return known
        return None

    def _defining_calls(self, node: t.Node, frame: Frame) -> list[tuple[t.Call, Frame]]:
        if isinstance(node, t.Call):
            return [(node, frame)]
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            if found:
                return [(d.value, found[1]) for d in found[0] if isinstance(d.value, t.Call)]
        return []

    def _argmax(self, node: t.Call, over: t.Node, frame: Frame, use: Context | None) -> Draw:
        parts = self._expanded(over, frame, use)
        names = [last_name(p.func) for p, _ in parts if isinstance(p, t.Call)]
        texts = [last_name(p) for p, _ in parts if isinstance(p, (t.Name, t.Attr))]
        if any("gumbel" in n.lower() for n in (*names, *texts)) or names.count("log") >= 2:
            return self._draw("sampled", node, frame, why="argmax over Gumbel-perturbed logits is a sample")
        value_based = any(_says_value(n) for n in (*names, *texts))
        if any(n in words.GAUSSIAN for n in names):
            return self._draw("noisy", node, frame, value_based=True)
        if self._is_noisy_network([p for p, _ in parts if isinstance(p, t.Call)], frame):
            why = "argmax of a network whose layers carry noise, which is live outside evaluation mode"
            return self._draw("noisy", node, frame, value_based=True, why=why)
        return self._draw("greedy", node, frame, value_based=value_based)

    def _is_noisy_network(self, calls: list[t.Call], frame: Frame) -> bool:
        """Whether one of the calls runs a network with live parameter noise (NoisyNet layers in training mode)."""
        if self.evaluator.mode(frame) is False:
            return False
        for call in calls:
            for value in self.resolver.types(call.func, frame):
                if isinstance(value, FunctionValue) and isinstance(value.receiver, Instance):
                    value = value.receiver
                if isinstance(value, Instance) and self._has_noisy_layers(value):
                    return True
        return False

    def _has_noisy_layers(self, owner: Instance) -> bool:
        for info in self.resolver.mro(owner.info):
            for method in info.methods.values():
                frame = self.resolver.method_frame(owner, method) if method.name in ("__init__", "setup") else None
                if frame is None:
                    continue
                for event in method.flow.calls:
                    if "noisy" in last_name(event.call.func).lower():
                        if not any(self.evaluator.holds(g, frame)[0] is False for g in event.context.guards):
                            return True
        return False

    def _expanded(self, node: t.Node, frame: Frame, use: Context | None) -> list[tuple[t.Node, Frame]]:
        """The nodes of an expression and of the local definitions of the names in it, two steps deep."""
        out: list[tuple[t.Node, Frame]] = []
        queue = [(node, 0, use)]
        seen: set[str] = set()
        while queue:
            current, depth, at = queue.pop(0)
            for part in t.walk(current):
                out.append((part, frame))
                if isinstance(part, t.Name) and depth < 4 and part.id not in seen:
                    seen.add(part.id)
                    found = frame.function.flow.definitions.get(part.id)
                    if found:
                        for d, _ in reaching(found, at, lambda guard: self._feasible(guard, frame)):
                            queue.append((d.value, depth + 1, d.context))
            if len(out) > 4000:
                break
        return out

    # --- joining ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _merge(draws: list[Draw]) -> list[Draw]:
        """Real draws hide plain network outputs; equal draws count once."""
        drawing = {d.owner for d in draws if d.rule != "network"}
        kept = [d for d in draws if d.rule != "network" or not (d.owner in drawing or not d.owner and drawing)]
        seen: set[tuple[object, ...]] = set()
        out = []
        for d in kept:
            key = (d.rule, d.file, d.line, d.chance, d.owner, tuple((x.file, x.line) for x in d.decisions))
            if key not in seen:
                seen.add(key)
                out.append(d)
        return out


def _arity(call: t.Call, function: Function) -> int | None:
    """Into how many names the call's result is taken apart, where the code says."""
    for definitions in function.flow.definitions.values():
        for d in definitions:
            if d.value is call and d.selector and isinstance(d.statement, t.Assign):
                for target in d.statement.targets:
                    if isinstance(target, t.Seq) and not any(isinstance(i, t.Star) for i in target.items):
                        return len(target.items)
    return None


def begins_as_parameter(name: str, definitions: list[Definition], frame: Frame, use: Context | None) -> bool:
    """A parameter that is bound again only after this use (`x = tanh(x)` reads the parameter)."""
    if use is None or frame.function.parameter(name) is None:
        return False
    return not use.loops and not any(d.context.order < use.order for d in definitions)


def _is_object_call(node: t.Call, library: Library) -> bool:
    """Calling an object of a library's class (`self.net(x)` with `self.net = Sequential(…)`), not one of its methods."""
    made = last_name(library.call.func) if library.call is not None else ""
    return library.name.rpartition(".")[2] == made and made[:1].isupper()


def dispatch_word(test: t.Node) -> str:
    """The agent's name in a test such as `algo == "dqn"`; "" for any other test."""
    if isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] in ("==", "in"):
        other = test.ops[0][1]
        if words.DISPATCH.search(last_name(test.left)):
            if isinstance(other, t.Const) and isinstance(other.value, str):
                return other.value
            if isinstance(other, t.Seq) and other.items and all(
                isinstance(i, t.Const) and isinstance(i.value, str) for i in other.items
            ):
                return str(other.items[0].value)  # type: ignore[attr-defined]
    return ""


def _is_module_name(node: t.Node) -> bool:
    return t.dotted(node) in ("np", "torch", "jnp", "tf", "numpy", "F", "tf.math", "jax.numpy", "onp", "U", "xp")


def _says_value(name: str) -> bool:
    low = name.lower()
    return low.startswith(("q", "dqn")) or low in ("value", "values", "advantage") or "q_val" in low or "qval" in low or "_q" in low


def _common(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _is_environment(function: Function) -> bool:
    owner = function.owner
    return owner is not None and "step" in owner.methods and "reset" in owner.methods
