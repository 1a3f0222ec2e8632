#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Singular: Groebner bases of cyclic and random ideals, primary decompositions, resolutions
# Needs: singular-ui
#SBATCH --job-name=singular-bases --ntasks=1 --output=log
set -eu
cat >bases.sing <<'S'
LIB "primdec.lib";
print("starting");
int rc;
system("random", 7);
for (int turn = 1; turn <= 25; turn++) {
  ring r = 32003, (x, y, z, u, v), dp;
  ideal five = x+y+z+u+v, xy+yz+zu+uv+vx, xyz+yzu+zuv+uvx+vxy, xyzu+yzuv+zuvx+uvxy+vxyz, xyzuv-turn;
  ideal basis = std(five);
  print(string(turn) + " cyclic: " + string(size(basis)) + " " + string(dim(basis)) + " " + string(mult(basis)));
  kill r;
  ring q = 0, (a, b, c), lp;
  ideal some = a2+b2-turn, ab+c2-1, a3-b*c;
  print(groebner(some)[1]);
  ideal two = (a2-turn)*(b-c), (b2+a)*(c-turn);
  print(string(size(minAssGTZ(two))) + " components");
  kill q;
  rc = system("sh", "sleep 0.15");
}
print("ended");
quit;
S
Singular -q --no-rc bases.sing </dev/null 2>/dev/null
rm bases.sing
