#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: scikit-learn: a grid search with two worker processes, a forest with threads, boosting, k-means
# Needs: python3-sklearn
#SBATCH --job-name=sklearn-search --ntasks=1 --output=log
set -eu
echo "starting"
cat >search.py <<'PY'
import hashlib
import numpy as np
from sklearn import cluster, datasets, ensemble, linear_model, model_selection, pipeline, preprocessing, svm

def main():
    x, y = datasets.make_classification(600, 20, n_informative=8, n_classes=3, random_state=1)
    print("searching", flush=True)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC())
    for kernel in ["rbf", "poly", "sigmoid", "linear"]:
        grid = {"svc__C": [0.1, 1, 10], "svc__gamma": [0.01, 0.1], "svc__kernel": [kernel]}
        search = model_selection.GridSearchCV(model, grid, n_jobs=2, cv=3).fit(x, y)
        print(kernel, search.best_params_["svc__C"], round(search.best_score_, 9), flush=True)
    forest = ensemble.RandomForestClassifier(80, n_jobs=2, random_state=2).fit(x, y)
    print("forest", hashlib.sha256(forest.predict_proba(x).round(9).tobytes()).hexdigest(), flush=True)
    boost = ensemble.GradientBoostingClassifier(n_estimators=60, random_state=3).fit(x, y)
    print("boosting", round(boost.train_score_[-1], 9), flush=True)
    means = cluster.KMeans(6, n_init=5, random_state=4).fit(x)
    print("means", round(means.inertia_, 5), np.bincount(means.labels_), flush=True)
    scores = model_selection.cross_val_score(linear_model.LogisticRegression(), x, y, cv=10, n_jobs=2)
    print("regression", scores.round(9))

if __name__ == "__main__":
    main()
PY
python3 search.py
