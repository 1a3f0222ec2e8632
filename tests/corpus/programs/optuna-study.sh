#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Optuna: searches of best parameters, kept in a database of SQLite at each step, with pruning, and taken up again
# Needs: python3-optuna
#SBATCH --job-name=optuna-study --ntasks=1 --output=log
set -eu
cat >study.py <<'PY'
import time, warnings
import optuna

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

def objective(trial):
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5, step=0.1)
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    n = trial.suggest_int("n", 1, 64, log=True)
    for step in range(5):
        value = (x - 2) ** 2 + (y + 1) ** 2 + {"a": 0, "b": 1, "c": 3}[kind] + abs(n - 8) / 8 + 5 / (step + 1)
        trial.report(value, step)
        time.sleep(0.01)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return value

print("begins", flush=True)
for name, sampler in (("tpe", optuna.samplers.TPESampler(seed=1)), ("random", optuna.samplers.RandomSampler(seed=2)),
                      ("qmc", optuna.samplers.QMCSampler(seed=3, scramble=True))):
    for part in range(2):  # the second time, the study is found in the database
        study = optuna.create_study(storage="sqlite:///study.db", study_name=name, load_if_exists=True, sampler=sampler,
                                    pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1))
        study.optimize(objective, n_trials=20)
        pruned = sum(t.state == optuna.trial.TrialState.PRUNED for t in study.trials)
        print(name, len(study.trials), pruned, f"{study.best_value:.6f}", {k: v if isinstance(v, str) else round(v, 4) for k, v in study.best_params.items()}, flush=True)
PY
python3 study.py
rm study.py study.db
