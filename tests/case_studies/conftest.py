"""The case studies are scripts beside the package; the tests load them as modules."""

import importlib
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "case_studies"


@pytest.fixture(scope="session")
def case_study():
    """`case_study("pipelines")` is that script as a module."""
    sys.path.insert(0, str(HERE))
    yield importlib.import_module
    sys.path.remove(str(HERE))
