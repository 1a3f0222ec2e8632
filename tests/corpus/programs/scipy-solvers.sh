#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: scipy: stiff equations, sparse eigenvalues, global minimisation with two processes, splines, filters
# Needs: python3-scipy
#SBATCH --job-name=scipy-solvers --ntasks=1 --output=log
set -eu
cat >solve.py <<'PY'
import time
import numpy as np
from scipy import integrate, interpolate, optimize, signal, sparse
from scipy.sparse import linalg

def van_der_pol(t, y, mu):
    return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]

def rugged(x):
    time.sleep(0.001)
    return 20 + float(np.sum(x * x - 10 * np.cos(2 * np.pi * x))) / 2

def main():
    print("begins", flush=True)
    with open("results", "w") as out:
        for turn in range(12):
            s = integrate.solve_ivp(van_der_pol, (0, 20), [2, 0], method=["RK45", "BDF", "LSODA"][turn % 3], args=(1 + turn * 5,), rtol=1e-7)
            print(turn, s.t.size, float(s.y[0, -1]).hex(), file=out, flush=True)
            n = 400 + turn * 40
            laplace = sparse.diags([-1, 2.0, -1], [-1, 0, 1], shape=(n, n), format="csc")
            e = linalg.eigsh(laplace, k=4, sigma=0, v0=np.ones(n), return_eigenvectors=False)
            print(turn, *(float(x).hex() for x in np.sort(e)), file=out, flush=True)
            t = np.linspace(0, 10, 500)
            x = signal.sosfilt(signal.butter(4, 0.1 + turn / 40, output="sos"), np.sin(t * t))
            print(turn, float(interpolate.CubicSpline(t, x)(np.pi)).hex(), file=out, flush=True)
            if turn % 3 == 2:
                print("turn", turn + 1, float(e.min()).hex(), flush=True)
            time.sleep(0.25)
    best = optimize.differential_evolution(rugged, [(-5, 5)] * 4, rng=9, maxiter=30, polish=False, workers=2, updating="deferred")
    print("minimum", float(best.fun).hex(), best.nfev)

if __name__ == "__main__":
    main()
PY
python3 solve.py
sha256sum results
