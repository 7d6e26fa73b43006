"""How much noise is in an action: added to it, set to zero, learned as a scale, or live in a network's layers."""

from __future__ import annotations

from dataclasses import replace

from codeaudit.evaluation import words
from codeaudit.evaluation.chances import Chances
from codeaudit.evaluation.draw import Decision, Draw
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Definition
from codeaudit.program.folding import Known
from codeaudit.program.frames import Frame, FunctionValue, Instance
from codeaudit.program.index import last_name


class Noise(Chances):
    """Noise terms, scales and noisy layers."""

    def _is_learned(self, node: t.Node, frame: Frame) -> bool:
        """Noise whose size the network gives (`mu + std * eps`): a reparameterised sample, not exploration noise."""
        for part, where in self._expanded(node, frame, None):
            if isinstance(part, (t.Name, t.Attr)) and words.LEARNED_SCALE.search(last_name(part)):
                set_by_hand = words.EXPLORATION_NAME.search(last_name(part)) or self.evaluator.evaluate(part, where)
                if not set_by_hand:
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
            if name in words.GAUSSIAN or (
                name in ("sample", "uniform") and words.NOISE_NAME.search(t.dotted(node.func) or "")
            ):
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
            kept_away: Known | None = None
            for d in found[0] if found else ():
                noise = self._noise(d.value, found[1], depth + 1) if found and d.kind == "assign" else None
                if noise is None:
                    continue
                shut = [g for g in d.context.guards if self._feasible(g, frame) is False]
                if not shut:
                    return noise
                origin = self.evaluator.holds(shut[0], frame)[1]
                kept_away = Known(0.0, origin) if origin is not None else None
            if kept_away is not None:  # `if training: noise = …, else: noise = 0`
                return kept_away
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
            if (
                last_name(part.func) in ("Normal", "MultivariateNormalDiag", "TruncatedNormal", "normal")
                and len(part.args) > 1
            ):
                known = self.evaluator.evaluate(part.args[1].value, where)
                if known is not None and isinstance(known.value, (int, float)) and not known.value:
                    return known
        return None

    def _spread(self, draw: Draw, scale: t.Node, learned: bool, node: t.Call, frame: Frame) -> Draw:
        """An action drawn around the one that `draw` gives: a sample where the policy itself says how far, else a
        deterministic action with noise; none at a scale of zero."""
        if draw.rule not in ("network", "greedy"):
            return draw
        here = (frame.function.module.path, node.line)
        known = self.evaluator.evaluate(scale, frame)
        if known is not None and isinstance(known.value, (int, float)) and not known.value:
            decision = Decision(*here, known.origin, "the noise is scaled to zero")
            return replace(draw, decisions=(*draw.decisions, decision))
        drawn = replace(draw, file=here[0], line=here[1], function=frame.function)
        if learned and known is None:
            return replace(drawn, rule="sampled")
        decisions = (Decision(*here, known.origin, "the noise's scale"),) if known is not None else ()
        return replace(drawn, rule="noisy", decisions=(*draw.decisions, *decisions))

    def _left_out(
        self, definitions: list[Definition], use: Context | None, frame: Frame
    ) -> tuple[tuple[Decision, ...], frozenset[tuple[int, bool]]]:
        """Noise that a condition keeps away: `if sigma > 0: action += noise`, with sigma zero. And the conditions."""
        decisions, guards = [], set()
        for d in definitions if use is not None else ():
            if use is None or d.context.order > use.order or not d.context.guards:
                continue
            guard = d.context.guards[-1]
            if any(guard[0] is test for test, _ in use.guards) or self._feasible(guard, frame) is not False:
                continue
            origin = self.evaluator.holds(guard, frame)[1]
            if origin is not None and self._noise(d.value, frame) is not None:
                path = frame.function.module.path
                decisions.append(Decision(path, guard[0].line, origin, "no noise is added"))
                guards.add((id(guard[0]), not guard[1]))
        return tuple(decisions), frozenset(guards)

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
