"""One way in which an action may be produced: plain data that the tracer gives and the classifier reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from codeaudit.program.folding import Known, Origin
from codeaudit.program.index import ClassInfo, Function


@dataclass(frozen=True)
class Decision:
    """A condition or an amount that shaped the draw, and who decided it."""

    file: str
    line: int
    origin: Origin
    what: str
    test: int = 0  # the identity of the condition; 0 for an amount (a scale, an epsilon), which always matters


@dataclass(frozen=True)
class Draw:
    """One way in which the action may be produced."""

    rule: str  # sampled, greedy, uniform_random, noisy, network (an output with nothing drawn), unknown
    file: str
    line: int
    function: Function
    decisions: tuple[Decision, ...] = ()
    epsilon: Known | None = None
    epsilon_test: tuple[str, int] | None = None
    chance: str = ""  # "random" on the branch that an epsilon test takes, "other" on the other one
    value_based: bool = False
    path: tuple[tuple[str, int, str], ...] = ()  # calls entered on the way
    owner: str = ""  # the class whose policy it is
    asked: ClassInfo | Function | None = field(default=None, repr=False)  # whose method, else what, gave the action
    sure: bool = True
    squashed: bool = False
    dispatch: str = ""  # the name of the agent that a branch is for, as the code compares it
    doubt: int = 0  # undecided conditions on the way
    why: str = ""
    guards: frozenset[tuple[int, bool]] = field(
        default=frozenset(), repr=False
    )  # conditions on the way, decided or not
    through: frozenset[int] = field(default=frozenset(), repr=False)  # ids of the functions entered
