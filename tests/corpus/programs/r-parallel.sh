#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: R: mclapply over forks, parLapply over a cluster of R processes on sockets, both with L'Ecuyer streams
# Needs: r-base-core
#SBATCH --job-name=r-parallel --ntasks=1 --output=log
set -eu
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cat >workers.R <<'R'
library(parallel)
options(digits = 12)
RNGkind("L'Ecuyer-CMRG")
set.seed(11)
cat("begins\n")
estimate <- function(n) {
  x <- rnorm(2000)
  Sys.sleep(0.06)
  c(n, mean(x), quantile(x, .9, names = FALSE))
}
for (turn in 1:3) {
  got <- do.call(rbind, mclapply(1:40, estimate, mc.cores = 2, mc.preschedule = TRUE))
  cat("forks", turn, colSums(got), "\n")
}
cl <- makeCluster(2, outfile = "/dev/null")
clusterSetRNGStream(cl, 12)
clusterExport(cl, "estimate")
for (turn in 1:3) {
  got <- do.call(rbind, parLapply(cl, 1:60, estimate))
  cat("sockets", turn, colSums(got), "\n")
}
stopCluster(cl)
R
Rscript workers.R
