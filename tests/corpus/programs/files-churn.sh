#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: files appended to, rewritten, truncated, renamed, linked and deleted in a loop
# Fails: when its node dies: which files it made in the last 0.1 s before is then not known, and they stay (docs/silent-gaps.md)
# Failure: tree/journal: line
# Needs: bash coreutils
#SBATCH --job-name=files-churn --ntasks=1 --output=log
set -eu
mkdir -p tree/{a,b,c}
echo "churning"
exec 4>>tree/journal
for i in $(seq 90); do
	d=tree/$(printf 'abc' | cut -c $((i % 3 + 1)))
	seq "$i" >"$d/$i"
	echo "line $i" >>tree/appended
	printf '%05d' "$i" | dd of=tree/in-place bs=5 seek=$((i % 7)) conv=notrunc status=none
	printf 'version %d\n' "$i" >tree/new && mv tree/new tree/current
	if ((i > 10)); then rm -f tree/?/$((i - 10)); fi
	if ((i % 9 == 0)); then ln -f "$d/$i" tree/linked; fi
	if ((i % 13 == 0)); then truncate -s $((i * 3)) tree/appended; fi
	if ((i % 20 == 0)); then mkdir "tree/sub$i" && mv "$d/$i" "tree/sub$i/moved" && ln -sf moved "tree/sub$i/link"; fi
	echo "$i $(find tree | sort | sha256sum)" >&4
	if ((i % 15 == 0)); then echo "turn $i: $(find tree -type f | wc -l) files"; fi
	sleep 0.08
done
find tree -type f | sort | xargs sha256sum | sha256sum
