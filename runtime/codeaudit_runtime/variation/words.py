"""What the numbers let a person say, in words: few runs, no bound, compared algorithms, notes. Plain strings only."""

from __future__ import annotations

from collections.abc import Sequence

from codeaudit_runtime.variation.analysis import Analysis, Average, GroupVariation, Settings
from codeaudit_runtime.variation.loading import Input, Loaded
from codeaudit_runtime.variation.numerals import number, ordinal
from codeaudit_runtime.variation.spread import nearest_rank, range_confidence, runs_needed

METHOD_WORDS = {
    "nearest_rank": "nearest rank (a run's own score)",
    "linear": "linear interpolation (NumPy's default)",
    "closest": 'the closest run (NumPy\'s "nearest")',
}
ANCHORS = (
    "For scale, average IPR-90 with 100 runs a task (Tanaka & Mahmood 2026): about 10% for TD-MPC over 48 tasks, 14 to "
    "23% for DQN and Rainbow on five Atari games, about 2% for supervised baselines."
)


def reading(analysis: Analysis) -> list[str]:
    """A short reading: what the table says, and what it can't."""
    lines = [average_sentence(average, analysis) for average in analysis.averages]
    lines += _widest(analysis)
    lines += sample_size_sentences(analysis)
    lines += _comparisons(analysis)
    if any(group.bounds is not None and group.bounds.origin == "empirical" for group in analysis.groups):
        lines.append(
            "Bounds marked * are empirical: the lowest and highest value that these runs logged. The share depends "
            "on these very runs and does not compare with other papers; give --min and --max where you know them."
        )
    lines.append(
        "The standard error and the bootstrap intervals say how well a mean is known. They shrink as 1/√n when runs "
        "are added; the IPR does not, for it describes the runs themselves."
    )
    lines.append(ANCHORS)
    return lines


def average_sentence(average: Average, analysis: Analysis) -> str:
    who = f"{average.algorithm}: " if average.algorithm else ""
    word = _ipr_word(analysis.settings)
    few = ""
    if nearest_rank(average.smallest_n, 95) == average.smallest_n:
        few = f"; with {average.smallest_n} runs on some tasks that is a range of few runs, and likely too small"
    return (
        f"{who}over {average.tasks} tasks, the average {word} is {average.percent:.1f}% of the task's range "
        f"({', '.join(average.origins)} bounds){few}."
    )


def _ipr_word(settings: Settings) -> str:
    return f"min-max IPR-{settings.inner:g}"


def _widest(analysis: Analysis) -> list[str]:
    groups = [group for group in analysis.groups if group.ipr is not None and group.n > 1]
    if not groups:
        return []
    widest = max(groups, key=lambda group: group.ipr.percent if group.ipr else 0.0)
    assert widest.ipr is not None
    lead = f"Widest: {widest.title}, " if len(groups) > 1 else ""
    return [
        f"{lead}{'from' if lead else 'From'} {number(widest.ipr.lower)} to {number(widest.ipr.upper)}, "
        f"{widest.ipr.percent:.1f}% of the range."
    ]


def sample_size_sentences(analysis: Analysis) -> list[str]:
    """What this many runs can and can't say; one paragraph for each number of runs."""
    sentences = []
    level, inner = analysis.settings.level, analysis.settings.inner
    below = (100 - inner) / 2
    if not 0 < below < 50:
        return []
    needed = runs_needed(below, level=level, side="lower")
    for n in sorted({group.n for group in analysis.groups}):
        if n == 1:
            sentences.append("One run says nothing about variation: there is nothing to compare it with.")
        elif nearest_rank(n, below) == 1 and nearest_rank(n, 100 - below) == n:
            unseen = (1 - below / 100) ** n
            sentences.append(
                f"With {n} runs the {ordinal(below)} and {ordinal(100 - below)} percentiles are the worst and the best "
                f"run, so the IPR (†) is the range of the sample. It holds {inner:g}% of all runs with probability "
                f"{range_confidence(n, inner / 100):.2g}; no run at all is among the worst {below:g}% with probability "
                f"{unseen:.0%}. Report the {n} scores and their range; call neither a percentile of the algorithm. "
                f"{_bootstrap_warning(n)}"
                f"A {level:.0%} lower bound for the {ordinal(below)} percentile needs {needed} runs."
            )
        elif n < needed:
            sentences.append(
                f"With {n} runs the percentiles can be estimated, but there is no {level:.0%} lower bound for the "
                f"{ordinal(below)} percentile; that needs {needed} runs."
            )
    return sentences


def _bootstrap_warning(n: int) -> str:
    return f"Bootstrap intervals of {n} runs never leave the sample's range and are too narrow. " if n < 10 else ""


def _comparisons(analysis: Analysis) -> list[str]:
    """Algorithms on one task, by their intervals; said only where two are compared."""
    sentences = []
    tasks: dict[str, list[GroupVariation]] = {}
    for group in analysis.groups:
        tasks.setdefault(group.task, []).append(group)
    for task, groups in tasks.items():
        if len(groups) != 2 or groups[0].ipr is None or groups[1].ipr is None:
            continue
        first, second = sorted(groups, key=lambda group: group.ipr.percent if group.ipr else 0.0)
        assert first.ipr and second.ipr and first.ipr_interval and second.ipr_interval
        lead = f"{task}: " if task else ""
        high, low = first.ipr_interval.high, second.ipr_interval.low
        if high is not None and high < low:
            said = f"the {analysis.settings.level:.0%} intervals do not overlap: chance alone hardly explains it"
        elif high is None:
            said = "with so few runs the narrower one has no upper limit, so this may be chance"
        else:
            said = "the intervals overlap, so this may be chance"
        sentences.append(
            f"{lead}{first.algorithm} varies by {first.ipr.percent:.1f}%, {second.algorithm} by "
            f"{second.ipr.percent:.1f}%; {said}."
        )
    return sentences


def method_lines(analysis: Analysis) -> list[str]:
    """How every number was made: window, lengths, percentiles, bounds, intervals, seed."""
    s = analysis.settings
    where = (
        "ending where the shortest run of the task ends" if s.lengths == "shortest" else "ending where each run ends"
    )
    absent = "is left out" if s.missing == "leave_out" else "counts as the lower bound"
    lines = [
        f"Final performance of a run: mean of its finite values in {s.window.describe()}, {where}. Gaps are not "
        f"filled; a run without a value there {absent}.",
        f"Percentiles: {METHOD_WORDS[s.method]}. Highlighted runs: always nearest rank.",
        f"Intervals at {s.level:.0%}: order statistics for percentiles and IPR (any distribution), percentile "
        f"bootstrap ({s.resamples:,} resamples, seed {s.seed}) for mean and IQM. Tolerance: {s.content:.0%} of runs.",
    ]
    if s.fail_under is not None:
        share = (
            f"{s.fail_under:g}% of the way from the lower to the upper bound" if s.fail_share else f"{s.fail_under:g}"
        )
        lines.append(f"A run has failed if it ends under {share}; the share's interval is exact (Clopper-Pearson).")
    sources = dict.fromkeys(
        f"{group.bounds.origin}: {group.bounds.source}" for group in analysis.groups if group.bounds is not None
    )
    return [*lines, *(f"Bounds, {source}." for source in sources)]


def note_lines(analysis: Analysis, loaded: Loaded) -> list[str]:
    """Files, columns, notes and everything left out; each kind of remark once."""
    lines = input_lines(loaded.inputs)
    lines += list(dict.fromkeys(loaded.notes))
    notes: dict[str, list[str]] = {}
    for group in analysis.groups:
        for note in group.notes:
            notes.setdefault(note, []).append(group.title)
        if group.outside:
            notes.setdefault("runs end outside the task's bounds", []).append(f"{group.title} ({group.outside})")
    for note, titles in notes.items():
        named = list(dict.fromkeys(titles))
        shown = ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
        lines.append(f"{shown}: {note}")
    for item in (*loaded.left_out, *analysis.left_out):
        lines.append(f"left out: {item.what}: {item.why}")
    return lines


def input_lines(inputs: Sequence[Input]) -> list[str]:
    """Files with the same kind and columns in one line; guessed columns are called so."""
    together: dict[tuple[object, ...], list[Input]] = {}
    for item in inputs:
        together.setdefault((item.kind, item.columns), []).append(item)
    lines = []
    for items in together.values():
        first, columns = items[0], items[0].columns
        files = first.path if len(items) == 1 else f"{len(items)} files, the first {first.path}"
        choice = columns.choice
        named = {
            "value": choice.value,
            "step": choice.step or "",
            "run": choice.run or "the file",
            "task": ", ".join(columns.task),
            "algorithm": ", ".join(columns.algorithm),
        }
        said = [
            f"{what} {name}{' (guessed)' if what in columns.guessed else ''}" for what, name in named.items() if name
        ]
        lines.append(f"{first.kind}: {files}, {sum(item.runs for item in items)} curves; {', '.join(said)}")
    return lines
