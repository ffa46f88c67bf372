"""One error tree: every error of the project hangs on one of its four branches."""

import importlib
import inspect
import pkgutil

import pytest

import gossamer
from gossamer import errors

BRANCHES = (errors.UsageError, errors.PeerError, errors.TransportError, errors.UnavailableError)
# Raised to say something to the caller's machinery, never shown to anybody as an error.
CONTROL_FLOW = {"Ignore", "StopInit"}


def modules():
    """Every module of the project that imports without an extra's dependencies."""
    for info in pkgutil.walk_packages(gossamer.__path__, "gossamer.", onerror=lambda name: None):
        if info.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("gossamer"):
                raise


def exceptions():
    found = {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Exception)  # what is below BaseException itself is a signal, as cancellation is
        and value.__module__.split(".")[0] == "gossamer"
    }
    return sorted(found, key=lambda value: (value.__module__, value.__qualname__))


@pytest.mark.parametrize("error", exceptions(), ids=lambda error: f"{error.__module__}.{error.__qualname__}")
def test_an_error_hangs_on_a_branch(error):
    if error is errors.GossamerError or error.__name__ in CONTROL_FLOW:
        return
    branches = [branch for branch in BRANCHES if issubclass(error, branch)]
    assert len(branches) == 1, (
        f"{error} descends from {branches or 'no branch'}; expected one of the four branches"
    )


def test_the_branches_hang_on_one_root():
    assert all(branch.__base__ is errors.GossamerError for branch in BRANCHES)
