#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: FreeFem++: finite elements for the heat in a ring with a hole, a mesh that adapts, a membrane's eigenvalues
# Needs: freefem++
#SBATCH --job-name=freefem-heat --ntasks=1 --output=log
set -eu
cat >heat.edp <<'F'
cout << "starting" << endl;
border outer(t = 0, 2 * pi) { x = 2 * cos(t); y = sin(t); label = 1; }
border inner(t = 0, 2 * pi) { x = 0.5 + 0.3 * cos(t); y = 0.3 * sin(t); label = 2; }
mesh Th = buildmesh(outer(60) + inner(-30));
fespace Vh(Th, P2);
Vh u = 0, v, old;
real dt = 0.02;
problem heat(u, v) = int2d(Th)(u * v / dt + dx(u) * dx(v) + dy(u) * dy(v))
  - int2d(Th)(old * v / dt) - int2d(Th)(x * y * v) + on(1, u = 0) + on(2, u = 1);
cout.precision(9);
for (int step = 1; step <= 60; step++) {
  old = u;
  heat;
  if (step % 5 == 0) {
    cout << "step " << step << " heat " << int2d(Th)(u) << " flow " << int1d(Th, 2)(dx(u) * N.x + dy(u) * N.y) << endl;
    ofstream out("heat." + step);
    for (int i = 0; i < u[].n; i += 50) out << int(1e6 * u[][i]) << endl;
  }
  if (step % 20 == 0) {
    Th = adaptmesh(Th, u, err = 0.01);
    u = u;
    cout << "triangles " << Th.nt << endl;
  }
  exec("sleep 0.1");
}
F
FreeFem++ -nw -v 0 -ne heat.edp
sha256sum heat.[0-9]* >sums
rm heat.*
