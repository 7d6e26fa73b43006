"""Evaluations that a library runs: the call in the user's code is the only trace, and a model says what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codeaudit.evaluation import words
from codeaudit.evaluation.agents import agent_of
from codeaudit.evaluation.contexts import contexts
from codeaudit.evaluation.environments import Made
from codeaudit.evaluation.purpose import UNIT_TEST
from codeaudit.evaluation.reported import report_site
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.frames import ClassValue, Frame, Instance, Library
from codeaudit.program.index import Function, last_name
from codeaudit.program.libraries import LibraryCall, Slot
from codeaudit.program.values import Known, Origin

if TYPE_CHECKING:
    from codeaudit.evaluation.find import Audit

PROVENANCE = {"literal": "explicit", "default": "inherited_default", "option": "config", "mode": "hard_coded"}


def delegated_sites(audit: Audit) -> list[EvaluationSite]:
    sites: list[EvaluationSite] = []
    for function in audit.program.functions:
        path = function.module.path
        if function.module.package or UNIT_TEST.search(path):
            continue
        for event in function.flow.calls:
            model = matching(audit, event.call, function)
            if model is None or model.kind == "action" or audit.is_dead(function):
                continue
            site = _training_site(audit, model, event, function) if model.kind == "training" else None
            if model.kind == "evaluation":
                site = _evaluation_site(audit, model, event, function)
            if site is not None:
                sites.append(site)
    return sites


def matching(audit: Audit, call: t.Call, function: Function) -> LibraryCall | None:
    """The model of the library call that this is; a class of the program that derives from a library's counts as it."""
    name = last_name(call.func)
    models = audit.libraries.by_name.get(name, [])
    frame = Frame(function)
    if models:
        for value in audit.resolver.types(call.func, frame):
            if isinstance(value, Library):
                found = named(value.name, models)
                if found is not None:
                    return found
    elif name[:1].isupper():
        for value in audit.resolver.types(call.func, frame):
            if isinstance(value, ClassValue):
                for base in audit.resolver.library_bases(value.info):
                    found = named(base, audit.libraries.by_name.get(base.rpartition(".")[2], []))
                    if found is not None and found.constructs:
                        return found
    return None


def named(dotted: str, models: list[LibraryCall]) -> LibraryCall | None:
    parts = dotted.split(".")
    for model in models:
        if parts[0] in model.packages and (not model.of or any(p in model.of for p in parts[1:-1])):
            return model
    return None


def slot_of(call: t.Call, slot: Slot | None) -> t.Node | None:
    """The expression passed for a parameter."""
    if slot is None:
        return None
    for arg in call.args:
        if arg.name == slot.name:
            return arg.value
    positional = [a.value for a in call.args if not a.name]
    if slot.position is not None and slot.position < len(positional) and not any(a.name == "*" for a in call.args):
        return positional[slot.position]
    return None


def rule_of(model: LibraryCall, known: Known | None) -> str:
    if model.always:
        return model.always
    value = model.parameter.default if known is None and model.parameter else known.value if known else None
    return model.when_true if value else model.when_false


def _evaluation_site(audit: Audit, model: LibraryCall, event: CallEvent, function: Function) -> EvaluationSite | None:
    call = event.call
    frames = contexts(function, audit.resolver)
    frame = frames[0]
    rule, provenance, default_site, origin = "unknown", "framework_default", None, None
    given = slot_of(call, model.parameter)
    if given is None and model.parameter is not None and any(a.name == "**" for a in call.args):
        options = audit.evaluator.options.find(model.parameter.name, function.module)
        given = audit.resolver.keep(t.Name(call.line, model.parameter.name)) if options else None
    if given is not None:
        for frame in frames:
            known = audit.evaluator.likely(given, frame, event.context)
            if known is not None:
                break
        if known is None:
            rule = "unknown"
        else:
            rule, origin = rule_of(model, known), known.origin
            provenance = PROVENANCE[origin.kind]
    else:
        rule = rule_of(model, None)
    if rule == "policy":
        rule, provenance, origin = _policy_rule(audit, model, call, frame)
    if origin is not None and provenance in ("config", "inherited_default"):
        default_site = Place(origin.file, origin.line)
    environment = slot_of(call, model.environment)
    made = audit.environments.made(environment, frame) if environment is not None else []
    return _site(audit, model, event, function, frame, rule, provenance, default_site, origin, made, model.procedure)


def _policy_rule(audit: Audit, model: LibraryCall, call: t.Call, frame: Frame) -> tuple[str, str, Origin | None]:
    """The rule that the agent itself carries, as the library's evaluator leaves it."""
    policy = slot_of(call, model.policy)
    names = [last_name(policy)] if policy is not None else []
    for value in audit.resolver.types(policy, frame) if policy is not None else []:
        if isinstance(value, Library):
            names.extend(value.name.split("."))
            for arg in value.call.args if value.call is not None else ():
                if arg.name in ("act_deterministically", "deterministic_eval"):
                    known = audit.evaluator.evaluate(arg.value, value.frame or frame)
                    if known is not None:
                        return ("greedy" if known.value else "sampled"), PROVENANCE[known.origin.kind], known.origin
        elif isinstance(value, Instance):
            names.append(value.info.name)
    agent = agent_of("greedy", [], [n for n in names if n], "", frame.function.module.path)
    return ("sampled" if agent == "policy_gradient" else "greedy"), "framework_default", None


def _training_site(audit: Audit, model: LibraryCall, event: CallEvent, function: Function) -> EvaluationSite | None:
    """A library's training loop is a site where it is given a held-out environment to step."""
    call = event.call
    for frame in contexts(function, audit.resolver):
        for slot, separate in ((model.eval_environment, True), (model.environment, False)):
            node = slot_of(call, slot)
            if node is None:
                continue
            for made in audit.environments.made(node, frame):
                switched = made.call is not None and audit.environments.test_switch(made.call, made.frame)
                if separate or switched:
                    return _site(audit, model, event, function, frame, rule_of(model, None), "training_sampler", None, None,
                                 [made], model.procedure)  # fmt: skip
    return None


def _site(
    audit: Audit,
    model: LibraryCall,
    event: CallEvent,
    function: Function,
    frame: Frame,
    rule: str,
    provenance: str,
    default_site: Place | None,
    origin: Origin | None,
    made: list[Made],
    procedure: str,
) -> EvaluationSite:
    call, path = event.call, function.module.path
    names = [function.name, path.rpartition("/")[2].rpartition(".")[0], last_name(call.func)]
    demo = any(words.DEMO.search(n) for n in names) and not any(words.says_evaluation(n) for n in names)
    apart = any(audit.environments.set_apart(m, audit.compared_with(m)) for m in made)
    role = "demo" if demo else "heldout" if apart else "same_env"
    evidence = [Evidence(Place(path, call.line), f"hands the evaluation to {model.library} (`{model.name}`)")]
    if origin is not None:
        evidence.extend(Evidence(Place(f, n), what) for f, n, what in origin.trail)
        evidence.append(Evidence(Place(origin.file, origin.line), f"decides `{model.parameter.name if model.parameter else model.name}`"))
    place = next((m.place for m in made if m.place is not None), None)
    if place is not None:
        evidence.append(Evidence(place, "makes the environment"))
    reported = report_site(function, event.context.order, frame)
    if reported is not None:
        evidence.append(Evidence(reported, "reports the return"))
    agent = model.agent or agent_of(rule, [], [], function.qualified, path)
    return EvaluationSite(
        id="",
        file=path,
        line=call.line,
        end_line=call.end_line,
        function=function.name,
        agent=agent,  # type: ignore[arg-type]
        rule=rule,  # type: ignore[arg-type]
        provenance=provenance if rule != "unknown" else "unknown",  # type: ignore[arg-type]
        procedure=procedure,  # type: ignore[arg-type]
        role=role,  # type: ignore[arg-type]
        confidence="high" if rule != "unknown" else "low",
        evidence=tuple(evidence),
        unknown="" if rule != "unknown" else f"the value of `{model.parameter.name if model.parameter else ''}` isn't known",
        default_site=default_site,
        env_site=place,
        report_site=reported,
    )
