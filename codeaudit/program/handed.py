"""Functions that are handed over to be called elsewhere: `Process(target=f, args=(a, b))`, `pool.submit(f, a)`."""

from __future__ import annotations

from collections.abc import Callable

from codeaudit.facts import tree as t

WITH_REST = {"submit"}  # f, then its arguments
WITH_TUPLE = {"apply", "apply_async", "spawn", "start_new_thread"}  # f, then one tuple of them


def handed_over(call: t.Call, bound: Callable[[str], t.Node | None]) -> t.Call | None:
    """The call that will be made of a function which this call is given; None where it is given none.

    `bound(name)` is what a local name stands for, so that `args=arguments` can be taken apart."""

    def unpacked(node: t.Node | None) -> tuple[t.Arg, ...]:
        node = bound(node.id) if isinstance(node, t.Name) else node
        return tuple(t.Arg(item.line, "", item) for item in node.items) if isinstance(node, t.Seq) else ()

    named = {a.name: a.value for a in call.args if a.name}
    positional = [a for a in call.args if not a.name]
    name = call.func.name if isinstance(call.func, t.Attr) else ""
    target = named.get("target")
    given: tuple[t.Arg, ...] = ()
    if isinstance(target, (t.Name, t.Attr)):
        given = unpacked(named.get("args"))
    elif positional and isinstance(positional[0].value, (t.Name, t.Attr)) and name in WITH_REST | WITH_TUPLE:
        target = positional[0].value
        if name in WITH_REST:
            given = tuple(a for a in call.args if a is not positional[0])
        else:
            given = unpacked(named.get("args", positional[1].value if len(positional) > 1 else None))
    else:
        return None
    extra = named.get("kwargs")
    if isinstance(extra, t.Map):
        keyed = ((k.value, v) for k, v in extra.items if isinstance(k, t.Const))
        given += tuple(t.Arg(v.line, str(k), v) for k, v in keyed)
    return t.Call(call.line, target, given, call.end_line)
