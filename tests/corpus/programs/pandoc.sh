#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: pandoc, a Haskell program: documents from Markdown to HTML, LaTeX, EPUB and Word and back, Lua filters, one that reads a slow pipe
# Needs: pandoc
#SBATCH --job-name=pandoc --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) SOURCE_DATE_EPOCH=1700000000 LANG=C.UTF-8
echo "converting"
cat >filter.lua <<'L'
local n = 0
function Header(h) n = n + 1; h.content:insert(1, pandoc.Str(n .. ". ")); return h end
function Str(s) if s.text:match "^%d+$" then return pandoc.Strong { s } end end
L
write() {
	printf -- '---\ntitle: Sums\nlang: en\n---\n\n'
	for s in $(seq $1); do
		printf '# Sum %d {#s%d}\n\nSee [the one before](#s%d), $\\sum_k k^%d = %d$.[^%d]\n\n[^%d]: A note of %d.\n\n' $s $s $((s - 1)) $s $((s * 7919 % 997)) $s $s $s
		printf '| n | square | cube |\n|--:|:------:|------|\n'
		for i in $(seq 12); do printf '| %d | %d | %d |\n' $i $((i * i * s)) $((i * i * i * s)); done
		printf '\n```c\nint f%d(int x) { return x * %d; }\n```\n\n1. one\n    - *two*\n    - `three`\n\n' $s $s
	done
}
(write 60 | while IFS= read -r line; do printf '%s\n' "$line"; sleep 0.005; done) | pandoc -f markdown -t json >slow.json &
for turn in 1 2 3 4; do
	write $((turn * 3)) >text.md
	for to in html latex epub docx rst; do
		pandoc --lua-filter=filter.lua -s -o text.$to text.md 2>/dev/null
	done
	pandoc -t plain text.docx >back 2>/dev/null
	pandoc -t markdown -o again.md text.rst 2>/dev/null
	sha256sum text.html text.latex text.rst back again.md >>sums
	echo "turn $turn: $(wc -l <text.html) lines"
done
wait
pandoc -f json -t html slow.json 2>/dev/null | sha256sum
rm -r text.* back again.md slow.json "$HOME"
sha256sum sums
