#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Two trainings of two ranks each that have nothing to do with each other, on four GPUs: one on the first and the third, whose
# losses are written, one on the others. Both go on until NAME.stop is there, and compute no further ahead than train.sh does.
#SBATCH --nodes=1 --ntasks=1 --output=%x.log --open-mode=append
pair() { # SEED GPU GPU
	local id=$SLURM_JOB_NAME.id$1 rank=0 gpu
	rm -f "$id"
	for gpu in "$2" "$3"; do
		RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$gpu /shared/bin/mlp --id-file "$id" --steps 0 --extra "${EXTRA:-0}" --seed "$1" &
		((++rank))
	done
	wait
}
paced() {
	python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 4096)'
	while read -r line; do
		echo "$line"
		[[ -e $SLURM_JOB_NAME.stop ]] && break
		sleep 0.1
	done
}
pair 2 1 3 | paced >/dev/null &
pair 1 0 2 | paced >"$SLURM_JOB_NAME.losses"
wait
echo ended
