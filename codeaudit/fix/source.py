"""Edits of one file's source, and files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from codeaudit.errors import UserError
from codeaudit.fix.quota import with_quota
from codeaudit.rules.base import Edit
from codeaudit.text import printable


def fixed(data: bytes, edits: Sequence[Edit]) -> tuple[bytes, tuple[Edit, ...]]:
    """The source with the edits made, and those that could be made. Pure; source that can't be parsed stays as it is.

    Making the same edits again changes nothing. The encoding and the line ends of the file are kept.
    """
    if not edits:
        return data, ()
    try:
        module = cst.parse_module(data)
        fixer = _Fixer(edits)
        changed = MetadataWrapper(module).visit(fixer)
        result = changed.bytes
        cst.parse_module(result)
    except (cst.ParserSyntaxError, SyntaxError, UnicodeDecodeError, RecursionError, LookupError):
        return data, ()
    return (result, tuple(fixer.made)) if fixer.made else (data, ())


def fixed_files(
    contents: Mapping[str, bytes], edits: Iterable[Edit]
) -> tuple[dict[str, tuple[bytes, bytes]], tuple[Edit, ...]]:
    """Path → (old, new bytes) of every Python file that changes, and the edits that were made.

    Notebooks are left alone.
    """
    by_file: dict[str, list[Edit]] = {}
    for edit in edits:
        if edit.file.endswith(".py"):
            by_file.setdefault(edit.file, []).append(edit)
    changes: dict[str, tuple[bytes, bytes]] = {}
    made: list[Edit] = []
    for path, wanted in sorted(by_file.items()):
        new, done = fixed(contents[path], wanted)
        if new != contents[path]:
            changes[path] = (contents[path], new)
            made.extend(done)
    return changes, tuple(made)


def diff(changes: Mapping[str, tuple[bytes, bytes]]) -> str:
    """The changes as one unified diff."""
    return "".join(line for path, (old, new) in sorted(changes.items()) for line in _diff(path, old, new))


def _diff(path: str, old: bytes, new: bytes) -> Iterator[str]:
    before, after = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (old, new))
    for line in unified_diff(before, after, f"a/{printable(path)}", f"b/{printable(path)}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def write_changes(root: Path, changes: Mapping[str, tuple[bytes, bytes]]) -> None:
    """Write the files, each whole or not at all, with its permissions kept.

    Folder by folder from the root, following no link, so that nothing outside the tree can be reached. Raises UserError
    for a path that leads through a link and for a file that changed since it was read.
    """
    for path, (old, new) in sorted(changes.items()):
        try:
            _write(root, path, old, new)
        except OSError as error:
            raise UserError(
                f"{printable(path)} can't be written: {(error.strerror or 'unknown error').lower()}",
                hint="symbolic links are not followed",
            ) from None


def _write(root: Path, path: str, old: bytes, new: bytes) -> None:
    *folders, name = path.split("/")
    if not name or any(part in ("", ".", "..") for part in (*folders, name)):
        raise UserError(f"{printable(path)} lies outside the tree")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    draft = f".{name}.{os.getpid()}.codeaudit"
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here), "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if file.read() != old:
                raise UserError(
                    f"{printable(path)} changed while it was being checked", hint="run again when it is still"
                )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(draft, flags, mode, dir_fd=here), "wb") as file:
                file.write(new)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, name, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            _remove(draft, here)
            raise
    finally:
        os.close(here)


def _remove(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


# --- the source ------------------------------------------------------------------------------------------------------


class _Fixer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.keywords = {(e.line, e.name): e for e in edits if e.kind == "add_keyword"}
        self.restores = {(e.line, e.name): e for e in edits if e.kind == "restore_mode"}
        self.quotas = {e.line: e for e in edits if e.kind == "slot_quota"}
        self.made: list[Edit] = []

    def _line(self, node: cst.CSTNode) -> int:
        position: Any = self.get_metadata(PositionProvider, node)
        return int(position.start.line)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = _last_name(original_node.func)
        edit = self.keywords.get((self._line(original_node), name))
        # Two calls of one name on one line: which of them was meant isn't known, so neither is touched twice.
        if edit is None or edit in self.made or not _can_take(updated_node, edit.keyword):
            return updated_node
        self.made.append(edit)
        return with_keyword(updated_node, edit.keyword, edit.value)

    def leave_While(
        self, original_node: cst.While, updated_node: cst.While
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        edit = self.quotas.get(self._line(original_node))
        statements = with_quota(updated_node, edit.name, edit.value) if edit is not None else None
        if edit is None or statements is None:
            return updated_node
        self.made.append(edit)
        return cst.FlattenSentinel(statements)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.BaseStatement:
        lines = {self._line(original_node), self._line(original_node.name)}
        lines |= {self._line(d) for d in original_node.decorators}
        edit = next(
            (e for (line, name), e in self.restores.items() if name == original_node.name.value and line in lines), None
        )
        body = updated_node.body
        if edit is None or edit in self.made or not isinstance(body, cst.IndentedBlock):
            return updated_node
        statement = cst.parse_statement(f"{edit.keyword}.train()\n")
        last = body.body[-1]
        returns = _count_returns(original_node)
        ends = (
            isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return) and len(last.body) == 1
        )
        if returns > int(ends) or _contains(original_node, f"{edit.keyword}.train()"):
            return updated_node  # several ways out: a person must say where training goes on
        at = len(body.body) - int(ends)
        self.made.append(edit)
        return updated_node.with_changes(body=body.with_changes(body=[*body.body[:at], statement, *body.body[at:]]))


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """The call with `name=value` as its last argument, laid out as its other arguments are."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(cst.parse_expression(value), keyword=cst.Name(name), equal=tight)
    args = list(call.args)
    if not args:
        return call.with_changes(args=[new])
    last = args[-1]
    before = args[-2].comma.whitespace_after if len(args) > 1 and isinstance(args[-2].comma, cst.Comma) else None
    if isinstance(last.comma, cst.Comma):  # a trailing comma: the new argument takes it over
        end = last.comma.whitespace_after
        between = _between(before, end, call.whitespace_before_args)
        new = new.with_changes(comma=last.comma.with_changes(whitespace_after=_without_comment(end)))
        args[-1] = last.with_changes(comma=cst.Comma(whitespace_after=between))
    else:
        end = last.whitespace_after_arg
        between = _between(before, end, call.whitespace_before_args)
        new = new.with_changes(whitespace_after_arg=_without_comment(end))
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
        )
    return call.with_changes(args=[*args, new])


def _between(before: Any, end: Any, opening: Any) -> Any:
    """The space before the new argument: as before the last one, with a comment that stood after the last one."""
    own_lines = isinstance(end, cst.ParenthesizedWhitespace)
    like = before if isinstance(before, cst.ParenthesizedWhitespace) else opening
    if own_lines and isinstance(like, cst.ParenthesizedWhitespace):
        return end.with_changes(indent=like.indent, last_line=like.last_line, empty_lines=[])
    if own_lines and end.first_line.comment is not None:
        return end.with_changes(empty_lines=[])
    if isinstance(before, cst.ParenthesizedWhitespace):
        return _without_comment(before)
    return cst.SimpleWhitespace(" ")


def _without_comment(space: Any) -> Any:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(
        first_line=line, empty_lines=[line_ for line_ in space.empty_lines if line_.comment is None]
    )


def _can_take(call: cst.Call, keyword: str) -> bool:
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return keyword not in given and not any(arg.star for arg in call.args) and not _is_generator(call)


def _is_generator(call: cst.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp) and not call.args[0].value.lpar


def _last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Call):
        return _last_name(node.func)
    return node.value if isinstance(node, cst.Name) else ""


class _Returns(cst.CSTVisitor):
    def __init__(self, root: cst.FunctionDef) -> None:
        self.root = root
        self.count = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return node is self.root

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Return(self, node: cst.Return) -> None:
        self.count += 1

    def visit_Yield(self, node: cst.Yield) -> None:
        self.count += 2  # a generator may be left anywhere


def _count_returns(function: cst.FunctionDef) -> int:
    visitor = _Returns(function)
    function.visit(visitor)
    return visitor.count


def _contains(function: cst.FunctionDef, text: str) -> bool:
    return text in cst.Module([function]).code
