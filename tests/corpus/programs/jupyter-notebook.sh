#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a Jupyter notebook is executed by nbconvert: a kernel of its own behind ZeroMQ sockets, state between cells, threads
# Needs: jupyter-nbconvert python3-ipykernel
#SBATCH --job-name=jupyter-notebook --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
echo "writing"
cat >book.py <<'PY'
import json
cells = [
    "import hashlib, threading, time\nstate, seen = 12345, []",
    "for turn in range(25):\n    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64\n    seen.append(state)\n    if turn % 5 == 0: print(turn, state)\n    time.sleep(0.1)",
    "results = {}\ndef work(n):\n    h = b''\n    for k in range(30):\n        h = hashlib.sha256(h + str((n, k, seen[k % 25])).encode()).digest()\n        time.sleep(0.1)\n    results[n] = h.hex()\nall = [threading.Thread(target=work, args=(n,)) for n in range(4)]\nfor t in all: t.start()\nfor t in all: t.join()\nsorted(results.items())",
    "from IPython.display import Markdown, display\ndisplay(Markdown(f'**{sum(seen) % 9973}**'))",
    "rows = !seq 5 | awk '{ print $1 * $1 }'\nfor row in rows:\n    print(row)\n    time.sleep(0.3)",
    "len(seen), hashlib.sha256(str(seen).encode()).hexdigest()",
]
book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [{"cell_type": "code", "id": f"cell{n}", "metadata": {}, "source": text, "outputs": [], "execution_count": None} for n, text in enumerate(cells)]}
json.dump(book, open("book.ipynb", "w"))
PY
python3 book.py
echo "executing"
jupyter-nbconvert --log-level=ERROR --execute --to markdown book.ipynb
rm book.ipynb
tail -n 3 book.md
