"""From a program to its evaluation sites: the order in which the questions are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from codeaudit.evaluation import words
from codeaudit.evaluation.agents import agent_of
from codeaudit.evaluation.classify import FROM_ORIGIN, Classified
from codeaudit.evaluation.contexts import contexts
from codeaudit.evaluation.delegated import delegated_sites
from codeaudit.evaluation.environments import Made
from codeaudit.evaluation.purpose import seen_from_callers, use_of
from codeaudit.evaluation.reported import report_site
from codeaudit.evaluation.rollouts import Rollout
from codeaudit.evaluation.selections import Selection
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place
from codeaudit.evaluation.spawned import spawned_sites
from codeaudit.evaluation.switches import Names, says_measuring
from codeaudit.evaluation.tools import Found, Tools
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, last_name

NO_MEASUREMENT = ("unit test", "a learned model", "a planner's own search")
MAKES_ALL = "makes the environment; num_levels=0 draws from every level, those of training among them"
MAX_LEVEL_SETS = 16  # ways into a roll-out whose levels are compared
MAX_GUESSES = 5  # classes that a method's name may mean before listing them says nothing


class Audit(Tools):
    """Finds and classifies the evaluation sites of a program."""

    def sites(self) -> list[EvaluationSite]:
        """Every evaluation site of the program, in order of file and line."""
        found = self.rollouts()
        training = [f for f in found if f.use.kind == "training"]
        self.training_environments = [
            m for f in training for frame in f.frames[:6] for m in self.environments.made(f.rollout.environment, frame)
        ]
        for f in training:
            with self.one_at_a_time(f.rollout.function):
                self.classifier.learn_training(f.rollout, list(f.frames))
        sites: list[EvaluationSite] = []
        for f in found:
            with self.one_at_a_time(f.rollout.function):
                if f.use.kind in ("evaluation", "demo"):
                    sites.extend(self._measured(f))
                elif f.use.kind == "training":
                    sites.extend(self._set_apart(f))
        sites.extend(delegated_sites(self))
        sites.extend(spawned_sites(self, sites))
        if not any(s.role != "demo" and s.agent != "random" for s in sites):
            for f in training:
                with self.one_at_a_time(f.rollout.function):
                    sites.extend(self._training_returns(f))
        return _unique(s for s in sites if ":" not in s.file)  # a dependency's own evaluations aren't this repository's

    def rollouts(self) -> list[Found]:
        """Every roll-out that acts, with its use and the entry points it is reached from."""
        found = []
        for function in self.program.functions:
            if function.module.package:
                continue
            with self.one_at_a_time(function):
                found.extend(self._in_function(function))
        return found

    def _in_function(self, function: Function) -> list[Found]:
        found = []
        rollouts = self.finder.rollouts(function)
        for rollout in rollouts:
            if not rollout.selections:
                continue
            stepping = rollout.function  # the function, or one that hands the action to it
            use = use_of(rollout, rollouts, self.resolver)
            if use.named in NO_MEASUREMENT or self.is_dead(stepping):
                continue
            frames = tuple(contexts(stepping, self.resolver))
            frames = tuple(f for f in frames if not self.is_dead(f.root.function)) or frames
            frames = tuple(f for f in frames if not words.is_test(f.root.function.module.path)) or frames
            frames = tuple(f for f in frames if not self._is_shut(f)) or frames
            if not use.updates and (use.kind in ("training", "none") or use.named in ("", "weak", "mode")):
                shared = use.kind != "training" or (use.named == "weak" and use.resets)
                names: Names = "objects" if shared else "callers" if use.named == "data" else "none"
                said = {id(f): says_measuring(f, self.evaluator, names) for f in frames}
                for verdict, kind in ((True, "evaluation"), (False, "training")):
                    switched = tuple(f for f in frames if said[id(f)] is verdict)
                    if switched and True in said.values():
                        seen = replace(use, kind=kind, named="switch", resets=use.resets or verdict)
                        found.append(Found(rollout, seen, switched))
                        frames = tuple(f for f in frames if f not in switched)
            if not frames or use.kind == "none":
                continue
            found.append(Found(rollout, seen_from_callers(use, frames, self.resolver), frames))
        return found

    def _is_shut(self, frame: Frame) -> bool:
        """Whether a call on the way in stands under a condition that the very object it is made on rules out."""
        while frame.parent is not None:
            context = frame.parent.function.flow.contexts.get(id(frame.call))
            for guard in context.guards if context is not None else ():
                held, origin = self.evaluator.holds(guard, frame.parent)
                if held is False and origin is not None and origin.kind == "literal":
                    return True
            frame = frame.parent
        return False

    def _measured(self, f: Found) -> list[EvaluationSite]:
        sites: list[EvaluationSite] = []
        for selection in f.rollout.selections:
            if self._explores(selection, f) or self.classifier.is_off(selection, list(f.frames)):
                continue
            frames = _for_measuring(f.frames) if f.use.named in ("", "weak", "file") else f.frames
            taken = [frame for frame in frames if not self.classifier.is_closed(selection, frame)] or list(frames)
            classified = [c for frame in taken for c in self.classifier.classify(f.rollout, selection, frame)]
            if all(c.rule == "uniform_random" for c in classified):
                if not f.use.measured or not self._reports_mean(f.rollout.function):
                    continue
            here, elsewhere = self._shared_out(f, classified)
            for group in self._groups(here, f):
                sites.append(self._site(f, selection, group))
            for group in elsewhere:
                sites.append(self._at_caller(f, selection, group))
        return sites

    def _shared_out(self, f: Found, classified: list[Classified]) -> tuple[list[Classified], list[list[Classified]]]:
        """What a helper's own line says, and the callers that decide differently and so are sites of their own.

        The helper speaks for the callers that leave its default, unless these are the fewer of several in other files;
        else for those in its own file, else for all."""
        function = f.rollout.function
        if function.name == "<module>" or f.use.kind == "demo":
            return classified, []
        first, last = function.node.line, function.node.body[0].line if function.node.body else function.node.line
        own = [
            c
            for c in classified
            if c.provenance == "inherited_default"
            and c.default_site is not None
            and c.default_site.file == function.module.path
            and first <= c.default_site.line <= last
        ]
        outside = [c for c in classified if _entry(c.frame) is not None]
        inside = [c for c in classified if c not in outside]
        if own and not inside:
            leaving = {id(entry.call) for c in own if (entry := _entry(c.frame))}
            deciding = {id(entry.call) for c in classified if c.sure and (entry := _entry(c.frame))} - leaving
            if len(deciding) > len(leaving):
                own = [c for c in classified if c not in own]
        here = own or (inside if outside and any(c.rule != "unknown" for c in inside) else classified)
        keys = {(c.rule, c.provenance, c.default_site) for c in here}
        shown = [c for c in outside if self._is_demo_caller(c)]  # calls that only show what others measure
        shown = shown if len(shown) < len(classified) else []
        groups: dict[int, list[Classified]] = {}
        for c in classified:
            if c in here and c not in shown:
                continue
            # Another agent's rule is that agent's doing; the same agent under another rule is the caller's.
            peers = {p.rule for p in here if p.owners == c.owners}
            differs = (c.rule, c.provenance, c.default_site) not in keys and c.rule != "unknown"
            differs = differs and bool(peers) and (c.provenance != "hard_coded" or c.rule not in peers)
            entry = _entry(c.frame) or c.frame
            if entry.call is not None and ((differs and c.sure) or c in shown):
                groups.setdefault(id(entry.call), []).append(c)
        rest = [c for c in here if id((_entry(c.frame) or c.frame).call) not in groups] or here
        return rest, list(groups.values())

    @staticmethod
    def _is_demo_caller(c: Classified) -> bool:
        entry = _entry(c.frame)
        if entry is None or entry.parent is None:
            return False
        caller = entry.parent.function
        stem = caller.module.path.rpartition("/")[2].rpartition(".")[0]
        return bool(words.DEMO.search(stem) or words.DEMO.search(caller.name))

    def _at_caller(self, f: Found, selection: Selection, group: list[Classified]) -> EvaluationSite:
        """The call into an evaluation helper, where the entry point decides the rule differently."""
        site = self._site(f, selection, group)
        frame = _entry(group[0].frame) or group[0].frame
        assert frame.call is not None and frame.parent is not None
        caller, call = frame.parent.function, frame.call
        event = next((e for e in caller.flow.calls if e.call is call), None)
        reported = report_site(caller, event.context.order if event else 0, frame.parent) or site.report_site
        role = "demo" if self._is_demo_caller(group[0]) else site.role
        place = Place(caller.module.path, call.line)
        evidence = (Evidence(place, f"calls the evaluation helper `{f.rollout.function.qualified}`"), *site.evidence)
        return replace(
            site,
            file=place.file,
            line=place.line,
            end_line=call.end_line,
            function=caller.name,
            role=role,
            evidence=evidence,
            report_site=reported,
        )

    def _explores(self, selection: Selection, f: Found) -> bool:
        """The random branch beside a policy's action: part of the other selection's rule, or a warm-up."""
        if len(f.rollout.selections) == 1:
            return False
        draws = [
            d
            for frame in f.frames[:2]
            for d in self.tracer.draws(selection.node, frame, selection.context, selection.selector)
        ]
        return bool(draws) and all(d.rule == "uniform_random" for d in draws)

    @staticmethod
    def _reports_mean(function: Function) -> bool:
        names = {last_name(e.call.func) for e in function.flow.calls}
        return bool(names & {"mean", "average", "median", "sum", "std", "fmean"}) or any(
            e.value is not None for e in function.flow.returns
        )

    def _groups(self, classified: list[Classified], f: Found) -> list[list[Classified]]:
        """One group per rule and chooser that can really differ; guesses by name never make a further site."""
        sure = [c for c in classified if c.sure and c.rule != "unknown"]
        if all(c.rule == "uniform_random" for c in sure):
            sure = []  # a random player that is certain doesn't stand for an agent that is guessed
        pool = sure or [c for c in classified if c.rule != "unknown"] or classified
        if not sure:
            # Guesses by a method's name: a few candidates are listed, of many the commonest stands for all.
            pool = [c for c in pool if c.rule != "uniform_random"] or pool
            told = words.says_evaluation(last_name(f.rollout.selections[0].node))  # every agent's `test_step`
            if len({c.owners for c in pool}) > MAX_GUESSES and not told:
                commonest = Counter((c.rule, c.provenance) for c in pool).most_common(1)[0][0]
                pool = [c for c in pool if (c.rule, c.provenance) == commonest]
        groups: dict[tuple[Any, ...], list[Classified]] = {}
        entered: dict[tuple[Any, ...], set[int]] = {}
        for c in pool:
            function = f.rollout.function
            agent = agent_of(c.rule, list(c.draws), self._owners(c, function), function.qualified, function.module.path)
            asked = {id(d.asked) for d in c.draws if d.asked is not None}
            key: tuple[Any, ...] = (c.rule, c.provenance, agent)
            for other in groups:  # a class acts for one agent, whatever its parts are called
                one_kind = (other[2] == "value_based") == (agent == "value_based")
                if other[:2] == key[:2] and one_kind and (not asked or not entered[other].isdisjoint(asked)):
                    key = other
            groups.setdefault(key, []).append(c)
            entered.setdefault(key, set()).update(asked)
        return list(groups.values())

    def _site(self, f: Found, selection: Selection, group: list[Classified]) -> EvaluationSite:
        rollout, use = f.rollout, f.use
        made = {id(c): self.environments.made(rollout.environment, c.frame, rollout.event.context) for c in group}
        apart = [c for c in group if any(self.environments.set_apart(m, self.compared_with(m)) for m in made[id(c)])]
        chosen = (apart or group)[0]
        environments = sorted(made[id(chosen)], key=lambda m: not self.environments.set_apart(m, self.compared_with(m)))
        procedure = self._procedure(f, chosen)
        chosen = self._through_wrappers(chosen, environments)
        if use.kind == "demo" and chosen.rule != "uniform_random":
            role = "demo"
        elif apart or self.environments.several_level_sets(
            [m for frame in f.frames[:MAX_LEVEL_SETS] for m in self.environments.made(rollout.environment, frame)]
        ):
            role = "heldout"
        elif environments and all(m.call is None and m.optional for m in environments):
            role = "unknown"
        else:
            role = "same_env"
        return self._build(rollout, selection, chosen, procedure, role, environments)

    def _through_wrappers(self, chosen: Classified, environments: list[Made]) -> Classified:
        """The rule once the environment's own wrappers have had their way with the action."""
        if chosen.rule != "greedy":
            return chosen
        for made in environments[:1]:
            wrapper = self.environments.random_wrapper(made, self.tracer)
            if wrapper is None:
                continue
            amount, place = wrapper
            if not isinstance(amount.value, (int, float)) or amount.value <= 0:
                continue
            origin = amount.origin
            kind = FROM_ORIGIN[origin.kind]
            evidence = (
                *chosen.evidence,
                Evidence(place, "a wrapper of the environment replaces the action by a random one"),
            )
            default = Place(origin.file, origin.line) if kind in ("config", "inherited_default") else None
            epsilon = float(amount.value)
            return replace(
                chosen,
                rule="epsilon_greedy",
                provenance=kind,
                epsilon=epsilon,
                default_site=default,
                evidence=evidence,
            )
        return chosen

    def _build(
        self,
        rollout: Rollout,
        selection: Selection,
        chosen: Classified,
        procedure: str,
        role: str,
        environments: list[Made],
    ) -> EvaluationSite:
        function = rollout.function
        path = function.module.path
        made = next((m for m in environments if m.place is not None), None)
        draws = [*chosen.draws]
        agent = agent_of(chosen.rule, draws, self._owners(chosen, function), function.qualified, path)
        reported = report_site(function, rollout.event.context.order, chosen.frame, frozenset(rollout.results))
        evidence = [*chosen.evidence]
        if made is not None and made.place is not None:
            everything = role == "heldout" and self.environments.plays_every_level(made)
            evidence.append(Evidence(made.place, MAKES_ALL if everything else "makes the environment"))
        if reported is not None:
            evidence.append(Evidence(reported, "reports the return"))
        node = selection.node
        confidence = "high" if chosen.sure and chosen.rule != "unknown" and not chosen.unknown else "low"
        if confidence == "high" and (procedure == "unknown" or role == "unknown" or not chosen.draws):
            confidence = "medium"
        return EvaluationSite(
            id="",
            file=path,
            line=node.line,
            end_line=node.end_line if isinstance(node, t.Call) else node.line,
            function=function.name,
            agent=agent,
            rule=chosen.rule,  # type: ignore[arg-type]
            provenance=chosen.provenance,  # type: ignore[arg-type]
            procedure=procedure,  # type: ignore[arg-type]
            role=role,  # type: ignore[arg-type]
            confidence=confidence,  # type: ignore[arg-type]
            evidence=tuple(evidence),
            epsilon=chosen.epsilon,
            unknown=chosen.unknown,
            default_site=chosen.default_site,
            sink=chosen.sink,
            env_site=made.place if made else None,
            report_site=reported,
        )

    @staticmethod
    def _owners(chosen: Classified, function: Function) -> list[str]:
        owners = [*[d.dispatch for d in chosen.draws if d.dispatch], *chosen.owners]
        owners += [n for n in (last_name(e.call.func) for e in function.flow.calls) if words.PLANNER.search(n)]
        if function.owner is not None:
            owners.append(function.owner.name)
        return owners

    def _procedure(self, f: Found, chosen: Classified) -> str:
        if f.use.lockstep and not f.use.resets:
            return "in_loop"
        if f.use.resets:
            return "fixed_checkpoint"
        function = f.rollout.function
        if any(
            m.call is not None and m.frame.function is function
            for m in self.environments.made(f.rollout.environment, chosen.frame)
        ):
            if function.name != "<module>" and not self._trains(function):
                return "fixed_checkpoint"
        if self._trains(function) and f.rollout.event.context.loops:
            return "in_loop"
        frame = chosen.frame
        while frame.parent is not None:
            caller = frame.parent.function
            event = next((e for e in caller.flow.calls if e.call is frame.call), None)
            if event is not None and event.context.loops:
                inside = [e for e in caller.flow.calls if any(x is event.context.loops[-1] for x in e.context.loops)]
                if any(
                    isinstance(e.call.func, t.Attr) and e.call.func.name == "reset"
                    for e in inside
                    if e.context.order < event.context.order
                ):
                    return "fixed_checkpoint"
                if self._trains(caller):
                    return "in_loop"
            frame = frame.parent
        return "fixed_checkpoint"

    def _trains(self, function: Function) -> bool:
        """Whether a function updates a policy in a loop."""
        from codeaudit.evaluation.purpose import _is_update

        return any(_is_update(e, function) and e.context.loops for e in function.flow.calls)

    def _set_apart(self, f: Found) -> list[EvaluationSite]:
        """A training rollout whose environment is, in one of its uses, a held-out one: a second runner, a test
        worker."""
        sites: list[EvaluationSite] = []
        apart: list[tuple[Frame, list[Made], bool]] = []
        for frame in f.frames:
            made = self.environments.made(f.rollout.environment, frame)
            for m in made:
                marked = any(words.HELDOUT_NAME.search(n) for n in m.names)
                switched = m.call is not None and (
                    self.environments.test_switch(m.call, m.frame) or self.environments.has_test_rank
                )
                if marked or switched:
                    apart.append((frame, [m], switched))
        if not apart:
            return []
        # An environment made for the test comes before one that a test rank shares, and that before an
        # optional parameter.
        apart.sort(key=lambda a: (a[1][0].call is None, a[2]))
        for selection in f.rollout.selections:
            if self._explores(selection, f):
                continue
            classified = [c for frame, _, _ in apart for c in self.classifier.classify(f.rollout, selection, frame)]
            for group in self._groups(classified, f)[:1]:
                frame, made, switched = next((a for a in apart if a[0] is group[0].frame), apart[0])
                heldout = switched or any(self.environments.set_apart(m, self.compared_with(m)) for m in made)
                optional = all(m.call is None for m in made)
                role = "heldout" if heldout else "unknown" if optional else "same_env"
                chosen = group[0]
                if chosen.provenance == "hard_coded":
                    chosen = replace(chosen, provenance="training_sampler")
                sites.append(self._build(f.rollout, selection, chosen, "in_loop", role, made))
        return sites

    def _training_returns(self, f: Found) -> list[EvaluationSite]:
        """A repository that measures nothing else reports its training episodes."""
        sites = []
        for selection in f.rollout.selections:
            if self._explores(selection, f):
                continue
            classified = [c for frame in f.frames for c in self.classifier.classify(f.rollout, selection, frame)]
            known = [c for c in classified if c.rule not in ("unknown", "uniform_random")]
            if not known and any(c.rule == "uniform_random" for c in classified):
                continue
            for group in self._groups(known or classified, f)[:1]:
                chosen = replace(group[0], provenance="training_sampler", default_site=None)
                made = self.environments.made(f.rollout.environment, chosen.frame)
                sites.append(self._build(f.rollout, selection, chosen, "in_loop", "same_env", made))
        return sites


def _for_measuring(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The ways into a shared helper without those for learning, where the code tells the two apart by name."""
    names = [_said_on_the_way(frame) for frame in frames]
    if not any(words.says_evaluation(name) for said in names for name in said):
        return frames
    kept = [
        frame
        for frame, said in zip(frames, names, strict=True)
        if not any(words.TRAINING_NAME.search(name) for name in said)
        or any(words.says_evaluation(name) for name in said)
    ]
    return kept or frames


def _said_on_the_way(frame: Frame) -> list[str]:
    """The names along a chain of callers: functions, what a result is bound to, and words that are passed."""
    said: list[str] = []
    current: Frame | None = frame
    while current is not None and current.parent is not None and current.call is not None:
        caller = current.parent.function
        if caller.name not in ("<module>", "main"):
            said.append(caller.name)
        said.extend(
            a.value.value for a in current.call.args if isinstance(a.value, t.Const) and isinstance(a.value.value, str)
        )
        for name, definitions in caller.flow.definitions.items():
            if any(d.value is current.call for d in definitions) and words.SPLIT_NAME.search(name):
                said.append(name)
        current = current.parent
    return said


def _entry(frame: Frame) -> Frame | None:
    """The frame that another file's call enters, on the way down to a helper; None where all callers share its file."""
    module = frame.function.module
    current: Frame | None = frame
    while current is not None and current.parent is not None:
        if current.parent.function.module is not module:
            return current
        current = current.parent
    return None


def _unique(sites: Iterable[EvaluationSite]) -> list[EvaluationSite]:
    """One site per place, rule, chooser and agent, numbered in order."""
    best: dict[tuple[Any, ...], EvaluationSite] = {}
    for site in sites:
        key = (site.file, site.line, site.rule, site.provenance, site.agent)
        if key not in best:
            best[key] = site
    ordered = sorted(best.values(), key=lambda s: (s.file, s.line, s.rule, s.provenance, s.agent))
    return [replace(s, id=f"S{number}") for number, s in enumerate(ordered, start=1)]
