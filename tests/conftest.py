"""Puts tests/ on the import path for every suite, and splits a suite for ctest, which runs parts side by side."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="I/N", help="run part I (from 1) of N: each N-th test in order of collection. "
                     "Tests marked `alone` are in no part; select them with -m alone.")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: its limits are those of a machine that runs no other suite meanwhile")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Counting leaves no test out, whatever files come and go, and spreads a file's long tests over the parts."""
    if config.getoption("--shard") is None:
        return
    part, parts = (int(number) for number in config.getoption("--shard").split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--shard={part}/{parts}: no such part")
    beside = [item for item in items if item.get_closest_marker("alone") is None]
    kept = beside[part - 1::parts]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept
