"""How many rounds and examples a test tries, and the seed of everything that it draws.

`scripts/test` runs the gate: a part of the rounds, always from the same seed. `scripts/test --all`
runs all of them, from a new seed. tests/conftest.py sets both from pytest's options before it
imports a test, so a module may use them in a decorator.
"""

from dataclasses import dataclass

GATE = 0.2
"""The fraction of the rounds that the gate runs."""
GATE_SEED = 20_261_128


@dataclass
class _Chosen:
    scale: float = 1.0
    seed: int = GATE_SEED


_chosen = _Chosen()


def choose(scale: float, seed: int) -> None:
    """Set both for this process."""
    _chosen.scale, _chosen.seed = scale, seed


def scaled(full: int, least: int = 1) -> int:
    """Return how many of `full` rounds or examples to try, at least `least`."""
    return max(least, round(full * _chosen.scale))


def seed() -> int:
    """Return the seed of this run."""
    return _chosen.seed
