"""Where an action is really produced: an action's value followed back to the draw, through calls, branches and objects.

Each draw comes with the decisions on the way: the conditions that led to it and whose choice each was.
"""

from __future__ import annotations

from dataclasses import replace

from codeaudit.evaluation import words
from codeaudit.evaluation.chances import dispatch_word
from codeaudit.evaluation.draw import Decision, Draw
from codeaudit.evaluation.fields import Fields
from codeaudit.evaluation.shapes import (
    arity,
    begins_as_parameter,
    centred,
    common_prefix,
    gives,
    is_called,
    is_environment,
    is_object_call,
    is_own_method,
)
from codeaudit.facts import tree as t
from codeaudit.program.arguments import accepts, is_abstract
from codeaudit.program.flow import Context, Definition, Guard, Selector
from codeaudit.program.folding import Known
from codeaudit.program.frames import Frame, FunctionValue, Instance, LambdaValue, Library, Value
from codeaudit.program.index import ClassInfo, Function, last_name
from codeaudit.program.reaching import reaching

MAX_DEPTH = 26
MAX_DRAWS = 24
BUDGET = 2500  # steps for one question: hostile code must not cost more


class Tracer(Fields):
    """Follows an action back to its draws."""

    def draws(self, node: t.Node, frame: Frame, use: Context | None, selector: Selector = ()) -> list[Draw]:
        """All ways in which an expression's value may be drawn."""
        self._seen: set[tuple[object, ...]] = set()
        self._answers: dict[tuple[object, ...], list[Draw]] = {}
        self._cut = 0
        self._budget = BUDGET
        return self._merge(self._trace(node, selector, frame, use, 0))

    def alternatives(self, node: t.Node, frame: Frame, use: Context | None, selector: Selector = ()) -> list[Draw]:
        """The draws with every condition left open: what would be possible under other options."""
        self.unpruned = True
        try:
            return self.draws(node, frame, use, selector)
        finally:
            self.unpruned = False

    def _trace(self, node: t.Node, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        key = (id(node), selector, id(use), *frame.key)
        if key in self._answers:
            return self._answers[key]
        self._budget -= 1
        if depth > MAX_DEPTH or self._budget < 0 or key in self._seen:
            self._cut += 1
            return []
        self._seen.add(key)
        cut = self._cut
        try:
            found = self._follow(node, tuple(s for s in selector if s != "*"), frame, use, depth)[:MAX_DRAWS]
        finally:
            self._seen.discard(key)
        if cut == self._cut:  # an answer that nothing cut short holds for the whole question
            self._answers[key] = found
        return found

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
            if isinstance(node.index, (t.Call, t.Name)):  # legal_actions[argmax(visits)]
                chosen = [d for d in self._trace(node.index, (), frame, use, depth + 1) if d.rule != "network"]
                if chosen or (isinstance(node.obj, t.Call) and last_name(node.obj.func) in ("eye", "identity")):
                    return chosen
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
            element = node.element.items[0][1] if isinstance(node.element, t.Map) else node.element
            return self._trace(element, selector, frame, use, depth + 1)
        if isinstance(node, t.Star):
            return self._trace(node.value, selector, frame, use, depth + 1)
        if isinstance(node, t.Bool):
            found = self._trace(node.right, selector, frame, use, depth + 1)
            return found or self._trace(node.left, selector, frame, use, depth + 1)
        if isinstance(node, t.Yield) and node.value is not None:
            return self._trace(node.value, selector, frame, use, depth + 1)
        if isinstance(node, t.Other) and len(node.parts) == 1 and isinstance(node.parts[0], t.Assign):
            return self._trace(node.parts[0].value, selector, frame, use, depth + 1)
        return []

    def _name(self, node: t.Name, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        found = self.resolver.definitions(node.id, frame)
        if found is not None and not begins_as_parameter(node.id, found[0], frame, use):
            definitions, where = found
            at = use if where is frame else None
            draws = self._stored(node.id, selector, where, at, depth)
            draws = draws or self._definitions(definitions, selector, where, at, depth)
            if not draws and "act" in node.id.lower():  # an action that is filled part by part
                draws = self._appended(node.id, where, depth)
            if draws or frame.function.parameter(node.id) is None:
                return draws
        function: Function | None = frame.function
        current: Frame | None = frame
        while function is not None and current is not None:
            if function.parameter(node.id) is not None:
                argument = self.resolver.argument(node.id, current)
                if argument is not None:
                    given, where = argument  # as it was when the call was made
                    called = where.function.flow.contexts.get(id(current.call)) if where is current.parent else None
                    return self._trace(given, selector, where, called, depth + 1)
                return []
            function = function.outer
            current = current.closure or (Frame(function) if function else None)
        definitions = frame.function.module.body.flow.definitions.get(node.id, [])
        return (
            self._definitions(definitions, selector, Frame(frame.function.module.body), None, depth)
            if definitions
            else []
        )

    def _definitions(
        self, definitions: list[Definition], selector: Selector, frame: Frame, use: Context | None, depth: int
    ) -> list[Draw]:
        draws: list[Draw] = []
        left_out, under = self._left_out(definitions, use, frame)
        for d, extra in reaching(definitions, use, lambda guard: self._feasible(guard, frame)):
            if d.kind == "augment":
                more = self._trace(d.value, selector, frame, d.context, depth + 1)
                if any(x.rule == "noisy" or x.decisions for x in more):
                    return draws + self._decided(more, extra, frame)
                continue
            more = self._trace(d.value, (*d.selector, *selector), frame, d.context, depth + 1)
            if extra and isinstance(d.value, (t.Name, t.Attr)):  # `if deterministic: action = mean`: chosen here
                path = frame.function.module.path
                more = [replace(x, file=path, line=d.line) if x.rule == "network" else x for x in more]
            draws.extend(self._decided(more, extra, frame))
        if not left_out:
            return draws
        return [replace(d, decisions=(*d.decisions, *left_out), guards=d.guards | under) for d in draws]

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

    def _choose(
        self,
        test: t.Node,
        body: t.Node,
        orelse: t.Node,
        selector: Selector,
        frame: Frame,
        use: Context | None,
        depth: int,
    ) -> list[Draw]:
        draws: list[Draw] = []
        for branch, held in ((body, True), (orelse, False)):
            guard = (test, held)
            if self._feasible(guard, frame) is False:
                continue
            draws += self._decided(self._trace(branch, selector, frame, use, depth + 1), (guard,), frame)
        return draws

    def _decided(self, draws: list[Draw], guards: tuple[Guard, ...], frame: Frame) -> list[Draw]:
        """The draws with the conditions they stand under added to their decisions."""
        if not guards or not draws:
            return draws
        file = frame.function.module.path
        chance: tuple[str, Known | None, tuple[str, int]] | None = None
        word, doubt, decisions = "", 0, []
        for guard in guards:
            found = self.epsilon_of(guard[0], frame)
            if found is not None:
                amount, where, positive = found
                taken = "random" if guard[1] == positive else "other"
                chance = chance or (taken, self.evaluator.evaluate(amount, where), (file, guard[0].line))
                continue
            compared = dispatch_word(guard[0])
            if compared:
                word = word or (compared if guard[1] else "")
                continue
            _, origin = self.evaluator.holds(guard, frame)
            if origin is None:
                doubt += 1
            elif not self._is_action_test(guard[0]):
                what = f"`{origin.name}` decides" if origin.name else "a literal decides"
                decisions.append(Decision(file, guard[0].line, origin, what, id(guard[0])))
        under = {(id(test), held) for test, held in guards}
        out = []
        for d in draws:
            known = vars(d) | {
                "guards": d.guards | under,
                "dispatch": d.dispatch or word,
                "doubt": d.doubt + doubt,
                "decisions": (*d.decisions, *decisions),
            }
            if chance is not None and not d.chance:
                known |= {"chance": chance[0], "epsilon": d.epsilon or chance[1], "epsilon_test": chance[2]}
            out.append(Draw(**known))
        return out

    @staticmethod
    def _is_action_test(test: t.Node) -> bool:
        """`if action is None:` asks for an action, not for a rule."""
        if isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] in ("is", "is not", "=="):
            return isinstance(test.ops[0][1], t.Const) and test.ops[0][1].value is None
        return False

    def _operation(self, node: t.Op, selector: Selector, frame: Frame, use: Context | None, depth: int) -> list[Draw]:
        left, right = (
            [] if words.SCALE.search(last_name(side)) else self._trace(side, selector, frame, use, depth + 1)
            for side in (node.left, node.right)
        )
        if node.op in ("+", "-"):
            for other in (node.right, node.left):
                noise = self._noise(other, frame)
                if noise is not None and not isinstance(noise, Known) and self._is_learned(other, frame):
                    return [
                        self._draw("sampled", node, frame, why="mean plus noise of the policy's own scale is a sample")
                    ]
            for mine, other in ((left, node.right), (right, node.left)):
                noise = self._noise(other, frame)
                if mine and noise is not None:
                    scale = noise if isinstance(noise, Known) else None
                    if scale is not None and isinstance(scale.value, (int, float)) and scale.value == 0:
                        decision = Decision(
                            frame.function.module.path, node.line, scale.origin, "the noise is scaled to zero"
                        )
                        return [replace(d, decisions=(*d.decisions, decision)) for d in mine]
                    decisions: tuple[Decision, ...] = ()
                    if scale is not None:
                        decisions = (
                            Decision(frame.function.module.path, node.line, scale.origin, "the noise's scale"),
                        )
                    return [
                        replace(d, rule="noisy", file=frame.function.module.path, line=node.line,
                                decisions=(*d.decisions, *decisions))
                        if d.rule in ("network", "greedy") else d
                        for d in mine
                    ]  # fmt: skip
        return left + right

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
        around = centred(node, name)
        if around is not None:
            mean, scale = around
            learned = bool(self._trace(scale, selector, frame, use, depth + 1))
            spread = [
                self._spread(d, scale, learned, node, frame) for d in self._trace(mean, selector, frame, use, depth + 1)
            ]
            if spread:
                return spread
        if name in words.PICKS and node.args:  # index_select(elites, 1, drawn): what picks is the draw
            chosen = [d for d in self._trace(node.args[-1].value, (), frame, use, depth + 1) if d.rule != "network"]
            if chosen:
                return chosen
        if name == "run" and node.args and receiver is not None:  # a TensorFlow session runs what it is given
            if "sess" in last_name(receiver).lower():
                # A tensor with nothing drawn on the way to it is an output of the network that this very call runs.
                return [
                    replace(d, file=frame.function.module.path, line=node.line)
                    if d.rule == "network" and not d.guards
                    else d
                    for d in self._trace(node.args[0].value, selector, frame, use, depth + 1)
                ]
        built = self._built(node, selector, frame, depth)
        if built:
            return built
        targets = self._targets(node, frame)
        taken = arity(node, frame.function) if selector else None
        if taken is not None and not any(sure for _, sure in targets):
            # Guesses by a name: those that give as many things as the call takes apart, where there are such.
            targets = [
                (v, s) for v, s in targets if isinstance(v, FunctionValue) and gives(v.function, taken)
            ] or targets
        draws: list[Draw] = []
        entered = False
        for value, sure in targets:
            if isinstance(value, LambdaValue):
                inner = Frame(
                    value.frame.function,
                    value.frame.parent,
                    value.frame.call,
                    value.frame.receiver,
                    value.frame.closure,
                )
                draws.extend(self._trace(value.node.body, selector, inner, None, depth + 1))
                entered = True
            elif isinstance(value, FunctionValue):
                inner_frame = self.resolver.enter(value, node, frame)
                if inner_frame is None:
                    continue
                entered = True
                for d in self._returns(value.function, selector, inner_frame, depth + 1, taken):
                    step = (frame.function.module.path, node.line, f"calls `{value.function.qualified}`")
                    receiver_class = value.receiver.info.name if isinstance(value.receiver, Instance) else ""
                    owner, asked = d.owner or receiver_class, self._asked(value, d)
                    if d.rule == "network" and not d.guards and value.function.name in ("forward", "__call__", "call"):
                        d = replace(d, file=frame.function.module.path, line=node.line, function=frame.function)
                    # The outermost function is the one that was asked for an action.
                    draws.append(replace(d, path=(step, *d.path), owner=owner, sure=d.sure and sure,
                                         asked=asked, through=frozenset({id(value.function)})))  # fmt: skip
        if draws:
            return draws
        library = next((v for v, _ in targets if isinstance(v, Library)), None)
        modelled = self._modelled(node, name, library, entered, frame, use)
        if modelled is not None:
            return [modelled]
        if library is not None and is_object_call(node, library):
            return [self._draw("network", node, frame)]
        if name in words.SQUASHES and node.args:
            before = self._trace(node.args[0].value, selector, frame, use, depth + 1)
            return [replace(d, squashed=True) for d in before] or [self._draw("network", node, frame, squashed=True)]
        if name in words.CONVERSIONS or (
            library is not None and not entered and name not in ("act", "step", "predict")
        ):
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
        if entered or (targets and words.NETWORK.search(name)):
            return [self._draw("network", node, frame)]
        if words.NETWORK.search(name) or words.POLICY_CALL.search(name):
            return [self._opaque(node, name, receiver, frame)]
        return self._through(node, receiver, selector, frame, use, depth)

    def _asked(self, value: FunctionValue, inner: Draw) -> ClassInfo | Function:
        """The class that was asked for an action: the outermost, or the subclass of it that its own method led to."""
        if not isinstance(value.receiver, Instance):
            return value.function
        outer, last = value.receiver.info, inner.asked
        return last if isinstance(last, ClassInfo) and outer in self.resolver.mro(last) else outer

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
            found = self._trace(
                arg.value, selector if last_name(node.func) in ("tuple", "list", "map") else step, frame, use, depth + 1
            )
            if found:
                return found
        return []

    def _targets(self, node: t.Call, frame: Frame) -> list[tuple[Value, bool]]:
        """The functions a call may reach, each with whether that is sure; by name alone where the receiver isn't
        known."""
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
        made = all(isinstance(v, Library) and v.call is not None and not is_own_method(v) for v, _ in out)
        name = node.func.name
        telling = words.POLICY_METHOD.search(name) or words.says_evaluation(name)
        opaque = made and telling and not self._has_model(name, out)
        if out and not opaque:
            return out
        if not out and any(not isinstance(v, Library) for v in self.resolver.types(node.func.obj, frame)):
            return out
        candidates = [
            f for f in self.program.methods_by_name.get(node.func.name, ())
            if accepts(f, node) and not is_abstract(f) and f is not frame.function and not is_environment(f)
        ]  # fmt: skip
        if node.func.name in words.CONVERSIONS or len(candidates) > 40:
            return out
        candidates = [f for f in candidates if is_called(f, last_name(node.func.obj))] or candidates
        here = frame.function.module.path.split("/")
        candidates.sort(key=lambda f: (-common_prefix(here, f.module.path.split("/")), f.module.path, f.node.line))
        return [(FunctionValue(f, Instance(f.owner) if f.owner else None), False) for f in candidates[:10]] or out

    def _has_model(self, name: str, values: list[tuple[Value, bool]]) -> bool:
        roots = {v.name.split(".")[0] for v, _ in values if isinstance(v, Library)}
        return any(roots & set(model.packages) for model in self.libraries.by_name.get(name, ()))

    def _returns(
        self, function: Function, selector: Selector, frame: Frame, depth: int, arity: int | None = None
    ) -> list[Draw]:
        draws: list[Draw] = []
        alone = not selector and any(not isinstance(e.value, t.Seq) for e in function.flow.returns if e.value)
        for event in function.flow.returns:
            if event.value is None or (alone and isinstance(event.value, t.Seq) and len(event.value.items) > 1):
                continue  # `return action, probabilities` beside `return action`: not what this caller asks for
            if arity is not None and isinstance(event.value, t.Seq) and len(event.value.items) != arity:
                continue  # what comes back can't be taken apart like that: another class's method
            verdicts = [self._feasible(guard, frame) for guard in event.context.guards]
            if any(v is False for v in verdicts):
                continue
            found = self._trace(event.value, selector, frame, event.context, depth + 1)
            draws += self._decided(found, event.context.guards, frame)
            if event.context.guards and all(v is True for v in verdicts) and not event.is_yield:
                break
        return draws

    @staticmethod
    def _merge(draws: list[Draw]) -> list[Draw]:
        """Real draws hide plain network outputs; equal draws count once."""
        drawing = {d.owner for d in draws if d.rule != "network"}
        kept = [d for d in draws if d.rule != "network" or not (d.owner in drawing or (not d.owner and drawing))]
        seen: set[tuple[object, ...]] = set()
        out = []
        for d in kept:
            key = (d.rule, d.file, d.line, d.chance, d.owner, d.guards, tuple((x.file, x.line) for x in d.decisions))
            if key not in seen:
                seen.add(key)
                out.append(d)
        return out
