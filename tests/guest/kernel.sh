#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: kernel.sh FOLDER
# Leaves Debian's kernel and its modules in FOLDER, unless they are there.
set -eu
umask 022
[ ! -e "$1/done" ] || exit 0
rm -rf "$1"
mkdir -p "$1"
cd "$1"
package=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" { print $2; exit }')
apt-get download -q -o APT::Sandbox::User=root "$package"
dpkg-deb -x "$package"_*.deb .
rm "$package"_*.deb
touch done
