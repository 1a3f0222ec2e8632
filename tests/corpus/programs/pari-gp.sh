#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: PARI/GP factors numbers, computes class numbers and elliptic curves, each a bit harder
# Needs: pari-gp
#SBATCH --job-name=pari-gp --ntasks=1 --output=log
set -eu
gp -q --default parisizemax=64M <<'GP'
print("factoring");
setrand(17);
for (i = 1, 60, {
  p = randomprime(10^(8 + i \ 5)); q = randomprime(10^(8 + i \ 6));
  f = factor(p * q);
  h = qfbclassno(-4 * (p % 100003) - 4);
  e = ellinit([i, i + 1]);
  a = if (#e, ellap(e, nextprime(10^8 + i)), 0);
  write("numbers", i, " ", f, " ", h, " ", a);
  if (i % 10 == 0, print("turn ", i, ": ", f[2, 1]));
  system("sleep 0.09");
});
print(zeta(3));
GP
sha256sum numbers
