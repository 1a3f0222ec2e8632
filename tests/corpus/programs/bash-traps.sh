#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: traps for USR1, TERM and EXIT; a child sends signals and waits for each answer
# Needs: bash coreutils
#SBATCH --job-name=bash-traps --ntasks=1 --output=log
set -eu
mkfifo answers
exec 3<>answers
answered=0 ended=0
trap 'answered=$((answered + 1)); echo "USR1 number $answered"; echo "$answered" >&3' USR1
trap 'ended=1; echo "TERM after $answered"' TERM
trap 'echo "EXIT with $?, $answered answered"; rm -f answers' EXIT
echo "waiting for signals"

sender() {
	trap - EXIT TERM USR1
	for i in $(seq 30); do
		sleep 0.25
		kill -USR1 $$
		read -r answer <&3
		echo "$i answered by $answer" >>sender
	done
	kill -TERM $$
}
sender &
while ((!ended)); do
	# A trap interrupts wait; its status is then above 128. A signal that comes right before
	# wait does not, so that wait must have an end of its own.
	sleep 0.2 &
	wait $! 2>/dev/null || true
done
wait 2>/dev/null || true
sha256sum sender
exit 3
