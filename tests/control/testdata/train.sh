#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# A training of two ranks, or of RANKS, or one in each task of a step, that goes on until NAME.stop is there. Its pipe is short and its reader slow: it never computes
# far ahead of what is written, and leaves the processors to others.
#SBATCH --nodes=1 --ntasks=1 --output=%x.log --open-mode=append
if ((${BALLAST:-0})); then # MiB of memory that no checkpoint makes smaller
	exec 3< <(exec python3 -c "import os, signal; kept = os.urandom($BALLAST << 20); print('here', flush=True); signal.pause()")
	ballast=$!
	read -ru 3 _
fi
train=(/shared/bin/mlp --steps 0 --extra "${EXTRA:-0}")
if ((SLURM_NTASKS > 1)); then
	train=(srun "${train[@]}")
else
	train+=(--ranks "${RANKS:-2}")
fi
"${train[@]}" | {
	python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 4096)'
	while read -r line; do
		echo "$line"
		[[ -e $SLURM_JOB_NAME.stop ]] && break
		sleep 0.1
	done
} >"$SLURM_JOB_NAME.losses"
[[ -z ${ballast:-} ]] || kill "$ballast"
echo ended
