#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: files that are deleted while open, written and read through their descriptors
# Needs: bash coreutils python3
#SBATCH --job-name=deleted-files --ntasks=1 --output=log
set -eu
echo "writing where no name leads"
exec 5>ghost 6<ghost
rm ghost
tmp=$(mktemp)
exec 7>"$tmp" 8<"$tmp"
rm "$tmp"
for i in $(seq 70); do
	echo "shared $i" >&5
	echo "private $((i * i))" >&7
	if ((i % 2 == 0)); then
		read -r a <&6
		read -r b <&8
		echo "$a, $b" >>read-back
	fi
	if ((i % 14 == 0)); then echo "wrote $i, read $((i / 2))"; fi
	sleep 0.1
done
cat <&6 | sha256sum
cat <&8 | sha256sum
python3 - <<'PY'
import os, tempfile, time, hashlib
f = tempfile.TemporaryFile(dir=".")
for i in range(20):
    f.seek(i * 10000)
    f.write(b"%d" % i * 1000)
    f.flush()
    time.sleep(0.05)
f.seek(0)
print("sparse", hashlib.sha256(f.read()).hexdigest())
PY
sha256sum read-back
