"""Evaluations that run in another process: a script that the code starts and whose score it reads back."""

from __future__ import annotations

from dataclasses import replace

from codeaudit.evaluation import words
from codeaudit.evaluation.reported import report_site
from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place
from codeaudit.evaluation.tools import Tools
from codeaudit.evaluation.words import UNIT_TEST
from codeaudit.facts import tree as t
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, Module, last_name

STARTS = {"run", "call", "check_call", "check_output", "Popen", "system", "getoutput", "popen"}


def spawned_sites(audit: Tools, sites: list[EvaluationSite]) -> list[EvaluationSite]:
    """A site for each call that starts a script with evaluation sites of its own and reads its score back."""
    found = []
    for function in audit.program.functions:
        path = function.module.path
        if function.module.package or UNIT_TEST.search(path) or audit.is_dead(function):
            continue
        for event in function.flow.calls:
            if last_name(event.call.func) not in STARTS or not _is_process(event.call):
                continue
            script = _script(audit, event.call, function)
            inside = [s for s in sites if script is not None and s.file == script.path]
            if not inside or not _reads_a_score(audit, function, event.context.order):
                continue
            site = inside[0]
            place = Place(path, event.call.line)
            reported = report_site(function, event.context.order, Frame(function))
            steps = (Evidence(place, f"starts `{site.file}` in another process"), *site.evidence)
            found.append(
                replace(site, file=path, line=event.call.line, end_line=event.call.end_line, function=function.name,
                        role="same_env" if site.role == "demo" else site.role, sink=Place(site.file, site.line),
                        report_site=reported or site.report_site, evidence=steps, confidence="medium")
            )  # fmt: skip
    return found


def _is_process(call: t.Call) -> bool:
    name = t.dotted(call.func)
    return name.startswith(("subprocess.", "os.", "sp.")) or isinstance(call.func, t.Name)


def _script(audit: Tools, call: t.Call, function: Function) -> Module | None:
    """The module of the program that a command line names, as a file or after `-m`."""
    texts: list[str] = []
    for arg in call.args[:1]:
        nodes: list[t.Node] = [arg.value]
        for part in t.walk(arg.value):
            if isinstance(part, t.Name):
                nodes.extend(d.value for d in function.flow.definitions.get(part.id, ()))
        for node in nodes:
            texts.extend(p.value for p in t.walk(node) if isinstance(p, t.Const) and isinstance(p.value, str))
    for text in texts:
        for word in text.split():
            name = word.removesuffix(".py").replace("/", ".").strip(".")
            if (word.endswith(".py") or ("." in word and "/" not in word)) and name.replace(".", "").replace(
                "_", ""
            ).isalnum():
                module = audit.program.find_module(name, 0, function.module)
                if module is not None and module is not function.module:
                    return module
    return None


def _reads_a_score(audit: Tools, function: Function, after: int) -> bool:
    """Whether the code after the call, or that gets its result, prints a return; a script that only starts others
    doesn't."""
    around = [
        (function, after),
        *((site.function, site.event.context.order - 1) for site in audit.resolver.callers(function)[:4]),
    ]
    for holder, order in around:
        for event in holder.flow.calls:
            if event.context.order > order and last_name(event.call.func) in (*words.LOGS, "append", "DataFrame"):
                if any(_is_score(p) for a in event.call.args for p in t.walk(a.value)):
                    return True
    return False


def _is_score(node: t.Node) -> bool:
    if isinstance(node, t.Const):
        return isinstance(node.value, str) and bool(words.SCORE_TEXT.search(node.value))
    return isinstance(node, (t.Name, t.Attr)) and bool(words.REWARD.search(last_name(node)))
