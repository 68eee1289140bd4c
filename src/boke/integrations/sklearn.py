"""scikit-learn: ``BOKESearchCV`` beside ``RandomizedSearchCV``, and the surrogate as a regressor."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("boke.integrations.sklearn needs scikit-learn: pip install 'bokeopt[sklearn]'") from error

from boke.integrations._regressor import KernelRegressor
from boke.integrations._search import BOKESearchCV

__all__ = ["BOKESearchCV", "KernelRegressor"]
