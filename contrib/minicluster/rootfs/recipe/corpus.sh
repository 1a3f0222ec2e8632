#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs behind essential.sh, in the same shell, for trees with the corpus: what its
# packages want to find when they are configured.
set -eu

# Java's package links its manual pages into a folder that the recipe leaves out,
# and fails without it.
mkdir -p "$1/usr/share/man/man1"

# The corpus makes its databases itself: no 40 MB for one that nobody uses.
mkdir -p "$1/etc/postgresql-common"
echo 'create_main_cluster = false' >"$1/etc/postgresql-common/createcluster.conf"
