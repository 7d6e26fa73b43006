"""The two ProcGen agents as trainable modules: IMPALA and multi-scale FPN. Not for training loops or audited files.

IMPALA: Espeholt et al. 2018, Figure 3 (large network, no LSTM). FPN: Lin et al. 2017, on the same three blocks.
Layer names are those of the saved tensors; `networks.py` rebuilds both from tensors for inference.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from codeaudit.errors import UserError

CHANNELS = (16, 32, 32)  # of the three blocks
WIDTH = 256  # units of the layer that the heads read
PYRAMID, CELLS = 32, 4  # channels of a pyramid level, and its rows and columns after pooling
ENCODERS = ("impala", "fpn")


class Residual(nn.Module):
    """x + conv1(relu(conv0(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, values: Tensor) -> Tensor:
        inner: Tensor = self.conv1(torch.relu(self.conv0(torch.relu(values))))
        return values + inner


class Block(nn.Module):
    """3 × 3 convolution, max-pool of stride 2, two residual sub-blocks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.res0, self.res1 = Residual(outputs), Residual(outputs)

    def forward(self, values: Tensor) -> Tensor:
        pooled = functional.max_pool2d(self.conv(values), kernel_size=3, stride=2, padding=1)
        result: Tensor = self.res1(self.res0(pooled))
        return result


class ProcgenAgent(nn.Module):
    """An encoder of uint8 images (N × 64 × 64 × 3) with the heads `actor` (N × actions) and `critic` (N)."""

    def __init__(self, encoder: str, actions: int) -> None:
        super().__init__()
        if encoder not in ENCODERS:
            raise UserError(f"encoder {encoder!r} is unknown", hint=f"known: {', '.join(ENCODERS)}")
        self.encoder = encoder
        inputs = (3, *CHANNELS[:-1])
        self.blocks = nn.ModuleList(Block(into, out) for into, out in zip(inputs, CHANNELS, strict=True))
        if encoder == "fpn":
            self.lateral = nn.ModuleList(nn.Conv2d(channels, PYRAMID, 1) for channels in CHANNELS)
            self.smooth = nn.ModuleList(nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1) for _ in CHANNELS)
            flattened = len(CHANNELS) * PYRAMID * CELLS * CELLS
        else:
            flattened = CHANNELS[-1] * 8 * 8
        self.fc = nn.Linear(flattened, WIDTH)
        self.actor, self.critic = nn.Linear(WIDTH, actions), nn.Linear(WIDTH, 1)
        # As CleanRL: a first policy that is nearly uniform, whatever the encoder says.
        for head, gain in ((self.actor, 0.01), (self.critic, 1.0)):
            nn.init.orthogonal_(head.weight, gain)
            nn.init.zeros_(head.bias)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(images)
        return self.actor(features), self.critic(features).squeeze(-1)

    def features(self, images: Tensor) -> Tensor:
        """What the heads read (N × 256), after its relu."""
        values = images.permute(0, 3, 1, 2).to(torch.float32) / 255.0  # a view: channels last in memory already
        scales = []
        for block in self.blocks:
            values = block(values)
            scales.append(values)
        flat = self._pyramid(scales) if self.encoder == "fpn" else torch.relu(values).flatten(1)
        return torch.relu(self.fc(flat))

    def _pyramid(self, scales: list[Tensor]) -> Tensor:
        """Top-down: each level adds the coarser one, doubled by nearest neighbour; then smoothed, pooled, joined."""
        laterals = [lateral(torch.relu(scale)) for lateral, scale in zip(self.lateral, scales, strict=True)]
        levels = [laterals[-1]]
        for lateral in reversed(laterals[:-1]):
            levels.insert(0, lateral + functional.interpolate(levels[0], scale_factor=2.0, mode="nearest"))
        smoothed = [torch.relu(smooth(level)) for smooth, level in zip(self.smooth, levels, strict=True)]
        return torch.cat([functional.adaptive_avg_pool2d(level, CELLS).flatten(1) for level in smoothed], dim=1)


def agent_from_seed(encoder: str, actions: int, seed: int) -> ProcgenAgent:
    """A fresh agent whose weights depend on `seed` alone; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ProcgenAgent(encoder, actions).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def encoder_parameters(agent: ProcgenAgent) -> int:
    """Numbers that are trained, heads left out."""
    heads = ("actor.", "critic.")
    return sum(value.numel() for name, value in agent.named_parameters() if not name.startswith(heads))
