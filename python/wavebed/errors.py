"""The errors that end a command with one line on standard error.

Each class carries the exit status that scripts may rely on. Anything else that escapes is a bug and keeps its
traceback.
"""

from __future__ import annotations


class WavebedError(Exception):
    """An error with one line for the user and an exit status.

    Parameters
    ----------
    message : str
        One line: the file, line, key or option, the rule that was broken, and the remedy.
    """

    exit_status: int = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        """Return the message on one line, whatever it was made from."""
        return " ".join(self.message.split())


class UserError(WavebedError):
    """The arguments or a file are wrong (exit status 2)."""

    exit_status = 2


class MachineError(WavebedError):
    """The machine cannot do it (exit status 3); ``wavebed doctor`` explains."""

    exit_status = 3


class MissingPackageError(MachineError):
    """A package of an extra is not installed. The command line puts its command before the line."""
