"""What library calls do, as data: YAML models beside this file and those that a user adds. Nothing here is executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from codeaudit.errors import UserError

KINDS = ("evaluation", "action", "training")
RULES = ("sampled", "greedy", "epsilon_greedy", "noisy", "uniform_random", "policy")


@dataclass(frozen=True)
class Slot:
    """A parameter of a library call."""

    name: str
    position: int | None
    default: Any = None
    of_receiver: bool = False  # an argument of the constructor of the object that the method is called on


@dataclass(frozen=True)
class LibraryCall:
    """One call of a library: an evaluation, an action, or a training loop that measures by itself."""

    name: str
    kind: str
    packages: tuple[str, ...]
    library: str
    version: str
    source: str
    parameter: Slot | None = None  # decides the rule
    when_true: str = ""
    when_false: str = ""
    always: str = ""
    epsilon: float | None = None
    option: str = ""  # the name of the setting that gives epsilon, where the audited code's own configuration sets it
    environment: Slot | None = None
    eval_environment: Slot | None = None
    policy: Slot | None = None
    of: tuple[str, ...] = ()  # for a method: last names of the classes it belongs to
    procedure: str = "fixed_checkpoint"
    agent: str = ""
    constructs: bool = False  # making the object is the only trace in the user's code
    role: str = ""  # "demo" where the call shows and measures nothing
    unless: Slot | None = None  # the call collects data for learning where this argument is given


class Libraries:
    def __init__(self, calls: Sequence[LibraryCall]) -> None:
        self.calls = tuple(calls)

    @cached_property
    def by_name(self) -> dict[str, list[LibraryCall]]:
        index: dict[str, list[LibraryCall]] = {}
        for call in self.calls:
            index.setdefault(call.name, []).append(call)
        return index


def load_libraries(extra: Sequence[Path] = ()) -> Libraries:
    """The models shipped with the tool, then the user's. Raises UserError naming the file and what is wrong in it."""
    calls: list[LibraryCall] = []
    shipped = sorted((Path(__file__).parent / "libraries").glob("*.yaml"))
    for path in (*shipped, *extra):
        calls.extend(read_model(path))
    return Libraries(calls)


def read_model(path: Path) -> list[LibraryCall]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise UserError(f"{path}: the library model can't be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise UserError(f"{path}{where}: the library model isn't valid YAML") from None
    if not isinstance(data, dict) or not isinstance(data.get("calls"), list):
        raise UserError(f"{path}: a library model needs `library`, `packages` and a list of `calls`")
    out = []
    for number, item in enumerate(data["calls"], start=1):
        try:
            out.append(_call(item, data))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: call {number}: {error}") from None
    return out


def _call(item: dict[str, Any], data: dict[str, Any]) -> LibraryCall:
    kind = item["kind"]
    if kind not in KINDS:
        raise ValueError(f"`kind` is {kind!r}, not one of {', '.join(KINDS)}")
    rule = item.get("rule") or {}
    for key in ("always", "when_true", "when_false"):
        if rule.get(key, "policy") not in RULES:
            raise ValueError(f"`{key}` is {rule[key]!r}, not one of {', '.join(RULES)}")
    parameter = Slot(rule["parameter"], rule.get("position"), rule.get("default")) if "parameter" in rule else None
    return LibraryCall(
        name=item["name"],
        kind=kind,
        packages=tuple(item.get("packages") or data.get("packages") or ()),
        library=data.get("library", ""),
        version=str(data.get("version", "")),
        source=item.get("source") or data.get("source", ""),
        parameter=parameter,
        when_true=rule.get("when_true", ""),
        when_false=rule.get("when_false", ""),
        always=rule.get("always", ""),
        epsilon=rule.get("epsilon"),
        option=rule.get("option", ""),
        environment=_slot(item.get("environment")),
        eval_environment=_slot(item.get("eval_environment")),
        policy=_slot(item.get("policy")),
        of=tuple(item.get("of") or ()),
        procedure=item.get("procedure", "fixed_checkpoint"),
        agent=item.get("agent", ""),
        constructs=bool(item.get("constructs", False)),
        role=item.get("role", ""),
        unless=_slot(item.get("unless")),
    )


def _slot(value: dict[str, Any] | None) -> Slot | None:
    if not value:
        return None
    return Slot(value["parameter"], value.get("position"), None, bool(value.get("of_receiver", False)))
