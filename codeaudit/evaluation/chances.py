"""Whether a condition is a throw of the dice: the epsilon of an epsilon-greedy rule, wherever it sits."""

from __future__ import annotations

from codeaudit.evaluation import words
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Guard
from codeaudit.program.frames import Frame, FunctionValue
from codeaudit.program.index import last_name
from codeaudit.program.libraries import Libraries
from codeaudit.program.reaching import reaching
from codeaudit.program.resolve import Resolver
from codeaudit.program.values import Evaluator

MAX_STEPS = 12  # from a name to the random number that it holds


class Chances:
    """Conditions that compare an amount with a random number."""

    def __init__(self, resolver: Resolver, evaluator: Evaluator, libraries: Libraries) -> None:
        self.resolver = resolver
        self.evaluator = evaluator
        self.libraries = libraries
        self.program = resolver.program
        self.unpruned = False

    def _feasible(self, guard: Guard, frame: Frame) -> bool | None:
        if self.unpruned:
            return None
        if dispatch_word(guard[0]):
            return None  # one line may serve several agents: each is looked at
        return self.evaluator.holds(guard, frame)[0]

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
            if (
                op in ("==", "is")
                and isinstance(right, t.Const)
                and right.value in (1, True)
                and isinstance(test.left, t.Call)
            ):
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

    def _is_random(self, node: t.Node, frame: Frame, depth: int = 0) -> bool:
        if depth > MAX_STEPS:  # `x = x.numpy()` leads to itself
            return False
        if isinstance(node, t.Call):
            name = last_name(node.func)
            if name in words.CONVERSIONS and isinstance(node.func, t.Attr):
                return self._is_random(node.func.obj, frame, depth + 1)
            return name in words.RANDOM_CALLS
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            return found is not None and any(
                isinstance(d.value, t.Call) and self._is_random(d.value, frame, depth + 1) for d in found[0]
            )
        if isinstance(node, t.Sub):
            return self._is_random(node.obj, frame, depth + 1)
        return False

    def _expanded(self, node: t.Node, frame: Frame, use: Context | None) -> list[tuple[t.Node, Frame]]:
        """The nodes of an expression and of the local definitions of the names in it, two steps deep."""
        out: list[tuple[t.Node, Frame]] = []
        queue = [(node, 0, use)]
        seen: set[int] = set()  # definitions, not names: `dist = dist * support`
        while queue:
            current, depth, at = queue.pop(0)
            for part in t.walk(current):
                out.append((part, frame))
                if isinstance(part, t.Name) and depth < 4:
                    found = frame.function.flow.definitions.get(part.id)
                    for d, _ in reaching(found, at, lambda guard: self._feasible(guard, frame)) if found else ():
                        if id(d) not in seen:
                            seen.add(id(d))
                            queue.append((d.value, depth + 1, d.context))
            if len(out) > 4000:
                break
        return out

    def _defining_calls(self, node: t.Node, frame: Frame) -> list[tuple[t.Call, Frame]]:
        if isinstance(node, t.Call):
            return [(node, frame)]
        if isinstance(node, t.Name):
            found = self.resolver.definitions(node.id, frame)
            if found:
                return [(d.value, found[1]) for d in found[0] if isinstance(d.value, t.Call)]
        return []


def dispatch_word(test: t.Node) -> str:
    """The agent's name in a test such as `algo == "dqn"`; "" for any other test."""
    if isinstance(test, t.Compare) and len(test.ops) == 1 and test.ops[0][0] in ("==", "in"):
        other = test.ops[0][1]
        if words.DISPATCH.search(last_name(test.left)):
            if isinstance(other, t.Const) and isinstance(other.value, str):
                return other.value
            if (
                isinstance(other, t.Seq)
                and other.items
                and all(isinstance(i, t.Const) and isinstance(i.value, str) for i in other.items)
            ):
                return str(other.items[0].value)  # type: ignore[attr-defined]
    return ""
