"""One step of Adam on a flat tensor. Not for schedules or gradients. torch.optim takes seconds to load."""

from __future__ import annotations

from torch import Tensor

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def adam_step(
    values: Tensor, gradient: Tensor, first_moment: Tensor, second_moment: Tensor, updates: int, rate: float
) -> None:
    """Kingma & Ba 2015 with PyTorch's defaults, in place; `updates` counts from 1. It works on single numbers, so
    members of one tensor do not touch."""
    first_moment.lerp_(gradient, 1 - BETA_1)
    second_moment.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
    scale = (second_moment / (1 - BETA_2**updates)).sqrt_().add_(EPSILON)
    values.addcdiv_(first_moment, scale, value=-rate / (1 - BETA_1**updates))
