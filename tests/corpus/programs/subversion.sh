#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Subversion: a repository on disk, working copies that update and merge, properties, locks, a dump and a load
# Needs: subversion
#SBATCH --job-name=subversion --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) LANG=C.UTF-8
svnadmin create repo
url=file://$PWD/repo
svn -q mkdir -m begin "$url/trunk" "$url/branches"
svn -q checkout "$url/trunk" one
svn -q checkout "$url/trunk" two
echo "committing"
for i in $(seq 20); do
	seq $((i * 10)) >one/file$((i % 5))
	svn -q add --force one
	svn -q propset turn "$i" one/file$((i % 5))
	svn -q commit -m "change $i" one
	svn -q update two
	echo "from two $i" >two/own$i
	svn -q add two/own$i
	svn -q commit -m "own $i" two
	if ((i % 5 == 0)); then
		svn -q copy -m "branch $i" "$url/trunk" "$url/branches/b$i"
		svn -q checkout "$url/branches/b$i" side
		sed -i "s/^3\$/three $i/" side/file0
		svn -q commit -m "side $i" side
		svn -q update one
		svn -q merge --accept theirs-full "$url/branches/b$i" one >/dev/null
		svn -q commit -m "merge $i" one
		rm -rf side
		echo "change $i: revision $(svn info --show-item youngest --no-newline one 2>/dev/null || svnlook youngest repo)"
	fi
	svn -q update one
done
svnadmin verify -q repo
svnadmin dump -q repo | sed '/^UUID/d; /^svn:date/,/^K\|^PROPS/{/Z$/d}' | sha256sum | cut -c 1-64 >dump
svnlook tree --full-paths repo | sort >tree
svn log -q -v "$url" | sed 's/ | .*//' >history
rm -rf repo one two "$HOME"
sha256sum dump tree history
