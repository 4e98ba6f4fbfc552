"""Views of a laboratory: one in which ``client`` is a device of its cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from types import TracebackType

    from wavebed.lab.protocol import Host, Lab


def seen_from(lab: Lab, device: str) -> Lab:
    """Return a laboratory whose host ``client`` is one of its devices; everything else is the laboratory's.

    Parameters
    ----------
    lab : Lab
        The laboratory; it stays responsible for its end.
    device : str
        The device. The host that the view returns has its name, which all hosts resolve.
    """
    return cast("Lab", _SeenFrom(lab, device))


class _SeenFrom:
    """See `seen_from`. Its attributes are the laboratory's, also those that appear at its end."""

    def __init__(self, lab: Lab, device: str) -> None:
        self._lab = lab
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab, name)

    def host(self, name: str) -> Host:
        """Return a host by its name; the device for ``client``.

        Raises
        ------
        UserError
            If the path has none of this name.
        """
        return self._lab.host(self._device if name == "client" else name)

    def __enter__(self) -> Self:
        self._lab.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lab.__exit__(kind, error, trace)
