"""Optuna's own tests of samplers, as Optuna ships them."""

import importlib.util
import os

import pytest

pytest.importorskip("optuna")

if found := os.environ.get("OPTUNA_SAMPLER_TESTS"):  # those of a newer release, for one that ships none
    spec = importlib.util.spec_from_file_location("pytest_samplers", found)
    samplers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(samplers)
else:
    samplers = pytest.importorskip("optuna.testing.pytest_samplers", reason="Optuna ships its sampler tests since 4.8")

from boke.integrations.optuna import BOKESampler

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


class TestBOKESampler(
    samplers.BasicSamplerTestCase, samplers.RelativeSamplerTestCase, samplers.MultiObjectiveSamplerTestCase
):
    @pytest.fixture
    def sampler(self):
        return lambda: BOKESampler(seed=0)
