"""A laboratory as one of its devices sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.lab.views import seen_from
from wavebed.spec.network import group_of

if TYPE_CHECKING:
    from wavebed.lab.protocol import Lab


class _Hosts:
    messages = ""

    def host(self, name: str) -> str:
        return f"host {name}"


def test_the_client_of_a_view_is_its_device_and_the_other_hosts_stay() -> None:
    view = seen_from(cast("Lab", _Hosts()), "phone-3")
    assert [str(view.host(name)) for name in ("client", "server", "phone-1")] == [
        "host phone-3",
        "host server",
        "host phone-1",
    ]


def test_a_view_shows_what_its_laboratory_says_at_its_end() -> None:
    lab = _Hosts()
    view = seen_from(cast("Lab", lab), "phone-3")
    lab.messages = "it ended"
    assert view.messages == "it ended"


def test_a_device_with_a_number_belongs_to_the_table_that_made_it() -> None:
    assert [group_of(name) for name in ("phone-3", "phone", "old-phone-12", "phone-x")] == [
        "phone",
        "phone",
        "old-phone",
        "phone-x",
    ]
