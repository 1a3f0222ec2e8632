#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Sphinx builds a manual of many pages with two processes: cross references, highlighted code, an index to search; as HTML, text and man pages
# Needs: python3-sphinx
#SBATCH --job-name=sphinx --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) SOURCE_DATE_EPOCH=1700000000 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
mkdir source
printf 'project = "Sums"\nauthor = "nobody"\nextensions = ["sphinx.ext.autosectionlabel", "sphinx.ext.todo"]\nhtml_theme = "basic"\nhtml_last_updated_fmt = None\n' >source/conf.py
{ printf 'Sums\n====\n\n.. toctree::\n   :maxdepth: 2\n\n'; seq -f '   part%g' 24; } >source/index.rst
for i in $(seq 24); do
	{
		printf 'Part %d\n=======\n\nSee :doc:`part%d`, :ref:`Part %d` and :func:`f%d`.\n\n.. index:: sum; %d\n\n.. py:function:: f%d(x, y=%d)\n\n   Returns a sum.\n\n' $i $((i * 7 % 24 + 1)) $((i * 11 % 24 + 1)) $((i % 24 + 1)) $i $i $i
		printf '.. code-block:: python\n\n'
		for k in $(seq 25); do printf '   def g%d(x):\n       return [y ** %d for y in range(x) if y %% 3]  # %d\n\n' $k $k $i; done
		printf '.. list-table::\n\n'
		for k in $(seq 8); do printf '   * - %d\n     - %d\n' $k $((k * i)); done
	} >source/part$i.rst
done
echo "building"
for kind in html text man; do
	sphinx-build -q -j 2 -b $kind -d trees source out/$kind 2>/dev/null
	(cd out/$kind && find . -name '*.html' -o -name '*.txt' -o -name '*.1' | sort | xargs sha256sum) >$kind.sums
	echo "$kind: $(wc -l <$kind.sums) pages"
	for i in 3 9 20; do echo "Changed for $kind." >>source/part$i.rst; done
	sphinx-build -q -j 2 -b $kind -d trees source out/$kind 2>/dev/null
	echo "$kind again: $(grep -rl "Changed for" out/$kind --include='*.html' --include='*.txt' --include='*.1' | wc -l) changed"
done
rm -r trees out source "$HOME"
sha256sum *.sums
