"""Curves of .npz files: EvalCallback's evaluations, or runs × points tables. Pickled content is refused."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codeaudit_runtime.spaces import AnyArray
from codeaudit_runtime.variation.readers.source import Choice, RawCurve, Reading, last_of_equal_steps, trouble

LARGEST = 4 << 30  # bytes of arrays in one file, unpacked
TASK = "array"  # the key that tells the tables of one file apart


def arrays_of_file(path: Path) -> dict[str, AnyArray]:
    """Every array of an .npz file. UserError for a damaged file, for one with pickled objects and for a huge one."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(item.file_size for item in archive.infolist())
        if size > LARGEST:
            raise trouble(path, None, f"{size / 1e9:.1f} GB of arrays", "split the file")
        with np.load(path, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise trouble(path, None, error.strerror or str(error), "check the path and its permissions") from None
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError):
        raise trouble(path, None, "no .npz file, or a damaged one", "copy it again, or use --skip-bad") from None
    except ValueError as error:
        if "pickle" in str(error):
            why = "it holds pickled objects (evaluations of unequal number?), which are not loaded"
        else:
            why = f"an array can't be read: {error}"
        raise trouble(path, None, why, "save plain numbers, or leave it out with --skip-bad") from None


@dataclass(frozen=True)
class EvaluationsSource:
    """EvalCallback's file: `timesteps` (T,) and `results` (T, episodes). A point is the mean over its episodes."""

    path: Path
    facts: Mapping[str, str]
    arrays: Mapping[str, AnyArray]
    kind: str = "evaluations"
    values: tuple[str, ...] = ("results",)
    columns: tuple[str, ...] = ()

    def read(self, choice: Choice) -> Reading:
        steps_T = np.asarray(self.arrays["timesteps"], dtype=np.float64)
        results = np.asarray(self.arrays["results"], dtype=np.float64)
        if steps_T.ndim != 1 or len(results) != len(steps_T) or not len(steps_T):
            why = f"timesteps {steps_T.shape} and results {results.shape} do not fit"
            raise trouble(self.path, None, why, "was it written by EvalCallback?")
        if (np.diff(steps_T) < 0).any():
            raise trouble(self.path, None, "timesteps go back", "is it two runs in one file?")
        values_T = results.reshape(len(results), -1).mean(axis=1)
        steps_T, values_T, _ = last_of_equal_steps(steps_T, values_T)
        keys = {name: self.facts.get(name, "") for name in choice.keys}
        return Reading((RawCurve(keys, None, steps_T, values_T, str(self.path)),))


@dataclass(frozen=True)
class ArraysSource:
    """Tables runs × points, one for each task; a step is the number of the point unless `steps` (T,) is there."""

    path: Path
    facts: Mapping[str, str]
    arrays: Mapping[str, AnyArray]
    kind: str = "runs × points arrays"
    values: tuple[str, ...] = ()
    columns: tuple[str, ...] = (TASK,)

    def read(self, choice: Choice) -> Reading:
        given = self.arrays.get("steps")
        curves = []
        for name, array in self.arrays.items():
            if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.size:
                continue
            values_RT = array.astype(np.float64)
            points = values_RT.shape[1]
            steps_T = np.arange(1, points + 1, dtype=np.float64)
            if given is not None and given.shape == (points,):
                steps_T = given.astype(np.float64)
            if (np.diff(steps_T) <= 0).any():
                raise trouble(self.path, None, "the array `steps` does not ascend", "sort it")
            keys = {key: name if key == TASK else self.facts.get(key, "") for key in choice.keys}
            for run, values_T in enumerate(values_RT):
                curves.append(RawCurve(keys, str(run), steps_T, values_T, str(self.path)))
        note = f"{self.path.name}: steps are the numbers of the points, 1 to T"
        return Reading(tuple(curves), () if given is not None else (note,))


def source_from_npz(path: Path, facts: Mapping[str, str]) -> EvaluationsSource | ArraysSource:
    """The reader that fits. UserError where the arrays are neither."""
    arrays = arrays_of_file(path)
    if {"timesteps", "results"} <= set(arrays):
        return EvaluationsSource(path, facts, arrays)
    if any(array.ndim == 2 and array.dtype.kind in "fiu" and array.size for array in arrays.values()):
        return ArraysSource(path, facts, arrays)
    raise trouble(
        path, None, f"neither EvalCallback's arrays nor a runs × points table: {', '.join(arrays) or 'no array'}",
        "save one array (runs, points) for each task",
    )  # fmt: skip
