"""The tools of one analysis, and the questions about a program that several rooms ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from codeaudit.evaluation import words
from codeaudit.evaluation.apart import Environments
from codeaudit.evaluation.classify import Classifier
from codeaudit.evaluation.draws import Tracer
from codeaudit.evaluation.environments import Made
from codeaudit.evaluation.purpose import Use
from codeaudit.evaluation.rollouts import Finder, Rollout
from codeaudit.program.frames import Frame
from codeaudit.program.index import Function, Program, module_values
from codeaudit.program.libraries import Libraries
from codeaudit.program.options import Options
from codeaudit.program.resolve import Resolver
from codeaudit.program.values import Evaluator
from codeaudit.snapshot import Skipped


@dataclass(frozen=True, eq=False)
class Found:
    """A rollout with what it is for and the ways into it."""

    rollout: Rollout
    use: Use
    frames: tuple[Frame, ...]


class Tools:
    """What every question of one analysis uses, made once."""

    def __init__(self, program: Program, options: Options, libraries: Libraries) -> None:
        self.program = program
        self.resolver = Resolver(program)
        self.evaluator = Evaluator(self.resolver, options)
        self.tracer = Tracer(self.resolver, self.evaluator, libraries)
        self.finder = Finder(self.resolver)
        self.environments = Environments(self.resolver, self.evaluator)
        self.classifier = Classifier(self.tracer)
        self.libraries = libraries
        self.training_environments: list[Made] = []
        self.failures: list[Skipped] = []
        self.notes = [
            f"{o.file}:{o.line}: the option `{o.name}` is accepted and never read, so it decides nothing"
            for o in options.unread()
            if words.RULE_NAME.search(o.name) or words.says_evaluation(o.name)
        ]

    def is_dead(self, function: Function) -> bool:
        """A function that nobody calls, hands on, overrides or decorates."""
        if function.name == "<module>" or function.node.decorators or function.outer is not None:
            return False
        if function.owner is None and not self.resolver.callers(function) and not self._referred(function):
            return True
        if function.name in self.program.calls_by_name or function.name in self.program.names_used:
            return False
        if function.name.startswith("__") or function.name in ("main", "run", "forward", "step"):
            return False
        if function.owner is not None and self.resolver.library_bases(function.owner):
            return False  # a framework may call it
        return True

    def _referred(self, function: Function) -> bool:
        """Whether a module-level function is named as a value, in its own module or in one that imports it."""
        if function.name not in self.program.names_used:
            return False
        for module in self.program.modules.values():
            if module is not function.module and function.name not in module.imports:
                if not any(source for source, _ in module.stars):
                    continue
            if function.name in module_values(module):
                return True
        return False

    def compared_with(self, made: Made) -> list[Made]:
        """The environments to compare with: those that are trained on, else any that isn't named for a test."""
        pool = self.training_environments or self.creations
        return [m for m in pool if m.call is not made.call or m.frame.key != made.frame.key]

    @cached_property
    def creations(self) -> list[Made]:
        return self.environments.creations(self.program.functions)

    @contextmanager
    def one_at_a_time(self, function: Function) -> Iterator[None]:
        """A fault of the analysis costs the function that it looks at, and says so; it never costs the scan."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            reason = f"the analysis of `{function.qualified}` failed here ({type(error).__name__}); please report it"
            self.failures.append(Skipped(function.module.path, reason, function.node.line))
