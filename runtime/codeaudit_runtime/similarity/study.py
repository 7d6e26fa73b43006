"""Which units a similarity study consists of, and what may be said of them. Not for rendering.

Two encoders are compared on one batch of pictures: the same rows on both sides, so a pairing means something. One
encoder on training against held-out pictures has no such pairing: there rows are paired by the step at which they were
seen, and the control shows that training against training, paired the same way, gives about the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime import campaign
from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.gap_run import RunFile
from codeaudit_runtime.jobs import done_jobs
from codeaudit_runtime.measure import AgentFiles
from codeaudit_runtime.similarity.features import SLOTS, layers_of, visited
from codeaudit_runtime.similarity.statistics import Null, dormant_shares, permutation_null
from codeaudit_runtime.statistics import Comparison, Estimate, estimate_from_values, welch

THRESHOLDS = (0.0, 0.025, 0.1)  # τ of a dormant unit
DRAWS = 8  # an interval of A − C over three draws says nothing
STEPS = 64  # of each slot; with 16 slots 1,024 rows, half of them in the control


@dataclass(frozen=True)
class SimilarityJob:
    """One draw. With `second`, two encoders on one batch of `levels`; else one encoder's control, `levels` against
    `other`."""

    first: AgentFiles
    second: AgentFiles | None
    name: str
    environment: str
    levels: LevelSet
    other: LevelSet
    draw: int
    steps: int
    permutations: int

    @property
    def key(self) -> str:
        agents = f"{self.first.sha256}|{self.second.sha256 if self.second else ''}"
        sets = "|".join(f"{levels.name}={levels.start}:{levels.count}" for levels in (self.levels, self.other))
        return f"similarity|{agents}|{self.environment}|{sets}|{self.draw}|{self.steps}x{SLOTS}|{self.permutations}"


def similarity_bytes(job: SimilarityJob) -> bytes:
    found = _control(job) if job.second is None else {"cross": asdict(_cross(job, job.second))}
    return json.dumps(found).encode()


def _rng(job: SimilarityJob, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([job.draw, job.levels.start, stream])))


def _cross(job: SimilarityJob, second: AgentFiles) -> Null:
    """Half of the batch is what either agent visits, so that neither encoder is at home more than the other."""
    seen = [
        visited(files, job.name, job.environment, job.levels, job.draw, job.steps // 2) for files in (job.first, second)
    ]
    batch = np.concatenate([one.reshape(-1, *one.shape[2:]) for one in seen])
    x, y = (layers_of(files, job.name, batch).features_ND for files in (job.first, second))
    return permutation_null(x, y, job.permutations, _rng(job, 0))


def _control(job: SimilarityJob) -> dict[str, object]:
    """`whole`: train against held-out over all rows. `a` and `c`: with half the slots, train against held-out and train
    against train (disjoint slots), both aligned by step; their nulls are B and D."""
    parts = [visited(job.first, job.name, job.environment, levels, job.draw, job.steps) for levels in _sets(job)]
    flat = [part.reshape(-1, *part.shape[2:]) for part in parts]
    layers = [layers_of(job.first, job.name, part) for part in flat]
    train, heldout = (one.features_ND.reshape(job.steps, SLOTS, -1) for one in layers)
    half, width = SLOTS // 2, train.shape[-1]
    left, right, away = (part.reshape(-1, width) for part in (train[:, :half], train[:, half:], heldout[:, :half]))
    mean = {name: (layers[0].magnitudes[name] + layers[1].magnitudes[name]) / 2 for name in layers[0].magnitudes}
    return {
        "whole": asdict(permutation_null(layers[0].features_ND, layers[1].features_ND, job.permutations, _rng(job, 1))),
        "a": asdict(permutation_null(left, away, job.permutations, _rng(job, 2))),
        "c": asdict(permutation_null(left, right, job.permutations, _rng(job, 3))),
        "dormant": {name: dormant_shares([scores], THRESHOLDS) for name, scores in mean.items()},
        "dormant_all": dormant_shares(list(mean.values()), THRESHOLDS),
        "dormant_fc": dormant_shares([mean["fc"]], THRESHOLDS),
    }


def _sets(job: SimilarityJob) -> tuple[LevelSet, LevelSet]:
    return job.levels, job.other


@dataclass(frozen=True)
class Cross:
    """Two encoders on one batch of each draw: this value may be called a finding."""

    first: str
    second: str
    level_set: str
    draws: tuple[Null, ...]
    value: Estimate  # over draws
    finding: bool = True


@dataclass(frozen=True)
class Control:
    """One encoder, training against held-out pictures, with the control that shows why the value is no finding.

    A: train against held-out, aligned by step; C: train against train; B, D: the same with one side's rows shuffled.
    """

    run: str
    first: str
    second: str
    whole: tuple[Null, ...]  # one a draw
    a: tuple[Null, ...]
    c: tuple[Null, ...]
    difference: Comparison  # A − C over draws
    aligned: Comparison  # C − D: what pairing by step alone gives
    dormant: dict[str, tuple[float, ...]]  # by layer, mean over draws, for each of THRESHOLDS
    dormant_all: tuple[float, ...]
    reason: str
    finding: bool = False


def mean_of(nulls: Sequence[Null], name: str) -> float:
    return float(np.mean([getattr(one, name) for one in nulls]))


def control_of(run: str, sets: tuple[LevelSet, LevelSet], contents: Sequence[bytes]) -> Control:
    """From the draws' units to one control."""
    loaded = [json.loads(content) for content in contents]
    whole, a, c = (tuple(Null(**one[name]) for one in loaded) for name in ("whole", "a", "c"))
    zero = Estimate(0.0, 0.0, 0.0, 0)
    difference = welch(estimate_from_values([x.value - y.value for x, y in zip(a, c, strict=True)]), zero)
    aligned = welch(estimate_from_values([one.value - one.mean for one in c]), zero)

    def over_draws(values: Sequence[Sequence[float]]) -> tuple[float, ...]:
        return tuple(np.mean(values, axis=0).tolist())

    return Control(
        run=run,
        first=sets[0].name,
        second=sets[1].name,
        whole=whole,
        a=a,
        c=c,
        difference=difference,
        aligned=aligned,
        dormant={name: over_draws([one["dormant"][name] for one in loaded]) for name in loaded[0]["dormant"]},
        dormant_all=over_draws([one["dormant_all"] for one in loaded]),
        reason=_reason(sets[0].name, sets[1].name, a, c, difference),
    )


def _reason(first: str, second: str, a: Sequence[Null], c: Sequence[Null], difference: Comparison) -> str:
    values = f"A {mean_of(a, 'value'):.3f} against C {mean_of(c, 'value'):.3f}"
    interval = f"A − C = {difference.difference:+.3f} [{difference.low:.3f}, {difference.high:.3f}] over draws"
    told = (
        f"{interval}, so {first} against {second} can't be told from {first} against {first}"
        if difference.low <= 0 <= difference.high
        else f"{interval}: other pictures, not another encoder"
    )
    return (
        f"no finding: the rows of {first} and {second} are different pictures, paired by nothing but the step at which "
        f"they were seen ({values}; {told}). The value says how alike slots are at one step and over how many "
        f"directions the features spread, not how the encoder generalizes"
    )


@dataclass(frozen=True)
class SimilarityReport:
    crosses: tuple[Cross, ...]
    controls: tuple[Control, ...]


def measured_similarity(
    runs: Sequence[RunFile],
    level_sets: Sequence[LevelSet],
    draws: Sequence[int],
    run: RunDirectory | None,
    options: campaign.Options,
    *,
    steps: int = STEPS,
    permutations: int = 200,
) -> SimilarityReport:
    """Every pair of different encoders on one batch of each level set, and each run's own control.

    Raises UserError where the runs are of several environments.
    """
    environments = list(dict.fromkeys(one.environment for one in runs))
    if len(environments) > 1:
        raise UserError(f"runs of {' and '.join(environments)}", hint="encoders are compared on pictures of one game")
    unique = list({one.files.sha256: one for one in runs}.values())
    pairs = [(one, two) for index, one in enumerate(unique) for two in unique[index + 1 :]]
    within = [(one, level_sets[0], other) for one in unique for other in level_sets[1:]]

    def job(one: RunFile, two: RunFile | None, levels: LevelSet, other: LevelSet, draw: int) -> SimilarityJob:
        second = two.files if two is not None else None
        return SimilarityJob(one.files, second, one.id, one.environment, levels, other, draw, steps, permutations)

    jobs = [job(one, two, levels, levels, draw) for one, two in pairs for levels in level_sets for draw in draws]
    jobs += [job(one, None, levels, other, draw) for one, levels, other in within for draw in draws]
    done = iter(done_jobs(jobs, similarity_bytes, run, workers=options.workers, executor=options.executor))
    crosses = []
    for one, two in pairs:
        for levels in level_sets:
            nulls = tuple(Null(**json.loads(next(done))["cross"]) for _ in draws)
            value = estimate_from_values([null.value for null in nulls])
            crosses.append(Cross(one.id, two.id, levels.name, nulls, value))
    controls = [control_of(one.id, (levels, other), [next(done) for _ in draws]) for one, levels, other in within]
    return SimilarityReport(tuple(crosses), tuple(controls))
