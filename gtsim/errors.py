"""Errors that are the user's to mend, and what each means to a shell."""

from __future__ import annotations

from .backend.errors import SimulationError
from .frontend.errors import FrontendError, RequestError
from .graph.errors import GraphError
from .hwconfigs.errors import HardwareError


class UsageError(ValueError):
    """gtsim was asked in a way it does not understand: an unknown name, option, file or argument."""


class KernelFileError(ValueError):
    """A file with a kernel that does not import."""


class DeviceError(RuntimeError):
    """This machine's own GPU cannot do what was asked, or there is none."""


#: Every error whose message is meant for the user. The rooms do not import each other, so they have no common base class.
USER_ERRORS = (UsageError, KernelFileError, DeviceError, FrontendError, GraphError, SimulationError, HardwareError)

#: Errors of how the command was written.
_USAGE_ERRORS = (UsageError, HardwareError, RequestError)


def exit_code(error: BaseException) -> int:
    """The exit status of a command that `error` ended: 2 for usage, 130 for Ctrl-C, else 1."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, _USAGE_ERRORS) else 1
