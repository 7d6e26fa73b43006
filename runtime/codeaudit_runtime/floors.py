"""Floors of several games beside published ones. Reads episode rows; runs nothing.

A published floor says a mean and a standard error over few draws, which is too rough to test with. The test takes the
spread that was measured here for both sides, once per episode and once clustered by level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.statistics import Comparison, Estimate, estimate_from_clusters, estimate_from_values, holm, welch


@dataclass(frozen=True)
class FloorCell:
    """The floor of one game on one level set."""

    environment: str
    level_set: str
    mean: float
    sem_episode: float
    sem_level: float
    sem_draw: float
    episodes: int
    published: float | None = None
    published_sem: float | None = None
    episode: Comparison | None = None  # ours − published
    level: Comparison | None = None
    episode_p: float = math.nan  # Holm over all cells with a published value
    level_p: float = math.nan


@dataclass(frozen=True)
class PublishedFigures:
    """What a file of printed figures says of games, by game name."""

    floors: Mapping[str, Mapping[str, tuple[float, float]]]  # game → level set → mean, sem
    effective_actions: Mapping[str, int]
    episodes: int = 384


def published_figures(path: Path) -> PublishedFigures:
    """Reads `random_floor: {game: {set: [mean, sem]}}` and `effective_actions: {game: n}` of a YAML file.

    Other keys are left alone. Raises UserError.
    """
    shown = printable(str(path))
    try:
        loaded: Any = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{shown}: {error.strerror}", hint="check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UserError(f"{shown}: no YAML") from None
    if not isinstance(loaded, dict) or not ({"random_floor", "effective_actions"} & set(loaded)):
        raise UserError(f"{shown}: neither random_floor nor effective_actions in it")
    try:
        floors = {
            str(game): {str(name): (float(pair[0]), float(pair[1])) for name, pair in sets.items()}
            for game, sets in (loaded.get("random_floor") or {}).items()
        }
        actions = {str(game): int(count) for game, count in (loaded.get("effective_actions") or {}).items()}
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        raise UserError(f"{shown}: random_floor is `game: {{set: [mean, sem]}}`", hint="check its figures") from None
    return PublishedFigures(floors, actions)


def game_of(environment: str) -> str:
    return environment.removeprefix("procgen/").partition(":")[0]


def floor_cells(
    rows_by_game: Mapping[str, Sequence[EpisodeRow]], published: PublishedFigures | None
) -> tuple[FloorCell, ...]:
    """One cell a game and level set; p-values of the comparisons are adjusted over all of them (Holm)."""
    cells = []
    for environment, rows in rows_by_game.items():
        for name in dict.fromkeys(row.level_set for row in rows):
            own = [row for row in rows if row.level_set == name]
            printed = (published.floors if published else {}).get(game_of(environment), {}).get(name)
            cells.append(_cell(environment, name, own, printed))
    compared = [index for index, cell in enumerate(cells) if cell.published is not None]
    by_episode = holm([_p(cells[index].episode) for index in compared])
    by_level = holm([_p(cells[index].level) for index in compared])
    for index, episode_p, level_p in zip(compared, by_episode, by_level, strict=True):
        cells[index] = replace(cells[index], episode_p=episode_p, level_p=level_p)
    return tuple(cells)


def _p(comparison: Comparison | None) -> float:
    return math.nan if comparison is None else comparison.p


def _cell(environment: str, name: str, rows: Sequence[EpisodeRow], printed: tuple[float, float] | None) -> FloorCell:
    returns = returns_of(rows)
    levels = [row.level if row.level is not None else -1 - index for index, row in enumerate(rows)]
    by_episode, by_level = estimate_from_values(returns), estimate_from_clusters(returns, levels)
    draws = dict.fromkeys(row.draw for row in rows)
    by_draw = estimate_from_values([float(returns_of([r for r in rows if r.draw == d]).mean()) for d in draws])
    cell = FloorCell(environment, name, by_episode.mean, by_episode.sem, by_level.sem, by_draw.sem, len(rows))
    if printed is None:
        return cell

    def against(own: Estimate) -> Comparison:
        return welch(own, replace(own, mean=printed[0]))

    return replace(
        cell, published=printed[0], published_sem=printed[1], episode=against(by_episode), level=against(by_level)
    )
