"""The devices of a scene: where a seed puts the members of a crowd, and the scene as each of them has it.

All devices live in one world. Shadow fading, the line of sight where it is drawn, K factors and clusters are fields of
the place, of one seed for all (TR 38.901 7.6.3): neighbours have nearly the same. Fading within a wavelength,
the pointing of beams and the walls around a device are its own; its name keys them. So a device has the same channel
whatever other devices there are, but for the bodies that shade it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from wavebed.channel.propagation.correlated import generator
from wavebed.scene.geometry import inside, shifted, touches
from wavebed.scene.model import Box, Obstacle, Screen
from wavebed.scene.tables import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.scene.model import SceneModel, Spread, Ue


MOST_DRAWS = 32
"""After this number of places that are taken, a member of a crowd stands in the middle of its part, which is free."""
ABOVE_M = 0.2
"""The top of a person over the UE: 1.7 m (TR 38.901 7.6.4.2) over the usual 1.5 m of a UE (Table 7.2-1)."""


@lru_cache(maxsize=8)  # one after the other, the devices of a scene ask for the same
def placed(scene: SceneModel, seed: int) -> SceneModel:
    """Return the scene with the places of its crowds as a seed draws them; without crowds the scene itself."""
    if not any(device.spread for device in scene.devices):
        return scene
    devices: list[Ue] = []
    for device in scene.devices:
        devices.append(device if device.spread is None else _put(scene, device, device.spread, devices, seed))
    return replace(scene, ue=devices[0], devices=tuple(devices))


def _put(scene: SceneModel, device: Ue, part: Spread, others: list[Ue], seed: int) -> Ue:
    """Return a member of a crowd in a place of its part that is free."""
    random = generator(seed, f"place {device.name}")
    bodies = [_body(other) for other in others if other.body]
    for _ in range(MOST_DRAWS):
        moved = replace(device, trajectory=shifted(device.trajectory, part.at(*random.random(2).tolist())))
        if not any(_meets(obstacle, moved, scene.duration_s) for obstacle in (*scene.obstacles, *bodies)):
            return moved
    return device


def _meets(obstacle: Obstacle, device: Ue, duration_s: float) -> bool:
    if isinstance(obstacle.shape, Box):
        return bool(inside(obstacle, device.trajectory, duration_s))
    return touches(obstacle, obstacle.shape, device.trajectory, duration_s)


def _body(device: Ue) -> Obstacle:
    """Return the person who carries a device."""
    person = KINDS["person"]
    assert person.width_m is not None, "a person has a usual width"
    assert person.height_m is not None, "and a usual height"
    x, y, z = device.trajectory.position_m[0]
    shape = Screen((x, y, z + ABOVE_M - person.height_m), person.width_m, person.height_m)
    moves = len(device.trajectory.time_s) > 1
    return Obstacle(device.name, "person", shape, device.trajectory if moves else None)


def bodies(scene: SceneModel, *, without: str = "") -> tuple[Obstacle, ...]:
    """Return the persons who carry devices of a scene, as obstacles, but not who carries the device `without`."""
    return tuple(_body(device) for device in scene.devices if device.body and device.name != without)


def view(scene: SceneModel, device: str | None, seed: int) -> SceneModel:
    """Return the scene as one of its devices has it: the device is its UE, the others are bodies.

    Parameters
    ----------
    scene : SceneModel
        The scene.
    device : str or None
        The name; ``None``: the first.
    seed : int
        Draws the places of crowds.

    Raises
    ------
    UserError
        If there is no such device.
    """
    if not scene.devices:
        if device is not None:
            scene.device(device)
        return scene
    where = placed(scene, seed)
    return _view(where, where.devices[0] if device is None else where.device(device))


def _view(scene: SceneModel, device: Ue) -> SceneModel:
    return replace(scene, ue=device, bodies=bodies(scene, without=device.name))


def views(scene: SceneModel, seed: int) -> Iterable[SceneModel]:
    """Yield the scene as each of its devices has it, in order."""
    where = placed(scene, seed)
    yield from (_view(where, device) for device in where.devices) if where.devices else (where,)
