"""Radio scenes from Python: by name, as frames and as pictures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wavebed.conditions.condition import LOW_ORBIT
from wavebed.conditions.lookup import load_scene, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

    from wavebed.channel import Direction, Realisation
    from wavebed.page.charts import Picture
    from wavebed.pattern import Pattern
    from wavebed.scene.model import Mode, SceneModel


class Scene:
    """A radio scene: where a UE goes, past which base stations and obstacles.

    Parameters
    ----------
    name : path
        The name of a shipped scene or of a condition (`names` lists them), or the file of a scene.

    Raises
    ------
    UserError
        If there is no such scene, or it is wrong.

    Examples
    --------
    >>> wavebed.Scene("street-canyon-bus").to_pandas(seed=2)["rate_bps"].median()
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self.given = os.fspath(name)
        self.model: SceneModel = load_scene(self.given)

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the names of the radio scenes, also in conditions, that come with the program."""
        return (*names("scene"), *(name for name in names("condition") if not name.endswith(f"/{LOW_ORBIT}")))

    @property
    def title(self) -> str:
        """What it describes."""
        return self.model.title

    @property
    def duration_s(self) -> float:
        """How long it lasts, seconds."""
        return self.model.duration_s

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the names of its devices."""
        return tuple(device.name for device in self.model.devices or (self.model.ue,))

    def channel(self, seed: int = 1, *, mode: Mode = "3gpp", device: str | None = None) -> Realisation:
        """Return the channel with one seed: arrays with one value for each step.

        Parameters
        ----------
        seed : int
            Not negative.
        mode : {"3gpp", "reference"}
            ``3gpp``: TR 38.901. ``reference``: the method of the study that the scene is from.
        device : str, optional
            One of `devices`; by default the first.

        Raises
        ------
        UserError
            If the mode is ``reference`` and the scene belongs to no study, or there is no such device.
        """
        from wavebed.channel import realise

        return realise(self.model, mode, seed, device)

    def pattern(self, seed: int = 1, direction: Direction = "down", *, device: str | None = None) -> Pattern:
        """Return the capacity of one direction as a pattern, which a link replays."""
        from wavebed.channel import to_pattern

        return to_pattern(self.channel(seed, device=device), direction)

    def to_pandas(self, seed: int = 1) -> pd.DataFrame:
        """Return the channel as a frame of pandas.

        Returns
        -------
        pandas.DataFrame
            A row for each step: ``time_s``, ``x_m``, ``y_m``, ``state``, ``sinr_db``, ``rate_bps`` (towards the UE) and
            ``up_rate_bps``.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        from wavebed.page.frames import pandas_frame

        return pandas_frame(self._columns(seed))

    def to_polars(self, seed: int = 1) -> pl.DataFrame:
        """Return the same as `to_pandas`, as a frame of Polars.

        Raises
        ------
        MissingPackageError
            If Polars is not installed.
        """
        from wavebed.page.frames import polars_frame

        return polars_frame(self._columns(seed))

    def _columns(self, seed: int) -> dict[str, NDArray[np.generic]]:
        import numpy as np

        from wavebed.pattern.model import STATES

        found = self.channel(seed)
        return {
            "time_s": found.time_s,
            "x_m": found.position_m[:, 0],
            "y_m": found.position_m[:, 1],
            "state": np.array(STATES)[found.state],
            "sinr_db": found.sinr_db,
            "rate_bps": found.rate_bps,
            "up_rate_bps": found.up_rate_bps,
        }

    def plot(self, seed: int | Sequence[int] = 1) -> Picture:
        """Draw the map and the channel: with one seed its course, with several the medians and percentiles 5 to 95.

        Raises
        ------
        MissingPackageError
            If Matplotlib is not installed.
        """
        from wavebed.extras import require

        require("report", "plot()", ("matplotlib",))
        from wavebed.channel import ensemble
        from wavebed.channel.plot import picture_of
        from wavebed.channel.plot_data import Album

        album = Album()
        for each in ensemble(self.model, seeds=[seed] if isinstance(seed, int) else seed):
            album.add(each)
        return picture_of(album.view())

    def __repr__(self) -> str:
        """Name it, with its title."""
        return f"Scene({self.given!r}): {self.title}, {self.duration_s:g} s"

    def _repr_html_(self) -> str | None:
        from wavebed.page.frames import notebook_table

        model = self.model
        rows = [
            ("duration", f"{self.duration_s:g} s"),
            ("carrier", f"{model.carrier.technology}, {model.carrier.frequency_hz / 1e9:g} GHz"),
            ("bandwidth", f"{model.carrier.bandwidth_hz / 1e6:g} MHz"),
            ("base stations", ", ".join(each.name for each in model.base_stations)),
            ("obstacles", str(len(model.obstacles))),
            ("source", model.anchor),
        ]
        return notebook_table(f"{self.given}: {self.title}", ("scene", ""), rows)
