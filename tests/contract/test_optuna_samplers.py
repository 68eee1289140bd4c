"""Optuna's own tests of samplers, as Optuna ships them."""

import pytest

samplers = pytest.importorskip(
    "optuna.testing.pytest_samplers", reason="Optuna ships its sampler tests from a later release on"
)

from boke.integrations.optuna import BOKESampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


class TestBOKESampler(
    samplers.BasicSamplerTestCase, samplers.RelativeSamplerTestCase, samplers.MultiObjectiveSamplerTestCase
):
    @pytest.fixture
    def sampler(self):
        return lambda: BOKESampler(seed=0)
