#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs with the tree as $1 before customize.sh, for suites for which CRIU is compiled: installs the
# package that the builder has linked beside this script. What it depends on is there.
set -eu
cp -L "$(dirname "$0")/criu.deb" "$1/tmp/criu.deb"
chroot "$1" dpkg -i /tmp/criu.deb || {
	echo "E: customize: the package of CRIU cannot be installed"
	exit 1
}
rm "$1/tmp/criu.deb"
