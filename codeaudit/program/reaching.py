"""Which bindings of a name may reach a use. Within one function; nothing here crosses a call."""

from __future__ import annotations

from collections.abc import Callable

from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Definition

Feasible = Callable[[tuple[t.Node, bool]], bool | None]  # whether a condition holds; None where that isn't known


def reaching(
    definitions: list[Definition], use: Context | None, feasible: Feasible, *, first_turn: bool = False
) -> list[tuple[Definition, tuple[tuple[t.Node, bool], ...]]]:
    """The definitions that may reach a use, latest first, each with the conditions that it stands under and the use
    doesn't.

    `feasible(guard)` says True, False or None (not known) of a condition. In a loop, what its previous turn left
    counts, and what stood before the loop only with `first_turn`."""
    before = [d for d in definitions if use is None or d.context.order < use.order]
    if use is not None and use.loops:
        later = [
            d for d in definitions if d.context.order > use.order and any(x is use.loops[-1] for x in d.context.loops)
        ]
        inside = [d for d in before if any(x is use.loops[-1] for x in d.context.loops)]
        if later and not inside:
            if first_turn and before:
                return [*reaching(before, use, feasible), *reaching(later, use, feasible)]
            before = later
    if not before:
        before = list(definitions)
    if use is not None and not use.in_handler:  # what only an exception binds is the rare case
        before = [d for d in before if not d.context.in_handler] or before
    use_guards = {id(test): held for test, held in (use.guards if use else ())}
    found: list[tuple[Definition, tuple[tuple[t.Node, bool], ...]]] = []
    seen: set[tuple[int, bool]] = set()
    surely: list[set[tuple[int, bool]]] = []  # under these conditions a later binding has replaced the name for certain
    for d in reversed(before):
        extra = tuple((test, held) for test, held in d.context.guards if id(test) not in use_guards)
        if any(use_guards.get(id(test), held) != held for test, held in d.context.guards):
            continue
        verdicts = [feasible(guard) for guard in extra]
        if any(v is False for v in verdicts):
            continue
        under = {(id(test), held) for test, held in extra}
        if any(conditions <= under for conditions in surely):
            continue
        if use is not None and d.kind != "augment" and all(any(x is y for y in use.loops) for x in d.context.loops):
            surely.append(under)
        found.append((d, extra))
        if d.kind == "augment":
            continue
        if all(v is True for v in verdicts):
            break
        unsure = [g for g, v in zip(extra, verdicts, strict=True) if v is not True]
        if len(unsure) == 1:
            test, held = unsure[0]
            if (id(test), not held) in seen:
                break
            seen.add((id(test), held))
    return found


def live(definitions: list[Definition], line: int) -> list[Definition]:
    """The definitions that a use on a line may see, as far as lines tell: none that is replaced for certain before it,
    and none that comes after it outside any loop. All of them where that leaves none."""
    before = [d for d in definitions if d.last_line < line]
    certain = [i for i, d in enumerate(before) if not (d.context.guards or d.context.loops or d.context.in_handler)]
    later = [d for d in definitions if d.last_line >= line and d.context.loops]
    return [*before[certain[-1] if certain else 0 :], *later] or definitions


def in_comprehension(definitions: list[Definition], line: int) -> list[Definition]:
    """The bindings that a comprehension standing on the line makes for itself: `[Wrap(env) for env in envs]`."""
    own = [d for d in definitions if d.kind == "loop" and not isinstance(d.statement, t.For)]
    return [d for d in own if d.statement.line <= line <= max(node.line for node in t.walk(d.statement))]
