"""A collector that learning and measuring share, told apart by a switch: `run(test_mode=True)`."""

from __future__ import annotations

import re

from codeaudit.program.frames import Frame
from codeaudit.program.values import Evaluator

MEASURING = re.compile(r"(is_|in_|do_)?(test(ing)?|eval(uate|uation|uating)?)(_mode|_phase|_run|_episode)?$")
LEARNING = re.compile(r"(is_|in_|do_)?(train|training|learn|learning)(_mode|_phase|_run|_episode)?$")


def says_measuring(frame: Frame, evaluator: Evaluator) -> bool | None:
    """What the caller's switch says of this way into a function; None where there is no switch, or it isn't known."""
    for parameter in frame.function.node.params:
        wanted = True if MEASURING.match(parameter.name) else False if LEARNING.match(parameter.name) else None
        argument = evaluator.resolver.argument(parameter.name, frame) if wanted is not None else None
        known = evaluator.evaluate(*argument) if argument is not None else None
        if known is not None and isinstance(known.value, bool):
            return known.value is wanted
    return None
