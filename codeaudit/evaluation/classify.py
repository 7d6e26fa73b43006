"""The rule of one selection of an action, and whose choice it was, in each of the ways in which the code is entered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from codeaudit.evaluation import words
from codeaudit.evaluation.draw import Decision, Draw
from codeaudit.evaluation.draws import Tracer
from codeaudit.evaluation.rollouts import Rollout
from codeaudit.evaluation.selections import Selection
from codeaudit.evaluation.sites import Evidence, Place
from codeaudit.facts import tree as t
from codeaudit.program.folding import Known, Origin
from codeaudit.program.frames import Frame
from codeaudit.program.index import function_at, last_name

FROM_ORIGIN = {
    "literal": "explicit",
    "default": "inherited_default",
    "option": "config",
    "mode": "hard_coded",
    "library": "framework_default",
}
DRAWN = {
    "sampled": "draws from the distribution",
    "greedy": "takes the best action",
    "noisy": "adds noise to the action",
    "uniform_random": "draws uniformly",
    "epsilon_greedy": "takes the best action, except with probability epsilon",
    "network": "acts by the network's output; nothing is drawn",
}
# Where several things decide one rule, the one nearest to a person's choice is named.
WEIGHT = {"mode": 0, "library": 1, "literal": 2, "default": 3, "option": 4}


@dataclass(frozen=True)
class Classified:
    """One rule that a selection may follow, in one way into the code."""

    rule: str
    provenance: str
    frame: Frame = field(repr=False)
    draws: tuple[Draw, ...] = ()
    epsilon: float | None = None
    default_site: Place | None = None
    sink: Place | None = None
    evidence: tuple[Evidence, ...] = ()
    sure: bool = True
    unknown: str = ""
    decided_at: Frame | None = None

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.owner for d in self.draws if d.owner))


class Classifier:
    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.evaluator = tracer.evaluator
        self.training_draws: dict[tuple[str, int], set[str]] = {}  # draws that training rollouts use, with their rules
        self.training_functions: set[int] = set()  # the functions that training rollouts enter to select an action

    def classify(self, rollout: Rollout, selection: Selection, frame: Frame) -> list[Classified]:
        """The rules under which this selection acts when the function is entered by this frame."""
        node, use, selector = selection.node, selection.context, selection.selector
        draws = self.tracer.draws(node, frame, use, selector)
        if all(d.rule in ("network", "greedy", "unknown") for d in draws):
            # What happens between the selection and the step may add noise, or be all that can be seen.
            whole = self.tracer.draws(rollout.action, frame, rollout.event.context)
            added = [d for d in whole if d.rule == "noisy" or any(x.test == 0 for x in d.decisions)]
            if ((added or not draws) and len(rollout.selections) == 1) or (not draws and whole):
                node, use, selector = rollout.action, rollout.event.context, ()
                draws = added or whole
        draws = [self._under(selection, rollout, d, frame) for d in draws]
        alternatives = self.tracer.alternatives(node, frame, use, selector) if draws else []
        return self._grouped(draws, alternatives, selection, frame)

    def _under(self, selection: Selection, rollout: Rollout, draw: Draw, frame: Frame) -> Draw:
        """The draw with the conditions between its selection and the step."""
        guards = selection.guards
        if (other := selection.replaced) is not None:  # which of the two acts matters only where their rules differ
            rivals = {d.rule for d in self.tracer.draws(other.node, frame, other.context, other.selector)}
            guards = guards[:-1] if rivals == {draw.rule} else guards
        if not draw.guards >= {(id(test), held) for test, held in guards}:
            (draw,) = self.tracer._decided([draw], guards, frame)
        # A condition with another selection on its other side always matters: the rules may differ there.
        split = {
            id(test)
            for test, held in guards
            for rival in rollout.selections
            if (id(test), not held) in {(id(x), h) for x, h in rival.guards}
        }
        decisions = tuple(replace(d, test=0) if d.test in split else d for d in draw.decisions)
        return replace(draw, decisions=decisions)

    def is_closed(self, selection: Selection, frame: Frame) -> bool:
        """Whether the conditions on the way to a selection don't hold when the function is entered by this frame."""
        return any(self.evaluator.holds(guard, frame)[0] is False for guard in selection.guards)

    def is_off(self, selection: Selection, frames: list[Frame]) -> bool:
        """A branch that no caller takes: its condition is a literal or a default that is always the other way; or
        an option
        of the action rule itself that is off."""
        for test, held in selection.guards:
            verdicts = [self.evaluator.holds((test, held), frame) for frame in frames]
            if verdicts and all(verdict is False for verdict, _ in verdicts):
                kinds = {origin.kind for _, origin in verdicts if origin is not None}
                names = {last_name(p) for p in t.walk(test) if isinstance(p, (t.Name, t.Attr))}
                if "option" not in kinds or any(words.RULE_NAME.search(n) for n in names):
                    return True
        return False

    def _grouped(
        self, draws: list[Draw], alternatives: list[Draw], selection: Selection, frame: Frame
    ) -> list[Classified]:
        by_owner: dict[tuple[str, str], list[Draw]] = {}
        exploring = [d for d in draws if d.chance == "random" and d.rule == "uniform_random"]
        for d in draws:
            if d not in exploring or len(exploring) == len(draws):
                by_owner.setdefault((d.owner, d.dispatch), []).append(d)
        for (owner, _), group in by_owner.items():
            group.extend(d for d in exploring if d not in group and (not d.owner or d.owner == owner or owner == "?"))
        out = []
        for group in by_owner.values():
            others = [a for a in alternatives if a.owner == group[0].owner or len(by_owner) == 1]
            made = self._one(group, others, selection, frame)
            if made is not None:
                out.append(made)
        if not out:
            place = Place(frame.function.module.path, selection.node.line)
            return [
                Classified("unknown", "unknown", frame, unknown="the action can't be followed to a draw", sink=place)
            ]
        return out

    def _one(
        self, draws: list[Draw], alternatives: list[Draw], selection: Selection, frame: Frame
    ) -> Classified | None:
        here = Place(frame.function.module.path, selection.node.line)
        exploring = [d for d in draws if d.chance == "random" and d.rule == "uniform_random"]
        acting = [d for d in draws if d not in exploring]
        if not acting:
            acting = draws
            exploring = []
        rules = {d.rule for d in acting}
        if "uniform_random" in rules and len(rules) > 1:  # a fallback action under a condition that nobody could decide
            acting = [d for d in acting if d.rule != "uniform_random"]
            rules.discard("uniform_random")
        if len(rules) > 1:
            least = min(d.doubt for d in acting)
            acting = [d for d in acting if d.doubt == least]
            rules = {d.rule for d in acting}
        main = acting[0] if acting[0].sure else max(acting, key=lambda d: bool(d.decisions))
        rule = "greedy" if main.rule == "network" else main.rule
        unknown = ""
        if len({"greedy" if d.rule == "network" else d.rule for d in acting}) > 1:
            main = self._preferred(acting)
            rule = "greedy" if main.rule == "network" else main.rule
            unknown = "several draws are possible here and no option or default decides between them"
        epsilon: Known | None = next((d.epsilon for d in exploring if d.epsilon is not None), main.epsilon)
        decisions = [*main.decisions]
        if exploring or (main.chance == "other" and rule in ("greedy", "sampled", "noisy")):
            amount = epsilon.value if epsilon is not None and isinstance(epsilon.value, (int, float)) else None
            if epsilon is not None:
                test = exploring[0].epsilon_test if exploring else main.epsilon_test
                at = test or (here.file, here.line)
                decisions.append(Decision(at[0], at[1], epsilon.origin, f"epsilon is {_shown(epsilon.value)}"))
            if amount is None or amount > 0:
                rule = "epsilon_greedy"
        alone = [d for d in decisions if self._matters(d, rule, main, alternatives, alone=True)]
        relevant = alone or [d for d in decisions if self._matters(d, rule, main, alternatives)]
        ranked = sorted(relevant, key=lambda d: -WEIGHT[d.origin.kind])
        deciding = ranked[0] if ranked else None
        sink = Place(main.file, main.line)
        default_site: Place | None = None
        if deciding is not None and deciding.origin.kind in FROM_ORIGIN:
            provenance = FROM_ORIGIN[deciding.origin.kind]
            if provenance in ("config", "inherited_default"):
                default_site = Place(deciding.origin.file, deciding.origin.line)
            if provenance == "explicit" and self._is_internal(deciding, main, frame):
                provenance = "hard_coded"
        elif rule == "unknown":
            provenance = "unknown"
            unknown = unknown or main.why or "the draw can't be seen"
        else:
            provenance = "hard_coded"
        if provenance == "hard_coded" and (deciding is None or deciding.origin.kind == "literal"):
            if self._shared_with_training(rule, main, frame):
                provenance = "training_sampler"
        evidence = self._evidence(main, deciding, here, rule)
        return Classified(
            rule,
            provenance,
            frame,
            tuple(acting),
            float(epsilon.value)
            if rule == "epsilon_greedy" and epsilon and isinstance(epsilon.value, (int, float))
            else None,
            default_site,
            sink,
            evidence,
            sure=all(d.sure for d in acting) and not unknown,
            unknown=unknown,
        )

    @staticmethod
    def _preferred(draws: list[Draw]) -> Draw:
        order = {"sampled": 0, "noisy": 1, "greedy": 2, "network": 3, "uniform_random": 4}
        counts: dict[str, int] = {}
        for d in draws:
            counts[d.rule] = counts.get(d.rule, 0) + 1
        return min(draws, key=lambda d: (d.doubt, not d.sure, -counts[d.rule], order.get(d.rule, 5)))

    @staticmethod
    def _matters(decision: Decision, rule: str, main: Draw, alternatives: list[Draw], *, alone: bool = False) -> bool:
        """Whether a condition decides the rule: with it (alone: and no other) turned round, another would be
        possible."""
        if decision.test == 0:
            return True
        mine = next((held for test, held in main.guards if test == decision.test), None)
        if mine is None:
            return False
        base = "network" if main.rule == "network" else main.rule
        same = {"greedy", "network"}
        for other in alternatives:
            turned = {test for test, held in main.guards if (test, not held) in other.guards}
            if decision.test in turned and (not alone or len(turned) == 1):
                if other.rule != base and not (other.rule in same and base in same):
                    return True
                if other.chance != main.chance:
                    return True
                # Two outputs of a network that can't be looked into, told apart by an option with a rule's name.
                named = words.RULE_NAME.search(decision.origin.name)
                if named and base == other.rule == "network" and other.line != main.line:
                    return True
        return False

    def _passed_below(self, origin: Origin, main: Draw) -> bool:
        """Whether a literal stands in a call that the asked function itself makes on the way to the draw."""
        module = self.tracer.program.modules.get(origin.file)
        holder = function_at(module, origin.line) if module is not None else None
        if module is None or holder is None:
            return False
        return any(file == origin.file and function_at(module, line) is holder for file, line, _ in main.path[1:])

    def _is_internal(self, decision: Decision, main: Draw, frame: Frame) -> bool:
        """A literal that the callee holds itself is no choice of the caller's."""
        origin = decision.origin
        if origin.kind != "literal" or main.function is frame.function:
            return False
        if origin.file != main.file and not self._passed_below(origin, main):
            return False
        module = self.tracer.program.modules.get(origin.file)
        # A literal on the way in is a choice, also in a script that holds everything.
        if module is None or frame.inside(function_at(module, origin.line)):
            return False
        return all(file == origin.file for file, _, _ in origin.trail)

    def _shared_with_training(self, rule: str, main: Draw, frame: Frame) -> bool:
        if main.function is frame.function and not main.path:
            return (main.file, main.line) in self.training_draws and rule in self.training_draws[(main.file, main.line)]
        if main.through and not main.through & self.training_functions:
            return False  # another function that happens to end in the same draw
        return rule in self.training_draws.get((main.file, main.line), set())

    def learn_training(self, rollout: Rollout, frames: list[Frame]) -> None:
        """Remember which draws a training rollout uses, so that an evaluation that shares them can be told."""
        for frame in frames[:4]:
            for d in self.tracer.draws(rollout.action, frame, rollout.event.context):
                rule = "greedy" if d.rule == "network" else d.rule
                if d.chance == "other":
                    rule = "epsilon_greedy"
                self.training_draws.setdefault((d.file, d.line), set()).add(rule)
                self.training_functions |= d.through

    def _evidence(self, main: Draw, deciding: Decision | None, here: Place, rule: str) -> tuple[Evidence, ...]:
        steps = [Evidence(here, "selects the action")]
        for file, line, what in main.path:
            if (file, line) != (here.file, here.line):
                steps.append(Evidence(Place(file, line), what))
        if deciding is not None:
            origin: Origin = deciding.origin
            for file, line, what in origin.trail:
                steps.append(Evidence(Place(file, line), what))
            noun = {
                "option": "the option's default",
                "default": "the parameter's default",
                "literal": "a literal",
                "mode": "the module's mode",
                "library": "the library's default",
            }[origin.kind]
            label = f" `{origin.name}`" if origin.name else ""
            if origin.kind != "mode":
                steps.append(Evidence(Place(origin.file, origin.line), f"{noun}{label} decides"))
            if (deciding.file, deciding.line) != (origin.file, origin.line):
                steps.append(Evidence(Place(deciding.file, deciding.line), deciding.what))
        if main.rule == "unknown" or rule == "unknown":
            steps.append(Evidence(Place(main.file, main.line), main.why or "the draw can't be seen"))
        else:
            what = DRAWN["network"] if main.rule == "network" and rule == "greedy" else DRAWN[rule]
            steps.append(Evidence(Place(main.file, main.line), main.why or what))
        unique: list[Evidence] = []
        for step in steps:
            if not unique or unique[-1] != step:
                unique.append(step)
        return tuple(unique)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
