#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: git builds a history with branches, merges, rebases and a repack; its hashes tell all
# Needs: git
# Fails: when captured between two looks that git merge takes at its work tree: files in a restored /tmp have other inodes (docs/silent-gaps.md)
# Failure: stash failed
#SBATCH --job-name=git-history --ntasks=1 --output=log
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 LC_ALL=C TZ=UTC
at() { export GIT_AUTHOR_DATE="@$((1700000000 + $1 * 60)) +0000" GIT_COMMITTER_DATE="@$((1700000000 + $1 * 60)) +0000"; }
dir=$(mktemp -d)
git init -q -b main "$dir/repo"
git -C "$dir/repo" config gc.auto 0
g() { git -C "$dir/repo" "$@"; }
echo "committing"
for i in $(seq 45); do
	at "$i"
	if ((i % 9 == 5)); then g switch -q -c "topic$i"; fi
	seq "$i" >"$dir/repo/file$((i % 6))"
	echo "line $i" >>"$dir/repo/topic$((i / 9))"
	g add -A
	g commit -q -m "change $i"
	if ((i % 9 == 8)); then
		g switch -q main
		g merge -q --no-ff -m "merge at $i" "topic$((i - 3))"
		echo "merged: $(g rev-parse --short=12 HEAD)"
	fi
	g log -1 --format='%H %T %s' >>commits
	sleep 0.05
done
at 100
g switch -q -c rebased HEAD~6
echo more >"$dir/repo/other" && g add -A && g commit -q -m other
g rebase -q main
g tag -a -m tag v1
g gc -q --prune=now
g fsck --strict --no-progress
git clone -q --bare "$dir/repo" "$dir/clone"
git -C "$dir/clone" rev-list --objects --all | sort | sha256sum
g log --graph --oneline --all | head -n 12
rm -rf "$dir"
sha256sum commits
