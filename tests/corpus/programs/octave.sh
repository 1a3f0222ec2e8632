#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GNU Octave: equations, matrices, structures and strings, its state saved and loaded, a picture of numbers
# Needs: octave
#SBATCH --job-name=octave --ntasks=1 --output=log
set -eu
cat >equations.m <<'M'
disp("begins"); fflush(stdout);
rand("twister", 5); randn("twister", 6);
f = @(t, y) [y(2); (1 - y(1)^2) * y(2) - y(1)];
total = 0; names = {};
out = fopen("steps", "w");
for turn = 1:40
  a = randn(60) + turn * eye(60);
  [q, r] = qr(a);
  total += norm(a * inv(a) - eye(60)) < 1e-8;
  [t, y] = ode45(f, [0, 1 + turn / 10], [2; 0]);
  names{end + 1} = sprintf("%s-%d", char(65 + mod(turn * 7, 26)), turn);
  fprintf(out, "%d %.12g %.10g %s\n", turn, trace(abs(r)), y(end, 1), strjoin(sort(names), ","));
  fflush(out);
  if mod(turn, 8) == 0
    printf("turn %d: %d inverses, y = %.10g\n", turn, total, y(end, 1)); fflush(stdout);
    state = struct("turn", turn, "total", total, "names", {names});
    save("-binary", "state", "state");
    load("state");
  end
  pause(0.1);
end
fclose(out);
p = polyfit(1:20, (1:20) .^ 2 + sin(1:20), 3);
printf("%.9g ", p); printf("\n");
printf("%s\n", regexprep("the quick brown fox", "(\\w)(\\w*)", "$2$1"));
M
octave-cli --no-history equations.m
rm state
sha256sum steps
