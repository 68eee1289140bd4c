"""Tune a pipeline beside random search, at equal numbers of fits: python examples/sklearn_search.py"""

from scipy.stats import loguniform, uniform
from sklearn.datasets import load_diabetes
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from boke.integrations.sklearn import BOKESearchCV

X, y = load_diabetes(return_X_y=True)
pipeline = make_pipeline(StandardScaler(), SVR())
space = {"svr__C": loguniform(1e-2, 1e4), "svr__gamma": loguniform(1e-5, 1.0), "svr__epsilon": uniform(0, 50)}

if __name__ == "__main__":
    for search in (RandomizedSearchCV, BOKESearchCV):
        found = search(pipeline, space, n_iter=40, cv=3, random_state=0).fit(X, y)
        print(f"{search.__name__:<20} best R² {found.best_score_:.4f} with {found.best_params_}")
    print(f"recommended: {found.recommended_params_}, where R² {found.recommended_score_:.4f} is expected")
