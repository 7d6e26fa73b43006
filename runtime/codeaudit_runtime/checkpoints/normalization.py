"""Frozen observation statistics out of a VecNormalize pickle, without running it. Not a general pickle reader."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np

from codeaudit.errors import UserError
from codeaudit_runtime.policies import Normalized, Policy
from codeaudit_runtime.spaces import FloatArray

MAX_BYTES = 64 << 20
# Objects of these packages become inert stand-ins: their state is kept, their code is never imported.
STAND_IN_PACKAGES = ("stable_baselines3", "gym", "gymnasium")
STAND_IN_FUNCTIONS = frozenset(
    ("numpy.random._pickle", name)
    for name in ("__randomstate_ctor", "__generator_ctor", "__bit_generator_ctor", "PCG64", "MT19937")
) | {("numpy.random._pcg64", "PCG64"), ("numpy.random._mt19937", "MT19937")}


@dataclass(frozen=True)
class Normalization:
    """Mean and variance of observations (shape of one observation), ε, and the limit of the clipped result."""

    mean: FloatArray
    variance: FloatArray
    epsilon: float
    limit: float

    def applied_to(self, policy: Policy) -> Policy:
        return Normalized(policy, self.mean, np.sqrt(self.variance + self.epsilon), self.limit)


class StandIn:
    """Holds the state of an object whose class is not imported."""

    def __init__(self, *_: object, **__: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def field(self, name: str) -> Any:
        return self.state.get(name) if isinstance(self.state, dict) else None


def _plain_dtype(*arguments: Any) -> np.dtype[Any]:
    code = arguments[0] if arguments else None
    if not isinstance(code, str) or code.lstrip("<>|=")[:1] not in ("f", "i", "u", "b", "S", "U"):
        raise pickle.UnpicklingError("an array of something other than numbers")
    return np.dtype(code)


def _empty_array(*_: object) -> np.ndarray[Any, Any]:
    return np.empty(0)  # shape and content come with the state; a shape given here could ask for any amount of memory


def _scalar(dtype: Any, content: Any = b"") -> Any:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(content, bytes):
        raise pickle.UnpicklingError("a scalar that is no number")
    return np.frombuffer(content, dtype=dtype)[0]


# What numpy writes for arrays and scalars, under its names before and after version 2.
NUMPY_READERS: dict[tuple[str, str], Any] = {("numpy", "dtype"): _plain_dtype, ("numpy", "ndarray"): StandIn}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    NUMPY_READERS[(_module, "_reconstruct")] = _empty_array
    NUMPY_READERS[(_module, "scalar")] = _scalar


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        reader = NUMPY_READERS.get((module, name))
        if reader is not None:
            return reader
        if (module, name) in STAND_IN_FUNCTIONS or module.split(".")[0] in STAND_IN_PACKAGES:
            return StandIn
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside the file")


def normalization_from_pickle(content: bytes, where: str) -> Normalization | None:
    """The observation statistics, or None if the file says that observations are not normalised.

    Raises UserError where the pickle asks for anything but numpy arrays and the known, inert classes.
    """
    if len(content) > MAX_BYTES:
        raise UserError(f"{where}: {len(content)} bytes are too many for normalisation statistics")
    try:
        loaded = _Unpickler(io.BytesIO(content)).load()
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{where}: refused ({error})", hint="statistics hold numbers only; this file was not run"
        ) from None
    except Exception as error:  # a hostile or damaged pickle can fail anywhere; nothing of it has run
        raise UserError(f"{where}: not readable as statistics ({type(error).__name__})") from None
    if not isinstance(loaded, StandIn):
        raise UserError(f"{where}: holds a {type(loaded).__name__}, not normalisation statistics")
    if loaded.field("norm_obs") is False:
        return None
    statistics = loaded.field("obs_rms")
    if not isinstance(statistics, StandIn):
        raise UserError(
            f"{where}: no single set of observation statistics", hint="dictionary observations are not read"
        )
    mean, variance = statistics.field("mean"), statistics.field("var")
    epsilon, limit = loaded.field("epsilon"), loaded.field("clip_obs")
    arrays = all(isinstance(part, np.ndarray) and part.dtype.kind == "f" for part in (mean, variance))
    numbers = all(isinstance(part, int | float | np.floating) for part in (epsilon, limit))
    if not arrays or not numbers or mean.shape != variance.shape:
        raise UserError(f"{where}: the statistics are incomplete", hint="mean, var, epsilon and clip_obs are needed")
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all()):
        raise UserError(f"{where}: the statistics hold NaN, infinite or negative values")
    return Normalization(mean, variance, float(epsilon), float(limit))
