"""Best beam pairs of the arrays of kau-e5g in the channel model of Sionna: write `array-gain.json`.

Runs with Sionna and TensorFlow and without wavebed, so that nothing is shared with what is checked:

    python -m venv sionna
    sionna/bin/pip install "tensorflow-cpu==2.19.1" "numpy<2" scipy matplotlib importlib_resources
    sionna/bin/pip install --no-deps sionna-no-rt==1.2.1
    sionna/bin/python docs/validation/array_gain_sionna.py

Sionna draws large-scale parameters, clusters and the 20 rays of each, coupled at random (TR 38.901 7.5, steps 4 to 8).
Here the arrays are put on: a planar array of isotropic elements half a wavelength apart, facing the other end, with
twice as many DFT beams as elements in each direction. Of all pairs of beams the best one counts. `rays` has the mean
over the phases of the rays, without polarisation; `coefficients` has the channel coefficients of steps 9 to 11, with
random phases, cross-polarisation and vertical elements.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from sionna.phy import config
from sionna.phy.channel.tr38901 import PanelArray, UMi

OUT: Final = Path(__file__).with_name("array-gain.json")
FREQUENCY_HZ: Final = 28e9
STATION_M: Final = (0.0, 0.0, 3.0)
UE_M: Final = (75.0, 10.0, 1.0)
ARRAYS: Final = {"station": (8, 8), "ue": (4, 4)}
DROPS: Final = 1000
CHUNK: Final = 20
SEED: Final = 1


def main() -> None:
    """Compute both states and write the file."""
    config.seed = SEED
    found = {
        "source": {name: version(name) for name in ("sionna-no-rt", "tensorflow-cpu", "numpy")},
        "setting": {
            "scenario": "umi", "frequency_hz": FREQUENCY_HZ, "station_m": STATION_M, "ue_m": UE_M, "arrays": ARRAYS,
            "drops": DROPS, "seed": SEED,
        },
    }  # fmt: skip
    for name, los in (("nlos", False), ("los", True)):
        model = channel(los, DROPS, dict.fromkeys(ARRAYS, (1, 1)))
        lsp = model._lsp_sampler()  # noqa: SLF001 - the model's own steps have no public name
        rays = model._ray_sampler(lsp)  # noqa: SLF001
        found[name] = {"rays": by_rays(rays, lsp, los), "coefficients": by_coefficients(los)}
    OUT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))


def channel(los: bool, drops: int, arrays: dict[str, tuple[int, int]]) -> UMi:
    """Return the model of Sionna with one UE and one base station that face each other."""
    panels = {
        end: PanelArray(
            num_rows_per_panel=rows, num_cols_per_panel=columns, polarization="single", polarization_type="V",
            antenna_pattern="omni", carrier_frequency=FREQUENCY_HZ,
        )
        for end, (rows, columns) in arrays.items()
    }  # fmt: skip
    model = UMi(
        carrier_frequency=FREQUENCY_HZ, o2i_model="low", ut_array=panels["ue"], bs_array=panels["station"],
        direction="downlink", enable_pathloss=False, enable_shadow_fading=False,
    )  # fmt: skip
    azimuth, elevation = direct()
    model.set_topology(
        ut_loc=repeated([UE_M], drops), bs_loc=repeated([STATION_M], drops),
        # Sionna's second angle turns downwards.
        bs_orientations=repeated([(azimuth, -elevation, 0.0)], drops),
        ut_orientations=repeated([(azimuth + np.pi, elevation, 0.0)], drops),
        ut_velocities=repeated([(0.0, 0.0, 0.0)], drops), in_state=np.zeros((drops, 1), bool), los=los,
    )  # fmt: skip
    return model


def repeated(row: Any, drops: int) -> Any:
    """Return one row for each drop."""
    return np.repeat(np.asarray(row, np.float32)[None], drops, axis=0)


def direct() -> tuple[float, float]:
    """Return azimuth and elevation, in radians, from the base station to the UE."""
    x, y, z = np.subtract(UE_M, STATION_M)
    return float(np.arctan2(y, x)), float(np.arctan2(z, np.hypot(x, y)))


def beams(end: str, azimuth: Any, zenith: Any, facing: tuple[float, float]) -> Any:
    """Return the power gain of each beam of an array towards rays: (beams, *rays)."""
    turn, up = facing
    east, north, high = np.sin(zenith) * np.cos(azimuth), np.sin(zenith) * np.sin(azimuth), np.cos(zenith)
    ahead = east * np.cos(turn) + north * np.sin(turn)
    aside = north * np.cos(turn) - east * np.sin(turn)
    above = high * np.cos(up) - ahead * np.sin(up)
    rows, columns = (row(count, sine) for count, sine in zip(ARRAYS[end], (above, aside), strict=True))
    return (rows[:, None] * columns[None]).reshape(-1, *azimuth.shape)


def row(count: int, sine: Any) -> Any:
    """Return the power of 2n beams of n elements towards the sines of angles."""
    steered = (np.arange(2 * count) - count) / count
    phase = np.pi * np.arange(count)[:, None, None] * (sine.ravel()[None, None] - steered[None, :, None])
    power = np.abs(np.exp(1j * phase).sum(axis=0)) ** 2 / count
    return power.reshape(2 * count, *sine.shape)


def by_rays(rays: Any, lsp: Any, los: bool) -> dict[str, Any]:
    """Return the gain of the best pair in each drop, and the spreads, of mean power over phases."""
    power = rays.powers.numpy()[:, 0, 0]
    delay = rays.delays.numpy()[:, 0, 0]
    angles = {name: getattr(rays, name).numpy()[:, 0, 0] for name in ("aod", "zod", "aoa", "zoa")}
    k = lsp.k_factor.numpy()[:, 0, 0] if los else np.zeros(len(power))
    azimuth, elevation = direct()
    straight = {"aod": azimuth, "zod": np.pi / 2 - elevation, "aoa": azimuth + np.pi, "zoa": np.pi / 2 + elevation}
    gain, spreads = [], {name: [] for name in ("delay_s", *angles)}
    for drop in range(len(power)):
        there = power[drop] > 0
        share = np.repeat(power[drop][there], 20) / 20 / (1 + k[drop])
        weight = np.append(share, k[drop] / (1 + k[drop]))
        own = {name: np.append(values[drop][there].ravel(), straight[name]) for name, values in angles.items()}
        out = beams("station", own["aod"], own["zod"], (azimuth, elevation))
        back = beams("ue", own["aoa"], own["zoa"], (azimuth + np.pi, -elevation))
        gain.append(float(((out * weight) @ back.T).max()))
        late = np.append(np.repeat(delay[drop][there], 20), 0.0)
        spreads["delay_s"].append(np.sqrt((weight * late**2).sum() - (weight * late).sum() ** 2))
        for name, angle in own.items():
            direction = min(1.0, float(np.abs((weight * np.exp(1j * angle)).sum())))
            spreads[name].append(np.degrees(np.sqrt(-2 * np.log(direction))))
    return {
        "gain_db": deciles(10 * np.log10(gain)),
        "delay_spread_drawn_s": float(np.median(lsp.ds.numpy())),
        "spreads": {name: deciles(values) for name, values in spreads.items()},
    }


def by_coefficients(los: bool) -> dict[str, Any]:
    """Return the gain of the best pair over the mean of single elements, of channel coefficients."""
    gain = []
    for _ in range(DROPS // CHUNK):
        model = channel(los, CHUNK, ARRAYS)
        scenario = model._scenario  # noqa: SLF001
        coefficients = model(1, 1.0)[0].numpy()[:, 0, :, 0, :, :, 0]  # (drops, elements of the UE, station, paths)
        out, back = (
            weights(array.ant_pos.numpy() / (299_792_458 / FREQUENCY_HZ), end)
            for array, end in ((scenario.bs_array, "station"), (scenario.ut_array, "ue"))
        )
        received = np.einsum("be,deap->dbap", back, coefficients, optimize=True)
        received = np.einsum("ca,dbap->dbcp", out, received, optimize=True)
        best = (np.abs(received) ** 2).sum(axis=3).max(axis=(1, 2))
        gain += (best / (np.abs(coefficients) ** 2).sum(axis=3).mean(axis=(1, 2))).tolist()
    return {"gain_db": deciles(10 * np.log10(gain))}


def weights(place: Any, end: str) -> Any:
    """Return the conjugate weights of all beams, (beams, elements), of elements at places in wavelengths."""
    rows, columns = (
        np.exp(-2j * np.pi * np.outer((np.arange(2 * count) - count) / count, place[:, axis])) / np.sqrt(count)
        for count, axis in zip(ARRAYS[end], (2, 1), strict=True)
    )
    return (rows[:, None] * columns[None]).reshape(-1, len(place))


def deciles(values: Any) -> list[float]:
    """Return the nine deciles."""
    return [float(f"{value:.4g}") for value in np.percentile(values, range(10, 100, 10))]


if __name__ == "__main__":
    main()
