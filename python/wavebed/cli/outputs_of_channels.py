"""The outputs about channels, scenes, walks and traces, and about this machine."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from wavebed.cli.doctor import DoctorCheck
from wavebed.path.control import Running


class SpreadFigures(Struct, forbid_unknown_fields=True):
    """Percentiles over the seeds, in the unit of the key."""

    p5: float
    p50: float
    p95: float


Figure: TypeAlias = float | SpreadFigures | None
"""A number, of several seeds with different values their percentiles; null without a value."""


class ChannelState(Struct, forbid_unknown_fields=True):
    """A state of the geometry; figures are absent where states differ between seeds."""

    state: str
    start_s: float
    end_s: float
    mean_sinr_db: Figure | UnsetType = UNSET
    mean_rate_bps: Figure | UnsetType = UNSET
    mean_up_rate_bps: Figure | UnsetType = UNSET
    mean_bler_share: Figure | UnsetType = UNSET


class ChannelSummary(Struct, forbid_unknown_fields=True):
    """The whole walk. A learned map has `map` and `source`, a scene the others."""

    seeds: list[int]
    duration_s: float
    mean_rate_bps: Figure
    percentiles_rate_bps: dict[str, Figure]
    scene: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    map: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    mean_sinr_db: Figure | UnsetType = UNSET
    mean_up_rate_bps: Figure | UnsetType = UNSET
    mean_bler_share: Figure | UnsetType = UNSET
    percentiles_up_rate_bps: dict[str, Figure] | UnsetType = UNSET
    radio_states_share: dict[str, Figure] | UnsetType = UNSET
    states_decided_by: str | UnsetType = UNSET
    states_differ_by_seed: bool | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class ChannelDevice(Struct, forbid_unknown_fields=True):
    """A device of a scene with several."""

    device: str
    states: list[ChannelState]
    summary: ChannelSummary


class ChannelOutput(Struct, forbid_unknown_fields=True):
    """A scene or a learned map; a map has no states. With several devices the summary is over all of them."""

    states: list[ChannelState]
    summary: ChannelSummary
    devices: list[ChannelDevice] | UnsetType = UNSET


class SpreadOutput(Struct, forbid_unknown_fields=True):
    """A figure over seeds: the median and the percentiles 5 and 95."""

    p50: float
    p5: float
    p95: float


class PublishedOutput(Struct, forbid_unknown_fields=True):
    """A published or measured figure, in words, and its source."""

    figure: str
    says: str
    source: str


class VariantOutput(Struct, forbid_unknown_fields=True):
    """A condition on one technology; rates are of whole seconds, and each figure is a spread over the seeds."""

    name: str
    technology: Literal["mmwave", "mid-band", "lte", "leo"]
    path: dict[str, str]
    note: str
    seeds: list[int]
    down_mean_bps: SpreadOutput
    down_median_bps: SpreadOutput
    down_p5_bps: SpreadOutput
    down_p95_bps: SpreadOutput
    up_median_bps: SpreadOutput
    no_service_share: SpreadOutput
    longest_gap_s: SpreadOutput
    rtt_idle_ms: float
    illustrative: bool
    published: list[PublishedOutput]


class ConditionOutput(Struct, forbid_unknown_fields=True):
    """A named condition."""

    kind: Literal["condition"]
    name: str
    title: str
    line: str
    happens: str
    shows: str
    variants: list[VariantOutput]


class ProfileOutput(Struct, forbid_unknown_fields=True):
    """A 5QI profile: a budget, not a measured network."""

    kind: Literal["5qi"]
    name: str
    resource: str
    packet_delay_budget_ms: int
    packet_error_rate: str
    service: str
    source: str
    statement: str


class NameOutput(Struct, forbid_unknown_fields=True):
    """A scenario of the QUIC network simulator, or a radio scene: the keys that it puts on a hop."""

    kind: Literal["quic", "scene"]
    name: str
    title: str
    hop: dict[str, object]


class ScenesOutput(Struct, forbid_unknown_fields=True):
    """Everything that has a name."""

    conditions: list[ConditionOutput]
    profiles: list[ProfileOutput]
    simulator: list[str]
    scenes: list[str]


class Thresholds(Struct, forbid_unknown_fields=True):
    """Rates that separate the classes of a network; null where it has none."""

    none: float | None
    low: float | None
    high: float | None


class FitDistance(Struct, forbid_unknown_fields=True):
    """A Kolmogorov-Smirnov distance, 0 to 1."""

    key: str
    name: str
    fitted: float | None
    held_out: float | None
    floor: float | None
    target: float | None
    met: bool | None


class FitBand(Struct, forbid_unknown_fields=True):
    """Percentiles over walks, in the trait's unit."""

    p10: float | None
    p50: float | None
    p90: float | None


class FitTrait(Struct, forbid_unknown_fields=True):
    """A property of single walks."""

    name: str
    unit: str
    drawn: FitBand
    fitted: FitBand
    held_out: FitBand
    met: bool


class FitApplication(Struct, forbid_unknown_fields=True):
    """A figure of a replayed application, in `unit`. Deviations are fractions; `ks` are distances from 0 to 1."""

    key: str
    name: str
    unit: str
    drawn: float | None
    fitted: float | None
    held_out: float | None
    deviation_share: float | None
    ks: float | None
    floor_deviation_share: float | None
    floor_ks: float | None
    met: bool | None


class FitScores(Struct, forbid_unknown_fields=True):
    """Errors of a prediction of seconds; the correlation is between means over a minute."""

    mae_mbps: float
    crps_gain_share: float
    minute_correlation: float | None


class FitPrediction(Struct, forbid_unknown_fields=True):
    """A prediction of seconds, and what it uses."""

    key: str
    name: str
    uses: str
    fitted: FitScores | None
    held_out: FitScores | None


class FittedValueOutput(Struct, forbid_unknown_fields=True):
    """A value with its 90 % interval, each a text with its unit."""

    key: str
    value: str
    low: str
    high: str


class FitOutput(Struct, forbid_unknown_fields=True):
    """The judgement of what was learned."""

    method: str
    rule: str
    network: str
    thresholds_mbps: Thresholds
    fitted_walks: list[str]
    held_out_walks: list[str]
    fitted_s: int
    drawn_walks: int
    verdict: str
    distances: list[FitDistance]
    traits: list[FitTrait]
    applications: list[FitApplication]
    predictions: list[FitPrediction]
    values: list[FittedValueOutput]


class ReplayRate(Struct, forbid_unknown_fields=True):
    """Percentiles over time."""

    p10: float
    p50: float
    p90: float


class ReplayDelay(ReplayRate, forbid_unknown_fields=True):
    """Percentiles over time, and the least value."""

    least: float


class ReplayOutput(Struct, forbid_unknown_fields=True):
    """Two recordings, combined."""

    method: Literal["replay"]
    duration_s: float
    heavy: str
    light: str
    rate_mbps: ReplayRate
    delay_ms: ReplayDelay


class AlignedRecording(Struct, forbid_unknown_fields=True):
    """Messages beside a transfer: the shift, and standard deviations of the best and the next shift."""

    day: str
    number: str
    count: int
    shift_s: float
    score: float
    next_score: float


class HeldOutHandovers(Struct, forbid_unknown_fields=True):
    """Kolmogorov-Smirnov distances, means over the days held out; `floor` is the distance between days."""

    kind: str
    metric: str
    count: int
    floor: float | None
    held_out: float | None
    holds: bool | None


class HandoversOutput(Struct, forbid_unknown_fields=True):
    """Handovers, and percentiles 0, 10, … 100 of their interruptions by kind."""

    method: Literal["handovers"]
    recordings: list[AlignedRecording]
    interruption_ms: dict[str, list[float]]
    distances: list[HeldOutHandovers]


class OutageFigures(Struct, forbid_unknown_fields=True):
    """The times with this rate or less."""

    threshold_bps: int
    count: int
    total_s: float
    longest_s: float


class Light(Struct, forbid_unknown_fields=True):
    """The rate that the first bytes get after an idle time."""

    mean_bps: float | None
    percentiles_bps: dict[str, float]
    bytes: int | None
    idle_s: float


class TraceInfo(Struct, forbid_unknown_fields=True):
    """A trace. A column that the trace lacks has no keys. Shares are fractions, 0 to 1."""

    file: str
    kind: Literal["steps", "opportunities", "packets"]
    rows: int
    packets: int | UnsetType = UNSET
    duration_s: float | UnsetType = UNSET
    mean_bps: float | UnsetType | None = UNSET
    percentiles_bps: dict[str, float] | UnsetType = UNSET
    peak_bps: float | UnsetType | None = UNSET
    window_s: float | UnsetType = UNSET
    outages: OutageFigures | UnsetType = UNSET
    light: Light | UnsetType = UNSET
    mean_delay_s: float | UnsetType = UNSET
    percentiles_delay_s: dict[str, float] | UnsetType = UNSET
    mean_loss_share: float | UnsetType | None = UNSET
    percentiles_loss_share: dict[str, float] | UnsetType = UNSET
    mean_bler_share: float | UnsetType | None = UNSET
    percentiles_bler_share: dict[str, float] | UnsetType = UNSET
    mean_sinr_db: float | UnsetType = UNSET
    percentiles_sinr_db: dict[str, float] | UnsetType = UNSET
    mean_need_db: float | UnsetType = UNSET
    percentiles_need_db: dict[str, float] | UnsetType = UNSET
    states_share: dict[str, float] | UnsetType = UNSET


class TraceInfoList(Struct, forbid_unknown_fields=True):
    """Several traces."""

    traces: list[TraceInfo]


class CatalogueConverter(Struct, forbid_unknown_fields=True):
    """How files of a set are read, and what a pattern cannot hold of them."""

    files: list[str]
    options: str
    not_held: str | None


class CatalogueSet(Struct, forbid_unknown_fields=True):
    """A set of public traces; what its source does not state is null."""

    name: str
    what: str
    page: str
    paper: str
    licence: str | None
    repository: str | None
    commit: str | None
    git_hashes: dict[str, str]
    bytes: int | None
    how: str | None
    converters: list[CatalogueConverter]


class TraceListOutput(Struct, forbid_unknown_fields=True):
    """The catalogue, or one set of it."""

    sets: list[CatalogueSet]


class GotTrace(Struct, forbid_unknown_fields=True):
    """A pattern that was made of a file of a set."""

    file: str
    input: str
    input_sha256: str
    rows: int
    duration_s: float
    mean_bps: float | None
    mean_delay_s: float | None
    notes: list[str]


class TraceGetOutput(Struct, forbid_unknown_fields=True):
    """The patterns made of a set, the files that could not be read, and those without a converter."""

    name: str
    page: str
    version: str
    licence: str | None
    input_check: str
    inputs_sha256: str
    traces: list[GotTrace]
    refused: list[str]
    without_converter: list[str]


class DoctorOutput(Struct, forbid_unknown_fields=True):
    """The checks of this machine."""

    can_run: bool
    checks: list[DoctorCheck]
    programs: list[DoctorCheck]
    extras: list[DoctorCheck]


class KernelOutput(Struct, forbid_unknown_fields=True):
    """The installed kernel of virtual time.

    Parameters
    ----------
    release : str
        What ``uname -r`` prints in a guest: the version of Linux, and a hash of source, patch and configuration.
    """

    file: str
    release: str
    sha256: str


class LabsOutput(Struct, forbid_unknown_fields=True):
    """The running laboratories."""

    laboratories: list[Running]


class NetnsOutput(Struct, forbid_unknown_fields=True):
    """The network namespace of a host."""

    path: str
    podman_options: Annotated[list[str], Meta(description="of `podman run`, with the names of the hosts")]


class ByKind(Struct, forbid_unknown_fields=True):
    """The objects of one kind."""

    kind: str
    objects: int
    bytes: int


class ByOrigin(Struct, forbid_unknown_fields=True):
    """The objects of one origin."""

    origin: str
    objects: int
    bytes: int


class SiteOutput(Struct, forbid_unknown_fields=True):
    """A web site."""

    name: str
    title: str
    source: str
    first: str
    scheme: str
    folder: str
    objects: int
    bytes: int
    by_kind: list[ByKind]
    by_origin: list[ByOrigin]
    notes: list[str]
