"""What ModemManager, QMI and Android phones print of a modem, in their documented formats; no hardware was at hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from wavebed.hosts.modem import ModemState, read_states
from wavebed.run.hosts_metrics import modem_events, modem_series

if TYPE_CHECKING:
    from wavebed.config.data import Json

AT = 1_800_000_000_000_000_000
UNKNOWN = 2147483647


def signal(**technologies: dict[str, str]) -> str:
    known = {name.lstrip("_"): values for name, values in technologies.items()}
    return json.dumps({"modem": {"signal": {"refresh": {"rate": "1"}, "gsm": {"rssi": "--"}, **known}}})


def location(cell: str) -> str:
    return json.dumps({"modem": {"location": {"3gpp": {"cid": cell, "mcc": "001", "mnc": "01", "tac": "00AB"}}}})


def read(tool: str, text: str) -> ModemState:
    (state,) = read_states(f"=== {tool} {AT}\n{text}\n")
    assert (state.tool, state.unix_ns) == (tool, AT)
    return state


def test_modemmanager_tells_the_signal_of_5g_before_that_of_lte() -> None:
    lte = {"rsrp": "-101.00", "rsrq": "-12.00", "snr": "4.20"}
    found = read("mmcli", signal(_5g={"rsrp": "-88.00", "snr": "17.50"}, lte=lte) + "\n" + location("0ABC1201"))
    assert found == ModemState(AT, "mmcli", "NR", -88.0, 17.5, "0ABC1201")
    found = read("mmcli", signal(_5g={"rsrp": "--", "snr": "--"}, lte=lte) + location("--"))
    assert found == ModemState(AT, "mmcli", "LTE", -101.0, 4.2)


QMI = """[/dev/cdc-wdm0] Successfully got signal info
LTE:
\tRSSI: '-61 dBm'
\tRSRQ: '-9 dB'
\tRSRP: '-93 dBm'
\tSNR: '11.8 dB'
{nr}[/dev/cdc-wdm0] Successfully got RF band info
Band Information:
\tRadio Interface:   'lte'
\tActive Band Class: 'eutran-1'
\tActive Channel:    '300'
\tRadio Interface:   '5gnr'
\tActive Band Class: 'ngran-77'
\tActive Channel:    '650000'
[/dev/cdc-wdm0] Successfully got serving system:
\tRegistration state: 'registered'
\tDetailed status:
\t\tStatus: 'available'
\t3GPP location area code: '65534'
\t3GPP cell ID: '80123393'
"""


def test_qmi_tells_signal_band_and_cell() -> None:
    nr = "5G:\n\tRSRP: '-84 dBm'\n\tSNR: '21.5 dB'\n\tRSRQ: '-11 dB'\n"
    assert read("qmicli", QMI.format(nr=nr)) == ModemState(AT, "qmicli", "NR", -84.0, 21.5, "80123393", "ngran-77")
    assert read("qmicli", QMI.format(nr="")) == ModemState(AT, "qmicli", "LTE", -93.0, 11.8, "80123393", "eutran-1")


def phone(rsrp: int, sinr: int) -> str:
    return (
        "    mCellIdentity=CellIdentityNr:{ mPci = 41 mTac = 7001 mNrArfcn = 640000 mBands = [78] mMcc = 001 mMnc = 01"
        " mNci = 4000000123 mAlphaLong = Example mAlphaShort = Ex mAdditionalPlmns = {} }\n"
        f"    mSignalStrength=SignalStrength:{{mLte=CellSignalStrengthLte: rssi=-70 rsrp=-99 rsrq=-9 rssnr={UNKNOWN}"
        f" cqi={UNKNOWN} ta={UNKNOWN} level=3,mNr=CellSignalStrengthNr:{{ csiRsrp = {UNKNOWN} csiSinr = {UNKNOWN}"
        f" ssRsrp = {rsrp} ssRsrq = -11 ssSinr = {sinr} level = 3 }},primary=CellSignalStrengthNr}}\n"
    )


def test_a_phone_tells_5g_if_it_has_it_and_lte_otherwise() -> None:
    assert read("adb", phone(-87, 14)) == ModemState(AT, "adb", "NR", -87.0, 14.0, "4000000123", "78")
    assert read("adb", phone(UNKNOWN, UNKNOWN)) == ModemState(AT, "adb", "LTE", -99.0, None, "4000000123", "78")


def test_samples_that_tell_nothing_are_left_out() -> None:
    text = f"=== mmcli {AT}\nerror: couldn't find modem\n=== qmicli {AT}\n=== adb {AT}\nerror: no devices\n"
    assert read_states(text) == []
    assert read_states("") == []


@given(
    st.sampled_from(["mmcli", "qmicli", "adb"]), st.text(alphabet="{}[]:\"=, \nmodemsignal5gRSRPmNr'-0", max_size=300)
)
def test_any_output_gives_samples_or_none(tool: str, text: str) -> None:
    for state in read_states(f"=== {tool} {AT}\n{text}"):
        assert state.unix_ns == AT


def test_a_change_of_cell_ends_one_period_and_begins_another() -> None:
    samples: list[Json] = [
        {"time_s": float(number), "rsrp_dbm": -90.0, "sinr_db": None, "cell": "1" if number < 2 else "2", "band": None}
        for number in range(4)
    ]
    summary: dict[str, Json] = {"modem": {"samples": samples}}
    assert [(each.text, each.time_s, each.end_s) for each in modem_events(summary)] == [("1", 0, 2), ("2", 2, 3)]
    (rsrp,) = modem_series(summary)
    assert (rsrp.name, rsrp.unit, list(rsrp.value)) == ("rsrp", "dBm", [-90.0] * 4)
    assert modem_series({}) == modem_events({}) == []
