"""A loop that counts the first episodes to finish, rewritten so that every slot contributes as many."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

COUNTS, QUOTA, SLOT = "slot_counts", "slot_quota", "slot"


def with_quota(loop: cst.While, counted: str, slots: str) -> Sequence[cst.BaseStatement] | None:
    """The statements that replace `while len(counted) < wanted:`; None where the loop is written otherwise.

    `slots` is the source text of the number of slots. The total becomes the next multiple of it.
    """
    wanted = _wanted(loop.test, counted)
    if wanted is None:
        return None
    counter = _Counter(counted)
    body = loop.body.visit(counter)
    if counter.changed != 1 or not isinstance(body, cst.BaseSuite):
        return None
    before = [f"{QUOTA} = -(-({wanted}) // {slots})  # episodes of each slot\n", f"{COUNTS} = [0] * {slots}\n"]
    first, *others = [cst.parse_statement(text) for text in before]
    if isinstance(first, cst.SimpleStatementLine):
        first = first.with_changes(leading_lines=loop.leading_lines)
    changed = loop.with_changes(test=cst.parse_expression(f"min({COUNTS}) < {QUOTA}"), body=body, leading_lines=[])
    return [first, *others, changed]


def _wanted(test: cst.BaseExpression, counted: str) -> str | None:
    """`wanted` of `len(counted) < wanted`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    operator, right = test.comparisons[0].operator, test.comparisons[0].comparator
    left = cst.Module([]).code_for_node(test.left).replace(" ", "")
    if not isinstance(operator, cst.LessThan | cst.NotEqual) or left != f"len({counted})":
        return None
    text = cst.Module([]).code_for_node(right)
    return text if "\n" not in text else None


class _Counter(cst.CSTTransformer):
    """Counts what each slot has given, and takes no more from one that has given its share."""

    def __init__(self, counted: str) -> None:
        super().__init__()
        self.counted = counted
        self.changed = 0

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.BaseStatement:
        if not isinstance(updated_node.body, cst.IndentedBlock) or self.changed:
            return updated_node
        index, target, over = _indexed(updated_node)
        body = updated_node.body.visit(_Condition(self.counted, index))
        if not isinstance(body, cst.IndentedBlock) or body.deep_equals(updated_node.body):
            return updated_node
        self.changed += 1
        return updated_node.with_changes(target=target, iter=over, body=body)


def _indexed(loop: cst.For) -> tuple[str, cst.BaseAssignTargetExpression, cst.BaseExpression]:
    """The name of the slot's number in a loop over slots, and the loop's target and iterable that give it."""
    over, target = loop.iter, loop.target
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Name) and over.func.value == "enumerate":
        if isinstance(target, cst.Tuple) and isinstance(target.elements[0].value, cst.Name):
            return target.elements[0].value.value, target, over
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Name) and over.func.value == "range":
        if isinstance(target, cst.Name):
            return target.value, target, over
    pair = cst.Tuple([cst.Element(cst.Name(SLOT)), cst.Element(target)], lpar=[], rpar=[])
    return SLOT, pair, cst.Call(cst.Name("enumerate"), [cst.Arg(over)])


class _Condition(cst.CSTTransformer):
    def __init__(self, counted: str, index: str) -> None:
        super().__init__()
        self.counted, self.index = counted, index

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        body = updated_node.body
        if not isinstance(body, cst.IndentedBlock):
            return updated_node
        at = next((i for i, statement in enumerate(body.body) if self._appends(statement)), None)
        if at is None:
            return updated_node
        count = cst.parse_statement(f"{COUNTS}[{self.index}] += 1\n")
        statements = [*body.body[: at + 1], count, *body.body[at + 1 :]]
        test = updated_node.test
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or) and not test.lpar:
            test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        room = cst.parse_expression(f"{COUNTS}[{self.index}] < {QUOTA}")
        both = cst.BooleanOperation(test, cst.And(), room)
        return updated_node.with_changes(test=both, body=body.with_changes(body=statements))

    def _appends(self, statement: cst.BaseStatement) -> bool:
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return False
        only = statement.body[0]
        if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
            return False
        return cst.Module([]).code_for_node(only.value.func).replace(" ", "") == f"{self.counted}.append"
