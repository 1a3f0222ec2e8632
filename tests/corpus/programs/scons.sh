#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: SCons, a build tool of Python: builders and scanners of its own, signatures in a database, two jobs, a variant folder
# Needs: scons gcc
#SBATCH --job-name=scons --ntasks=1 --output=log
set -eu
echo "building"
cat >SConstruct <<'S'
import hashlib
def digest(target, source, env):
    d = hashlib.sha256()
    for s in source: d.update(s.get_contents())
    for _ in range(20000): d = hashlib.sha256(d.digest())
    open(str(target[0]), "w").write(d.hexdigest() + "\n")
env = Environment(CCFLAGS="-O2", BUILDERS={"Digest": Builder(action=Action(digest, cmdstr="DIGEST $TARGET"), suffix=".digest")},
                  CCCOMSTR="CC $TARGET", LINKCOMSTR="LINK $TARGET", ARCOMSTR="AR $TARGET", RANLIBCOMSTR="RANLIB $TARGET")
env.VariantDir("out", "src", duplicate=1)
parts = [env.Object(f"out/part{i}.c") for i in range(1, 13)]
lib = env.StaticLibrary("out/parts", parts)
main = env.Program("out/main", ["out/main.c", lib])
digests = [env.Digest(f"out/part{i}.digest", f"src/part{i}.c") for i in range(1, 13)]
said = env.Command("out/said", main, Action("$SOURCE > $TARGET", cmdstr="RUN $TARGET"))
env.Command("summary", [said] + digests, Action("cat $SOURCES > $TARGET", cmdstr="GATHER $TARGET"))
S
mkdir src
echo 'unsigned mix(unsigned x);' >src/mix.h
for i in $(seq 12); do
	printf '#include "mix.h"\nunsigned part%d(unsigned x) { for (int i = 0; i < %d; i++) x = x * 48271u + i; return x; }\n' $i $i >src/part$i.c
done
{ seq -f 'unsigned part%g(unsigned);' 12; echo '#include <stdio.h>'; echo 'int main(void) {'; seq -f 'printf("%%u\n", part%g(7));' 12; echo 'return 0; }'; } | sed 's/%%/%/' >src/main.c
for turn in 1 2 3 4 5; do
	scons -Q -j 2 summary | sort >>steps
	echo "turn $turn: $(wc -l <steps) steps"
	cat summary >>summaries
	sed -i "s/48271u/$((48271 + turn * 2))u/" src/part$((turn * 2)).c src/part$((turn + 5)).c
	echo "unsigned mix$turn(unsigned x);" >>src/mix.h
done
scons -Q -c summary >/dev/null
rm -rf out src summary .sconsign.dblite SConstruct
sha256sum steps summaries
