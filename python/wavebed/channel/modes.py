"""One realisation of a scene, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.channel.batch import realise_batch
from wavebed.channel.budget import LinkBudget
from wavebed.channel.devices import view, views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.channel.realisation import Realisation
    from wavebed.scene.model import Mode, SceneModel


BATCH_SEEDS = 8
BATCH_STEPS = 400_000
"""Most steps of a batch: some thirty arrays of 3 MB each. Larger batches save nothing more and leave the cache."""


def realise(scene: SceneModel, mode: Mode = "3gpp", seed: int = 1, device: str | None = None) -> Realisation:
    """Return the channel of a scene with one seed.

    Parameters
    ----------
    scene : SceneModel
        The scene.
    mode : {"3gpp", "reference"}
        ``3gpp``: TR 38.901. ``reference``: the source study's method.
    seed : int
        Not negative.
    device : str, optional
        The device of a scene with several; by default the first.

    Raises
    ------
    UserError
        If the mode is ``reference`` and the scene belongs to no study, or the scene has no such device.
    """
    return next(ensemble(scene, mode, (seed,), device=device))


def realise_devices(scene: SceneModel, mode: Mode = "3gpp", seed: int = 1) -> Iterator[Realisation]:
    """Yield the channel of each device of a scene, in order; each equals what `realise` gives for it.

    Raises
    ------
    UserError
        As `realise`.
    """
    for one in views(scene, seed):
        yield from _batch(one, LinkBudget(one) if mode == "3gpp" else None, (seed,))


def ensemble(
    scene: SceneModel,
    mode: Mode = "3gpp",
    seeds: Sequence[int] = range(1, 101),
    progress: Callable[[int, int], None] | None = None,
    device: str | None = None,
) -> Iterator[Realisation]:
    """Yield one realisation for each seed, in order; each equals what `realise` gives for its seed.

    Parameters
    ----------
    scene, mode
        As for `realise`.
    seeds : sequence of int
        Not negative.
    progress : callable, optional
        Receives the number of finished seeds, and of all.
    device : str, optional
        As for `realise`.

    Raises
    ------
    UserError
        As `realise`.
    """
    steps = max(1, round(scene.duration_s / scene.step_s))
    size = max(1, min(BATCH_SEEDS, BATCH_STEPS // steps))
    drawn = any(one.spread for one in scene.devices)
    size = 1 if drawn else size  # each seed has places of its own
    seen, budget = scene, None
    for start in range(0, len(seeds), size):
        some = seeds[start : start + size]
        if drawn or start == 0:
            seen = view(scene, device, some[0])
            budget = LinkBudget(seen) if mode == "3gpp" else None
        yield from _batch(seen, budget, some)
        if progress is not None:
            progress(start + len(some), len(seeds))


def _batch(scene: SceneModel, budget: LinkBudget | None, seeds: Sequence[int]) -> list[Realisation]:
    if budget is not None:
        return realise_batch(budget, seeds)
    from wavebed.channel.reference import realise_reference

    return realise_reference(scene, seeds)
