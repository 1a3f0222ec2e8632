#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# usage: debs.sh FOLDER SUITE PACKAGE...
# Leaves the packages of a Debian suite in FOLDER, unless they are there; from where this
# machine has its own.
set -eu
umask 022
folder=$1
suite=$2
shift 2
[ ! -e "$folder/done" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
cd "$folder"
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >apt/sources.list
apt() {
	apt-get -q -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" -o Dir::Etc::sourcelist="$folder/apt/sources.list" \
		-o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root "$@"
}
apt update
apt download "$@"
rm -r apt
touch done
