"""Training: the gradients by hand are autograd's, a resumed run is the same run, and members don't touch each other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runtime extra is not installed")

import numpy as np  # noqa: E402
from codeaudit_runtime.checkpoints import checkpoint_from_bytes  # noqa: E402
from codeaudit_runtime.claims.heads import head_from_file  # noqa: E402
from codeaudit_runtime.train import qrdqn  # noqa: E402
from codeaudit_runtime.train.implicit import ImplicitMembers, ImplicitShape  # noqa: E402
from codeaudit_runtime.train.learning import (  # noqa: E402
    Batch,
    CategoricalLearning,
    ImplicitLearning,
    Learning,
    QuantileLearning,
    lower_tail,
    projected,
    quantile_huber_gradient,
)
from codeaudit_runtime.train.networks import Members, NetworkShape  # noqa: E402
from codeaudit_runtime.train.recipe import Recipe  # noqa: E402
from safetensors.torch import load  # noqa: E402

from codeaudit.cli import main  # noqa: E402
from codeaudit.errors import UserError  # noqa: E402
from codeaudit.store import RunDirectory  # noqa: E402

QUICK = Recipe("riskygrid", 900, seeds=2, warmup=100, buffer=300, epsilon_steps=400)


@pytest.mark.parametrize("observation", [(20,), (10, 10, 4), (4, 20, 20)])
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
    assert torch.allclose(predicted.grad, quantile_huber_gradient(predicted.detach(), target), atol=1e-6)


def test_the_gradients_of_an_implicit_network_are_those_of_autograd() -> None:
    shape = ImplicitShape((20,), 3, 5)
    network, gradient = ImplicitMembers(shape, 2), ImplicitMembers(shape, 2)
    network.draw([1, 2])
    inputs, levels, slope = torch.rand(2, 6, 20), torch.rand(2, 6, 4), torch.randn(2, 6, 3, 4)
    keep: list[torch.Tensor] = []
    outputs = network.at_levels(inputs, levels, keep)
    network.backward_at_levels(keep, slope, gradient.parameters)
    leaves = {name: value.clone().requires_grad_() for name, value in network.parameters.items()}

    def layer(name: str, values: torch.Tensor) -> torch.Tensor:
        return torch.einsum("s...i,sio->s...o", values, leaves[f"{name}.weight"]) + leaves[f"{name}.bias"].view(
            2, *[1] * (values.dim() - 2), -1
        )

    features = torch.relu(layer("hidden", torch.relu(layer("first", inputs))))
    cosines = torch.cos(torch.pi * torch.arange(64) * levels.unsqueeze(-1))
    values = layer("output", features.unsqueeze(2) * torch.relu(layer("embedding", cosines))).transpose(2, 3)
    assert torch.allclose(values, outputs, atol=1e-5)
    values.backward(slope)
    for name, leaf in leaves.items():
        assert leaf.grad is not None
        assert torch.allclose(leaf.grad, gradient.parameters[name], atol=1e-4), name
    assert torch.allclose(network.means(inputs), network.forward(inputs).mean(-1), atol=1e-5)


def test_a_categorical_law_is_projected_on_its_support() -> None:
    law = torch.rand(2, 4, 11).softmax(dim=-1)
    rewards, discounts = torch.rand(2, 4), torch.full((2, 4), 0.5)
    moved = projected(law, rewards, discounts, -10.0, 10.0)
    support = torch.linspace(-10.0, 10.0, 11)
    assert torch.allclose(moved.sum(-1), torch.ones(2, 4), atol=1e-6)
    assert torch.allclose(moved @ support, rewards + 0.5 * (law @ support), atol=1e-5)
    beyond = projected(law, torch.full((2, 4), 99.0), discounts, -10.0, 10.0)
    assert torch.allclose(beyond[..., -1], torch.ones(2, 4), atol=1e-6)


def test_the_lower_tail_takes_a_part_of_an_atom() -> None:
    assert float(lower_tail(torch.tensor([9.0, 1.0, 2.0, 8.0]), 0.5)) == pytest.approx(1.5)
    assert float(lower_tail(torch.tensor([9.0, 1.0, 2.0, 8.0]), 0.375)) == pytest.approx((1 + 0.5 * 2) / 1.5)


@pytest.mark.parametrize(
    "learning",
    [QuantileLearning(9), QuantileLearning(9, 0.25), CategoricalLearning(9, -5.0, 5.0), ImplicitLearning(9, 4)],
)
def test_every_algorithm_learns_the_law_of_one_reward(learning: Learning) -> None:
    """Nothing follows: the chosen action pays 3 or −3 by a coin, the other is never taken."""
    shape = learning.shape((3,), 2)
    made = ImplicitMembers if isinstance(shape, ImplicitShape) else Members
    online, into = made(shape, 1), made(shape, 1)  # type: ignore[arg-type]
    online.draw([0])
    generator = torch.Generator().manual_seed(0)
    for _ in range(600):
        rewards = torch.randint(0, 2, (1, 64), generator=generator) * 6.0 - 3.0
        state = torch.ones(1, 64, 3)
        batch = Batch(state, torch.zeros(1, 64, dtype=torch.int64), rewards, state, torch.zeros(1, 64))
        learning.write_gradients(
            online, online, batch, lambda count: torch.rand(1, 64, count, generator=generator), into
        )
        online.flat -= 0.1 * into.flat
    laws = online.forward(torch.ones(1, 1, 3))[0, 0, 0]
    if isinstance(learning, CategoricalLearning):
        laws = laws.softmax(0)
        below = float(laws[torch.linspace(-5.0, 5.0, 9) < 0].sum())
        assert below == pytest.approx(0.5, abs=0.1)
    else:
        ordered = laws.sort().values
        assert float(ordered[:4].max()) < -1.5
        assert float(ordered[5:].min()) > 1.5


def trained(recipe: Recipe, folder: Path) -> list[qrdqn.TrainedMember]:
    return qrdqn.train_members(recipe, RunDirectory(folder, recipe.to_json()))


@pytest.mark.parametrize("algorithm", ["qrdqn", "iqn", "qrdqn-ensemble"])
def test_a_resumed_run_is_the_same_run(algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qrdqn, "CHUNK", 400)
    recipe = dataclasses.replace(QUICK, algorithm=algorithm)
    whole = trained(recipe, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(step: int, returns: object) -> None:
        if step == 800:
            raise Killed

    run = RunDirectory(tmp_path / "cut", recipe.to_json())
    with pytest.raises(Killed):
        qrdqn.train_members(recipe, run, kill)
    assert [member.content for member in qrdqn.train_members(recipe, run)] == [member.content for member in whole]


def test_a_member_is_what_it_would_be_alone(tmp_path: Path) -> None:
    """Up to rounding, which differs with the shape of a product."""
    together = trained(QUICK, tmp_path / "both")[1]
    alone = trained(dataclasses.replace(QUICK, seeds=1, first_seed=1), tmp_path / "one")[0]
    heads = []
    for name, member in (("a", together), ("b", alone)):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(member.content)
        heads.append(head_from_file(str(path)).laws_NAK(np.eye(20, dtype=np.float32)))
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
    safe, gamble = np.sort(head_from_file(str(path)).laws_NAK(observation)[0], axis=1)
    assert gamble[-5] - gamble[5] > 2.0
    assert safe[-5] - safe[5] < 1.0


def test_the_agents_of_every_save_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qrdqn, "CHUNK", 2_600)
    arguments = ["--env", "riskygrid", "--steps", "5_200", "--out", str(tmp_path / "a"), "--keep-each", "--quiet"]
    assert main(["train", "distributional", *arguments]) == 0
    files = sorted(path.relative_to(tmp_path / "a").as_posix() for path in tmp_path.rglob("*.safetensors"))
    assert files == ["at-2600/seed-0.safetensors", "at-5200/seed-0.safetensors", "seed-0.safetensors"]
    first, last, final = ((tmp_path / "a" / name).read_bytes() for name in files)
    assert last == final != first


def test_recipes_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError):
        Recipe("riskygrid", 5_000)
    with pytest.raises(UserError):
        Recipe("riskygrid", 10_000, algorithm="dqn")
    with pytest.raises(UserError, match="support"):
        Recipe("CartPole-v1", 10_000, algorithm="c51")
    with pytest.raises(UserError, match="support"):
        Recipe("CartPole-v1", 10_000, algorithm="c51", support=(3.0, 1.0))


def test_an_ensemble_is_read_at_its_quantile_average(tmp_path: Path) -> None:
    recipe = dataclasses.replace(QUICK, seeds=1, algorithm="qrdqn-ensemble")
    (member,) = trained(recipe, tmp_path / "run")
    assert member.control is not None
    (tmp_path / "all.safetensors").write_bytes(member.content)
    (tmp_path / "one.safetensors").write_bytes(member.control)
    observations = np.eye(20, dtype=np.float32)
    whole = head_from_file(str(tmp_path / "all.safetensors"))
    one = head_from_file(str(tmp_path / "one.safetensors"))
    assert (whole.algorithm, one.algorithm) == ("qrdqn-ensemble", "qrdqn-member")
    stored = load(member.content)
    shape = NetworkShape((20,), 2, 51)
    five = Members(shape, 5)
    for place in range(5):
        for name, value in five.parameters.items():
            value[place] = stored[f"{place}.{name}"]
    laws = five.forward(torch.from_numpy(observations).expand(5, 20, 20)).sort(dim=-1).values
    assert np.allclose(whole.laws_NAK(observations), laws.mean(dim=0).numpy(), atol=1e-5)
    assert np.allclose(np.sort(one.laws_NAK(observations)), laws[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("algorithm", ["qrdqn", "c51", "iqn", "qrdqn-cvar"])
def test_a_trained_agent_can_be_evaluated(algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.safetensors"
    path.write_bytes(trained(dataclasses.replace(QUICK, seeds=1, algorithm=algorithm), tmp_path / "run")[0].content)
    arguments = ["evaluate", str(path), "--env", "riskygrid", "--episodes", "40", "--format", "json", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoints"][0]["algorithm"] == algorithm
    head = head_from_file(str(path))
    observations = np.random.default_rng(0).random((50, 20), dtype=np.float32)
    policy = checkpoint_from_bytes(path.read_bytes(), "agent.safetensors", "").policy
    chosen = policy(observations, None, np.ones(50, dtype=bool))[0].greedy()
    assert (chosen == head.act(observations)).all()
