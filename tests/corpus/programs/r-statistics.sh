#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: R: a bootstrap, linear models and a simulated walk, with its state saved and loaded
# Needs: r-base-core
#SBATCH --job-name=r-statistics --ntasks=1 --output=log
set -eu
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cat >walk.R <<'R'
options(digits = 12)
set.seed(2026, kind = "Mersenne-Twister", normal.kind = "Inversion")
cat("sampling\n")
x <- rnorm(300); y <- 2 * x + rnorm(300)
out <- file("bootstrap", "w")
slopes <- c()
for (turn in 1:60) {
  pick <- sample(300, replace = TRUE)
  slopes[turn] <- coef(lm(y[pick] ~ x[pick]))[2]
  m <- matrix(rnorm(2500), 50)
  e <- sort(Re(eigen(crossprod(m), symmetric = TRUE, only.values = TRUE)$values))
  writeLines(sprintf("%d %a %a", turn, slopes[turn], e[50]), out)
  flush(out)
  if (turn %% 10 == 0) { save(slopes, file = "state"); load("state"); cat("turn", turn, mean(slopes), "\n") }
  Sys.sleep(0.1)
}
close(out)
unlink("state")
print(quantile(slopes, c(.025, .5, .975)))
R
Rscript --vanilla walk.R
sha256sum bootstrap
