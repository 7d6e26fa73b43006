"""Similarity: CKA against its definition, the null's closed form against permutations, and what may be called a
finding."""

from __future__ import annotations

import itertools
import json
from importlib.resources import files
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")

import jsonschema  # noqa: E402
import numpy as np  # noqa: E402
from codeaudit_runtime.similarity import statistics  # noqa: E402
from codeaudit_runtime.train.encoders import ENCODERS, ProcgenAgent, agent_from_seed  # noqa: E402
from codeaudit_runtime.train.procgen_recipe import ProcgenRecipe  # noqa: E402
from codeaudit_runtime.train.qrdqn import safetensors_bytes  # noqa: E402

from codeaudit.cli import main  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4))


def gram(values: np.ndarray) -> np.ndarray:
    centre = np.eye(len(values)) - 1 / len(values)
    return centre @ values @ values.T @ centre


def test_linear_cka_is_the_normalised_product_of_centred_gram_matrices() -> None:
    a, b = gram(X), gram(Y)
    wanted = np.trace(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))
    assert statistics.linear_cka(X, Y) == pytest.approx(wanted)
    rotation, _ = np.linalg.qr(RNG.normal(size=(3, 3)))
    assert statistics.linear_cka(X, 3 * X @ rotation + 1) == pytest.approx(1.0)
    assert np.isnan(statistics.linear_cka(X, np.ones((6, 2))))
    with pytest.raises(ValueError, match="paired"):
        statistics.linear_cka(X, Y[:5])


def test_the_closed_form_is_the_mean_over_all_permutations() -> None:
    every = [statistics.linear_cka(X, Y[list(order)]) for order in itertools.permutations(range(6))]
    a, b = gram(X), gram(Y)
    ratios = [np.trace(one) ** 2 / np.linalg.norm(one) ** 2 for one in (a, b)]
    assert [statistics.participation_ratio(one) for one in (X, Y)] == pytest.approx(ratios)
    assert statistics.null_mean(*ratios, 6) == pytest.approx(np.mean(every), rel=1e-12)


def test_the_permutation_null_tells_paired_rows_from_others() -> None:
    common = RNG.normal(size=(200, 5))
    x, y = common @ RNG.normal(size=(5, 30)), common @ RNG.normal(size=(5, 20)) + RNG.normal(size=(200, 20))
    null = statistics.permutation_null(x, y, 99, np.random.default_rng(1))
    assert null.value == pytest.approx(statistics.linear_cka(x, y))
    assert null.p == 0.01
    assert abs(null.mean - null.closed_form) < 4 * null.standard_error
    shuffled = statistics.permutation_null(x, RNG.permutation(y), 99, np.random.default_rng(1))
    assert shuffled.p > 0.05
    assert shuffled.closed_form == pytest.approx(null.closed_form)


def test_dormant_units_are_those_far_below_their_layers_mean() -> None:
    layers = [np.array([0.0, 0.02, 0.08, 3.9]), np.array([1.0, 1.0]), np.zeros(2)]  # a silent layer is dormant
    assert statistics.dormant_shares(layers, (0.0, 0.025, 0.1)) == pytest.approx((3 / 8, 4 / 8, 5 / 8))


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One fresh agent an encoder."""
    folder, found = tmp_path_factory.mktemp("agents"), []
    for encoder in ENCODERS:
        agent: ProcgenAgent = agent_from_seed(encoder, 15, 0)
        tensors = {name: value.contiguous().clone() for name, value in agent.state_dict().items()}
        path = folder / f"{encoder}.safetensors"
        path.write_bytes(safetensors_bytes(tensors, ProcgenRecipe("procgen/coinrun", encoder).header(0, 15)))
        found.append(path)
    return found


FAST = ["--steps", "8", "--permutations", "99", "--draws", "2", "--workers", "1"]


def test_two_encoders_on_one_batch_are_a_finding_and_one_encoder_is_not(
    agents: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("procgen", reason="the procgen extra is not installed")
    assert main(["similarity", *map(str, agents), *FAST, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, json.loads(files("codeaudit").joinpath("schemas/similarity.schema.json").read_text()))
    between, within = report["between_encoders"], report["within_encoder"]
    assert [(one["level_set"], one["finding"]) for one in between] == [("train", True), ("heldout", True)]
    assert all(null["value"] > null["high"] for one in between for null in one["draws"])
    assert [(one["run"], one["finding"]) for one in within] == [("impala", False), ("fpn", False)]
    for one in within:
        assert one["reason"].startswith("no finding: ")
        assert [null["rows"] for null in (one["whole"][0], one["a"][0], one["c"][0])] == [128, 64, 64]
        for null in (*one["whole"], *one["a"], *one["c"]):
            assert abs(null["mean"] - null["closed_form"]) < 5 * null["standard_error"]
    assert {"smooth.0", "fc"} <= set(within[1]["dormant"]) and "smooth.0" not in within[0]["dormant"]


def test_one_encoder_twice_is_still_one_encoder(agents: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("procgen", reason="the procgen extra is not installed")
    assert main(["similarity", str(agents[0]), str(agents[0]), *FAST]) == 0
    shown = capsys.readouterr().out
    assert "a control, not a finding" in shown and "Two encoders" not in shown
    assert main(["similarity", str(agents[0]), "--levels", "train=0:200"]) == 2
    assert "leaves nothing to compare" in capsys.readouterr().err
