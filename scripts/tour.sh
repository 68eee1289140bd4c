#!/usr/bin/env bash
# A tour: every front end once, from an empty folder. scripts/tour.sh [FOLDER]
# Needs an environment with bokeopt[all]; Ray and the dashboard take part where they are installed.
set -euo pipefail
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
python="${PYTHON:-python}"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder" && cd "$folder"
[ -z "$(ls -A)" ] || { echo "$folder is not empty" >&2; exit 2; }
say() { printf '\n== %s\n' "$*"; }
boke() { "$python" -m boke.cli "$@"; }

say "the library: minimize a function"
"$python" - <<'PY'
import boke
result = boke.minimize(lambda x: (x[0] - 0.3) ** 2 + 10 * (x[1] + 0.2) ** 2, [(-1, 1), (-1, 1)], n_trials=40, rng=0)
print(f"best {result.fun:.5f} at {result.x.round(3)}")
PY

say "scikit-learn: tune a model by cross-validation"
"$python" - <<'PY'
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from boke.integrations.sklearn import BOKESearchCV, KernelRegressor
X, y = load_diabetes(return_X_y=True)
search = BOKESearchCV(Ridge(), {"alpha": (1e-4, 10.0, "log-uniform")}, n_iter=15, cv=3, random_state=0).fit(X, y)
print(f"best R² {search.best_score_:.4f} with {search.best_params_}; recommended {search.recommended_params_}")
print(f"the surrogate as a regressor: R² {KernelRegressor(degree=1).fit(X, y).score(X, y):.3f}")
PY

say "Optuna: a sampler, in a SQLite file"
"$python" - <<'PY'
import optuna
from boke.integrations.optuna import BOKESampler
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(storage="sqlite:///optuna.db", study_name="tour", sampler=BOKESampler(seed=0))
study.optimize(lambda t: (t.suggest_float("x", -5, 5) - 1) ** 2 + t.suggest_int("n", 0, 9), n_trials=30)
print(f"best {study.best_value:.4f} with {study.best_params}")
print(study.sampler.explain(study, 29))
PY

say "Ray Tune: a search algorithm"
if "$python" -c 'import ray.tune' 2>/dev/null; then
    "$python" -W ignore - <<'PY' 2>/dev/null
from pathlib import Path
import ray
from ray import tune
from boke.integrations.ray import BOKESearch
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
tuner = tune.Tuner(
    lambda config: tune.report({"loss": (config["x"] - 0.3) ** 2}),
    param_space={"x": tune.uniform(0, 1)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=8, reuse_actors=True, search_alg=BOKESearch(seed=0)),
    run_config=tune.RunConfig(storage_path=str(Path("ray").absolute()), verbose=0),
)
best = tuner.fit().get_best_result()
print(f"best {best.metrics['loss']:.5f} with {best.config}")
PY
else
    echo "Ray is not installed: left out"
fi

say "the command line: any program"
cat > simulate.sh <<'SH'
awk -v x="$1" -v y="$2" 'BEGIN { print "working"; print (x - 0.3)^2 + (y - 0.6)^2 }'
SH
cat > study.toml <<'TOML'
trials = 25
seed = 0
[objective]
command = "sh simulate.sh {x} {y}"
[space]
x = {low = 0.0, high = 1.0}
y = {low = 0.0, high = 1.0}
TOML
boke run study.toml 2>/dev/null
boke status study.toml
boke recommend study.toml
boke importance study.toml
boke export study.toml trials.csv
trial=$(boke ask study.toml)
echo "asked: $trial"
echo "$trial" | "$python" -c 'import json, sys; print(json.dumps(json.load(sys.stdin) | {"value": 0.5}))' | boke tell -
echo "the report: $folder/$(boke report study.toml)"

say "the dashboard"
if "$python" -c 'import optuna_dashboard' 2>/dev/null; then
    "$python" -m boke.cli dashboard study.toml --port 18123 >/dev/null 2>&1 &
    server=$!
    for _ in $(seq 60); do
        "$python" -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:18123/api/studies")' 2>/dev/null && break
        sleep 0.5
    done
    "$python" -c 'import json, urllib.request as u
print("studies it shows:", [s["study_name"] for s in json.load(u.urlopen("http://127.0.0.1:18123/api/studies"))["study_summaries"]])'
    kill "$server"
else
    echo "optuna-dashboard is not installed: left out"
fi
say "done, in $folder"
