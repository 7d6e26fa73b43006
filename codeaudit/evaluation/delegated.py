"""Evaluations that a library runs: the call in the user's code is the only trace, and a model says what it does."""

from __future__ import annotations

from dataclasses import replace

from codeaudit.evaluation import words
from codeaudit.evaluation.agents import agent_of
from codeaudit.evaluation.contexts import contexts
from codeaudit.evaluation.environments import Made
from codeaudit.evaluation.reported import report_site
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place
from codeaudit.evaluation.tools import Tools
from codeaudit.evaluation.words import UNIT_TEST
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.folding import Known, Origin
from codeaudit.program.frames import ClassValue, Frame, FunctionValue, Instance, Library, Value
from codeaudit.program.index import ClassInfo, Function, last_name
from codeaudit.program.libraries import LibraryCall, Slot

ACTING = ("step", "act", "select_action", "predict")  # methods that a library calls for an action
PROVENANCE = {"literal": "explicit", "default": "inherited_default", "option": "config", "mode": "hard_coded"}


def delegated_sites(audit: Tools) -> list[EvaluationSite]:
    sites: list[EvaluationSite] = []
    for function in audit.program.functions:
        path = function.module.path
        if function.module.package or UNIT_TEST.search(path):
            continue
        for event in function.flow.calls:
            with audit.one_at_a_time(function):
                model = matching(audit, event.call, function)
                if model is None or model.kind == "action" or audit.is_dead(function):
                    continue
                build = _training_site if model.kind == "training" else _evaluation_site
                site = build(audit, model, event, function)
                if site is not None:
                    sites.append(site)
    return sites


def matching(audit: Tools, call: t.Call, function: Function) -> LibraryCall | None:
    """The model of the library call that this is; a class of the program that derives from a library's counts as it."""
    name = last_name(call.func)
    models = audit.libraries.by_name.get(name, [])
    frame = Frame(function)
    if not models and isinstance(call.func, t.Name) and _is_partial(call.func.id, function):
        for value in audit.resolver.types(call.func, frame):
            if isinstance(value, Library):
                found = named(value.name, audit.libraries.by_name.get(value.name.rpartition(".")[2], []))
                if found is not None:
                    return found
    for value in audit.resolver.types(call.func, frame) if models else ():
        found = named(library_name(value), models)
        if found is not None:
            return found
    if models and isinstance(call.func, t.Attr):
        return _inherited(audit, call.func, frame, models)
    if not models and name[:1].isupper():
        for value in audit.resolver.types(call.func, frame):
            if isinstance(value, ClassValue):
                bases = [library_name(ClassValue(b)) for b in audit.resolver.mro(value.info)]
                for base in (*audit.resolver.library_bases(value.info), *bases):
                    found = named(base, audit.libraries.by_name.get(base.rpartition(".")[2], []))
                    if found is not None and found.constructs:
                        return found
    return None


def _inherited(audit: Tools, func: t.Attr, frame: Frame, models: list[LibraryCall]) -> LibraryCall | None:
    """`runner.run()` or `super().run()`, where the program's class has the method from a library's."""
    if isinstance(func.obj, t.Call) and last_name(func.obj.func) == "super":
        classes = [frame.function.owner] if frame.function.owner is not None else []
    else:
        values = [v for v in audit.resolver.types(func.obj, frame) if isinstance(v, Instance)]
        classes = [v.info for v in values if audit.resolver.method(v.info, func.name) is None]
        classes = [i for i in classes if i is frame.function.owner or not _measures_itself(audit, i)]
    for info in classes:
        for base in audit.resolver.library_bases(info):
            found = named(f"{base}.{func.name}", models)
            if found is not None:
                return found
    return None


def _measures_itself(audit: Tools, info: ClassInfo) -> bool:
    """Whether a class calls the library's evaluation from a method of its own: that call is the site."""
    return any(
        any(model.kind == "evaluation" for model in audit.libraries.by_name.get(last_name(e.call.func), ()))
        and isinstance(e.call.func, t.Attr)
        and (last_name(e.call.func.obj) == method.self_name or isinstance(e.call.func.obj, t.Call))
        for method in info.methods.values()
        for e in method.flow.calls
    )


def library_name(value: Value) -> str:
    """The dotted name of a library's function or class, also where its source is read too (`--with`); "" for the
    code's own."""
    if isinstance(value, Library):
        return value.name
    if isinstance(value, FunctionValue) and value.function.module.package:
        owner = [value.function.owner.name] if value.function.owner else []
        return ".".join((*value.function.module.parts, *owner, value.function.name))
    if isinstance(value, ClassValue) and value.info.module.package:
        return ".".join((*value.info.module.parts, value.info.name))
    return ""


def _is_partial(name: str, function: Function) -> bool:
    """`train = partial(library.train, …)`, in the function or its module."""
    definitions = [*function.flow.definitions.get(name, ()), *function.module.body.flow.definitions.get(name, ())]
    return any(isinstance(d.value, t.Call) and last_name(d.value.func) == "partial" for d in definitions)


def named(dotted: str, models: list[LibraryCall]) -> LibraryCall | None:
    parts = dotted.split(".")
    for model in models:
        if parts[0] in model.packages and (not model.of or any(p in model.of for p in parts[1:-1])):
            return model
    return None


def slot_of(audit: Tools, call: t.Call, slot: Slot | None, frame: Frame) -> tuple[t.Node, Frame] | None:
    """The expression passed for a parameter, and the frame to read it in."""
    if slot is None:
        return None
    if slot.of_receiver:
        if not isinstance(call.func, t.Attr):
            return None
        for value in audit.resolver.types(call.func.obj, frame):
            made = value.call if isinstance(value, (Library, Instance)) else None
            if made is not None and made is not call:
                found = _argument(made, slot)
                if found is not None:
                    return found, (value.frame if isinstance(value, (Library, Instance)) else None) or frame
        return None
    found = _argument(call, slot)
    return (found, frame) if found is not None else None


def _argument(call: t.Call, slot: Slot) -> t.Node | None:
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


def _evaluation_site(audit: Tools, model: LibraryCall, event: CallEvent, function: Function) -> EvaluationSite | None:
    call = event.call
    frames = contexts(function, audit.resolver)
    frame = frames[0]
    rule, provenance, default_site, origin = "unknown", "framework_default", None, None
    if model.unless is not None and slot_of(audit, call, model.unless, frame) is not None:
        return None
    given = _argument(call, model.parameter) if model.parameter is not None else None
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
    option = next(iter(audit.evaluator.options.find(model.option, function.module)), None) if model.option else None
    if option is not None:
        provenance, default_site = "config", Place(option.file, option.line)
    if origin is not None and provenance in ("config", "inherited_default"):
        default_site = Place(origin.file, origin.line)
    environment = slot_of(audit, call, model.environment, frame)
    made = audit.environments.made(*environment) if environment is not None else []
    site = _site(audit, model, event, function, frame, rule, provenance, default_site, origin, made, model.procedure)
    if option is not None and isinstance(option.value, (int, float)):
        return replace(site, epsilon=float(option.value), rule="epsilon_greedy" if option.value else "greedy")
    return site


def _why_unknown(model: LibraryCall) -> str:
    if model.parameter is not None:
        return f"the value of `{model.parameter.name}` isn't known"
    return "the program's own agent acts there, in a mode that the library sets"


def _policy_rule(audit: Tools, model: LibraryCall, call: t.Call, frame: Frame) -> tuple[str, str, Origin | None]:
    """The rule that the agent itself carries, as the library's evaluator leaves it."""
    policy = slot_of(audit, call, model.policy, frame)
    made = (
        [v.call for v in audit.resolver.types(*policy) if isinstance(v, Library) and v.call]
        if policy is not None
        else []
    )
    beside = [e.call for e in frame.function.flow.calls if model.policy is not None and e.call is not call]
    for candidate in (*made, *beside):  # set where the agent is made, or where its policy is
        for arg in candidate.args:
            if arg.name in ("act_deterministically", "deterministic_eval", "eval_mode", "evaluation"):
                known = audit.evaluator.evaluate(arg.value, frame)
                if known is not None:
                    return ("greedy" if known.value else "sampled"), PROVENANCE[known.origin.kind], known.origin
    own = [v for v in (audit.resolver.types(*policy) if policy is not None else []) if isinstance(v, Instance)]
    if any(audit.resolver.method(v.info, name) is not None for v in own for name in ACTING):
        return "unknown", "unknown", None  # the program's own agent decides, in a mode that the library sets
    agent = agent_of("greedy", [], _names(audit, model, call, frame), "", frame.function.module.path)
    return ("sampled" if agent == "policy_gradient" else "greedy"), "framework_default", None


def _names(audit: Tools, model: LibraryCall, call: t.Call, frame: Frame) -> list[str]:
    """What the library's call and its policy are called: `DQN` in `DQN.load(path)`."""
    policy = slot_of(audit, call, model.policy, frame)
    names = [last_name(policy[0])] if policy is not None else []
    values = [*(audit.resolver.types(*policy) if policy is not None else []), *audit.resolver.types(call.func, frame)]
    for value in values:
        if isinstance(value, Library):
            names.extend(
                part for part in value.name.split(".")[1:] if part not in ("train", "common", "training", "agents")
            )
        elif isinstance(value, Instance):
            names.append(value.info.name)
    return [n for n in names if n]


def _training_site(audit: Tools, model: LibraryCall, event: CallEvent, function: Function) -> EvaluationSite | None:
    """A library's training loop is a site where it is given a held-out environment to step."""
    call = event.call
    for frame in contexts(function, audit.resolver):
        for slot, separate in ((model.eval_environment, True), (model.environment, False)):
            node = slot_of(audit, call, slot, frame)
            if node is None:
                continue
            for made in audit.environments.made(*node):
                marked = slot is not None and slot.of_receiver and any(words.HELDOUT_NAME.search(n) for n in made.names)
                switched = marked or (made.call is not None and audit.environments.test_switch(made.call, made.frame))
                if separate or switched:
                    return _site(
                        audit,
                        model,
                        event,
                        function,
                        frame,
                        rule_of(model, None),
                        "training_sampler",
                        None,
                        None,
                        [made],
                        model.procedure,
                    )
    return None


def _site(
    audit: Tools,
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
    role = model.role or ("demo" if demo else "heldout" if apart else "same_env")
    evidence = [Evidence(Place(path, call.line), f"hands the evaluation to {model.library} (`{model.name}`)")]
    if origin is not None:
        evidence.extend(Evidence(Place(f, n), what) for f, n, what in origin.trail)
        evidence.append(
            Evidence(
                Place(origin.file, origin.line), f"decides `{model.parameter.name if model.parameter else model.name}`"
            )
        )
    place = next((m.place for m in made if m.place is not None), None)
    if place is not None:
        evidence.append(Evidence(place, "makes the environment"))
    reported = report_site(function, event.context.order, frame)
    if reported is not None:
        evidence.append(Evidence(reported, "reports the return"))
    agent = model.agent or agent_of(rule, [], _names(audit, model, call, frame), function.qualified, path)
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
        unknown=_why_unknown(model) if rule == "unknown" else "",
        epsilon=model.epsilon if rule == "epsilon_greedy" else None,
        default_site=default_site,
        env_site=place,
        report_site=reported,
    )
