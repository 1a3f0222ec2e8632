#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: python from its standard input: a chain of generators, seeded random, decimals, recursion
# Needs: python3
#SBATCH --job-name=python-generators --ntasks=1 --output=log
exec python3 - <<'PY'
import decimal, hashlib, random, time

print("generating", flush=True)
decimal.getcontext().prec = 50
rng = random.Random(20260101)

def walk():
    x = decimal.Decimal(1)
    while True:
        x = (x * 3 + decimal.Decimal(rng.random())).sqrt()
        yield x

def pairs(source):
    for a in source:
        yield a, next(source)

def tree(depth):
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)

digest = hashlib.sha256()
with open("walk.txt", "w") as out:
    for turn, ((a, b), level) in enumerate(zip(pairs(walk()), tree(10)), 1):
        line = f"{turn} {level} {a * b:.40f} {rng.sample(range(1000), 5)}\n"
        out.write(line)
        digest.update(line.encode())
        if turn % 100 == 0:
            print(turn, level, digest.hexdigest()[:16], flush=True)
        if turn == 800:
            break
        time.sleep(0.01)
print(digest.hexdigest(), rng.gauss(0, 1))
PY
