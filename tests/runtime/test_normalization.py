"""Normalisation statistics are read without importing or running what their pickle names."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codeaudit_runtime.checkpoints.normalization import normalization_from_pickle
from codeaudit_runtime.policies import FunctionPolicy
from codeaudit_runtime.spaces import ActionSpec

from codeaudit.errors import UserError


def statistics_pickle(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> bytes:
    """A pickle of the shape that Stable-Baselines3 writes, made with classes of the same names."""
    for name in ("stable_baselines3", "stable_baselines3.common", "stable_baselines3.common.fake_statistics"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = sys.modules["stable_baselines3.common.fake_statistics"]
    for name in ("VecNormalize", "RunningMeanStd"):
        setattr(module, name, type(name, (), {"__module__": module.__name__}))
    statistics = module.RunningMeanStd()
    statistics.mean, statistics.var, statistics.count = np.array([1.0, 2.0]), np.array([4.0, 0.25]), 100.0
    wrapper = module.VecNormalize()
    fields = {"obs_rms": statistics, "epsilon": 1e-8, "clip_obs": 10.0, "norm_obs": True, "ret": np.float64(3.0)}
    wrapper.__dict__.update({**fields, **changed})
    content = pickle.dumps(wrapper)
    for name in list(sys.modules):
        if name == "stable_baselines3" or name.startswith("stable_baselines3."):
            monkeypatch.delitem(sys.modules, name)
    return content


def test_statistics_are_applied_frozen_and_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    normalization = normalization_from_pickle(statistics_pickle(monkeypatch), "vecnormalize.pkl")
    assert normalization is not None
    seen: list[np.ndarray] = []

    def act(observations: np.ndarray) -> np.ndarray:
        seen.append(observations)
        return np.zeros(len(observations), dtype=int)

    policy = normalization.applied_to(FunctionPolicy(act, ActionSpec("discrete", 2)))
    policy(np.array([[3.0, 2.5], [1e9, 2.0]]), None, np.ones(2, dtype=bool))
    np.testing.assert_allclose(seen[0], [[1.0, 1.0], [10.0, 0.0]], rtol=1e-6)
    assert seen[0].dtype == np.float32


def test_no_class_of_the_pickle_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "vecnormalize.pkl"
    path.write_bytes(statistics_pickle(monkeypatch))
    program = (
        "import sys, pathlib\n"
        "from codeaudit_runtime.checkpoints.normalization import normalization_from_pickle\n"
        "assert normalization_from_pickle(pathlib.Path(sys.argv[1]).read_bytes(), 'x') is not None\n"
        "assert 'stable_baselines3' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_observations_that_are_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert normalization_from_pickle(statistics_pickle(monkeypatch, norm_obs=False), "x") is None


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_that_would_run_code_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for content in (pickle.dumps(Bomb(trace)), statistics_pickle(monkeypatch, venv=Bomb(trace))):
        with pytest.raises(UserError, match="refused"):
            normalization_from_pickle(content, "vecnormalize.pkl")
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(np.array([object], dtype=object), protocol=2),
        pickle.dumps(eval),
        pickle.dumps({"mean": 1}),
        b"cnumpy\nload\n.",
        b"cbuiltins\ngetattr\n.",
        b"",
        b"\x80\x04garbage",
        b"(" * 100_000 + b".",
    ],
)
def test_anything_else_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(UserError, match=r"vecnormalize\.pkl"):
        normalization_from_pickle(content, "vecnormalize.pkl")


@pytest.mark.parametrize("changed", [{"epsilon": None}, {"obs_rms": {"a": 1}}, {"clip_obs": "ten"}])
def test_incomplete_statistics(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        normalization_from_pickle(statistics_pickle(monkeypatch, **changed), "x")
