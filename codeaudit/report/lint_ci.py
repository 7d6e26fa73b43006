"""The check report for machines that show it beside code: GitHub's workflow commands, and JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree

from codeaudit.lint.run import Check
from codeaudit.text import printable

GITHUB_LEVEL = {"error": "error", "warning": "warning", "note": "notice"}


def github(check: Check) -> str:
    """One workflow command per finding."""
    lines = []
    for problem in check.open:
        f = problem.finding
        title = _property(f"{f.code} {problem.rule.name}")
        properties = f"file={_property(f.file)},line={f.line},endLine={problem.end_line},title={title}"
        lines.append(f"::{GITHUB_LEVEL[f.severity]} {properties}::{_message(f'{f.code} {f.message}')}\n")
    return "".join(lines)


def _message(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def junit(check: Check) -> str:
    """One test suite; a failing test case per finding, or a single passing one."""
    found = check.open
    suites = ElementTree.Element(
        "testsuites", name="codeaudit", tests=str(max(1, len(found))), failures=str(len(found))
    )
    suite = ElementTree.SubElement(
        suites, "testsuite", name="codeaudit", tests=str(max(1, len(found))), failures=str(len(found)), errors="0"
    )
    if not found:
        ElementTree.SubElement(suite, "testcase", name="no findings", classname="codeaudit")
    for problem in found:
        f = problem.finding
        place = f"{printable(f.file)}:{f.line}"
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=f"{f.code} {place}",
            classname=printable(f.file),
            file=printable(f.file),
            line=str(f.line),
        )
        failure = ElementTree.SubElement(case, "failure", type=f.code, message=printable(f.message))
        steps = [f"{printable(s.place.file)}:{s.place.line} {printable(s.what)}" for s in f.evidence]
        failure.text = "\n".join([f"{place}: {f.code} {printable(f.message)}", *steps])
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
