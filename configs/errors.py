"""Errors a user can act on. One subclass per cause, one exit status per subclass."""


class MxtuneError(Exception):
    """Base of every error that the command line reports in one line, without a traceback."""

    exit_status = 1


class ConfigError(MxtuneError):
    """A shape, space, device, table or option that cannot be used as it stands."""

    exit_status = 2


class NoRouteError(MxtuneError):
    """No route was found, or the one asked for is not legal for the shape."""

    exit_status = 3


class MissingError(MxtuneError):
    """Something this machine lacks: a GPU, torch, a new enough Triton."""

    exit_status = 4


class WrongResultError(MxtuneError):
    """A result that does not agree with the reference."""

    exit_status = 5


class StoreError(MxtuneError):
    """A store that cannot be opened, read or written."""

    exit_status = 6
