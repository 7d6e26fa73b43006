"""Training: the gradients by hand are autograd's, a resumed run is the same run, and members don't touch each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")

import numpy as np  # noqa: E402
from codeaudit_runtime.claims.heads import head_from_file  # noqa: E402
from codeaudit_runtime.train import qrdqn  # noqa: E402
from codeaudit_runtime.train.networks import Members, NetworkShape  # noqa: E402
from codeaudit_runtime.train.recipe import Recipe  # noqa: E402

from codeaudit.errors import UserError  # noqa: E402
from codeaudit.store import RunDirectory  # noqa: E402

QUICK = Recipe("riskygrid", 900, seeds=2, warmup=100, buffer=300, epsilon_steps=400)


@pytest.mark.parametrize("observation", [(20,), (10, 10, 4)])
def test_gradients_by_hand_are_those_of_autograd(observation: tuple[int, ...]) -> None:
    shape = NetworkShape(observation, 3, 5)
    network, gradient = Members(shape, 2), Members(shape, 2)
    network.draw([1, 2])
    inputs, slope = torch.rand(2, 6, *observation), torch.randn(2, 6, 15)
    keep: list[torch.Tensor] = []
    outputs = network.forward(inputs, keep)
    network.backward(keep, slope, gradient.parameters)
    leaves = {name: value.clone().requires_grad_() for name, value in network.parameters.items()}
    values = network.inputs_of(inputs)
    for name in shape.layers():
        values = values if name == "conv" else values.reshape(2, 6, -1)
        values = torch.baddbmm(leaves[f"{name}.bias"], values, leaves[f"{name}.weight"])
        values = values if name == "output" else torch.relu(values)
    assert torch.allclose(values.view_as(outputs), outputs)
    values.backward(slope)
    for name, leaf in leaves.items():
        assert leaf.grad is not None
        assert torch.allclose(leaf.grad, gradient.parameters[name], atol=1e-5), name


def test_the_quantile_huber_gradient_is_that_of_the_loss() -> None:
    predicted = torch.randn(2, 4, 7, requires_grad=True)
    target = torch.randn(2, 4, 7) * 2
    levels = (torch.arange(7) + 0.5) / 7
    errors = target.unsqueeze(-2) - predicted.unsqueeze(-1)
    huber = torch.where(errors.abs() <= 1, 0.5 * errors**2, errors.abs() - 0.5)
    loss = ((levels[:, None] - (errors < 0).float()).abs() * huber).mean(-1).sum(-1).mean(1).sum()
    loss.backward()
    assert torch.allclose(predicted.grad, qrdqn.quantile_huber_gradient(predicted.detach(), target), atol=1e-6)


def trained(recipe: Recipe, folder: Path) -> list[qrdqn.TrainedMember]:
    return qrdqn.train_members(recipe, RunDirectory(folder, recipe.to_json()))


def test_a_resumed_run_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qrdqn, "CHUNK", 400)
    whole = trained(QUICK, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(step: int, returns: object) -> None:
        if step == 800:
            raise Killed

    run = RunDirectory(tmp_path / "cut", QUICK.to_json())
    with pytest.raises(Killed):
        qrdqn.train_members(QUICK, run, kill)
    assert [member.content for member in qrdqn.train_members(QUICK, run)] == [member.content for member in whole]


def test_a_member_is_what_it_would_be_alone(tmp_path: Path) -> None:
    """Up to rounding, which differs with the shape of a product."""
    together = trained(QUICK, tmp_path / "both")[1]
    alone = trained(dataclasses.replace(QUICK, seeds=1, first_seed=1), tmp_path / "one")[0]
    heads = []
    for name, member in (("a", together), ("b", alone)):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(member.content)
        heads.append(head_from_file(str(path)).quantiles_NAQ(np.eye(20, dtype=np.float32)))
    assert np.allclose(heads[0], heads[1], atol=1e-3)
    assert together.returns == pytest.approx(alone.returns, abs=0.2)


def test_training_learns_what_a_gamble_is(tmp_path: Path) -> None:
    """In the last column the head must spread GAMBLE by g and leave SAFE narrow."""
    recipe = Recipe(
        "riskygrid", 4_000, warmup=500, learning_rate=1e-3, epsilon_steps=10, epsilon_last=1.0, discount=0.0
    )
    path = tmp_path / "agent.safetensors"
    path.write_bytes(trained(recipe, tmp_path / "run")[0].content)
    observation = np.zeros((1, 20), dtype=np.float32)
    observation[0, 9] = 1.0
    observation[0, 10:] = 2.0
    safe, gamble = np.sort(head_from_file(str(path)).quantiles_NAQ(observation)[0], axis=1)
    assert gamble[-5] - gamble[5] > 2.0
    assert safe[-5] - safe[5] < 1.0


def test_recipes_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError):
        Recipe("riskygrid", 5_000)
    with pytest.raises(UserError):
        Recipe("riskygrid", 10_000, algorithm="c51")
