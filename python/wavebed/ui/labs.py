"""The laboratories that the page shows: those of ``wavebed ctl``, or one of them.

They are this user's own. Root's page opens no laboratory of another user, who would choose its answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.lab.errors import LaboratoryGoneError
from wavebed.path.control import connect, connect_to, running
from wavebed.ui.messages import RefusedError

if TYPE_CHECKING:
    from wavebed.path.control import Connection, Running

__all__ = ["Labs"]


class Labs:
    """Running laboratories.

    Parameters
    ----------
    only : str, optional
        The name of the only one that is shown.
    """

    def __init__(self, only: str | None = None) -> None:
        self.only = only

    def running(self) -> list[Running]:
        """Return those that run now, by name."""
        found = [lab for lab in running() if self.only in (None, lab.name)]
        return sorted(found, key=lambda lab: (lab.name, lab.uid))

    def open(self, lab: Running) -> Connection:
        """Return a connection to one that was listed.

        Raises
        ------
        LaboratoryGoneError
            If it has ended since.
        """
        connection = connect(lab)
        if connection is None:
            raise LaboratoryGoneError(f"laboratory {lab.name!r} has ended")
        return connection

    def connect(self, name: str) -> Connection:
        """Return a connection to one.

        Raises
        ------
        RefusedError
            If none of this name runs, or it is not shown.
        """
        if self.only not in (None, name):
            raise RefusedError(404, f"{name!r} is not shown here: this page is that of {self.only!r}")
        try:
            return connect_to(name)
        except UserError as error:
            raise RefusedError(404, str(error)) from None
