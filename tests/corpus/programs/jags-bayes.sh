#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: JAGS: Gibbs sampling of a hierarchical model by commands from a pipe, three chains with seeds of their own
# Needs: jags gawk
#SBATCH --job-name=jags-bayes --ntasks=1 --output=log
set -eu
cat >schools.bug <<'J'
model {
  for (i in 1:N) { y[i] ~ dnorm(theta[g[i]], tau); z[i] ~ dbern(p[g[i]]) }
  for (k in 1:K) { theta[k] ~ dnorm(mu, prec); logit(p[k]) <- a + b * theta[k] }
  mu ~ dnorm(0, 0.001); a ~ dnorm(0, 0.1); b ~ dnorm(0, 0.1)
  tau ~ dgamma(0.01, 0.01); prec ~ dgamma(0.01, 0.01)
}
J
gawk 'BEGIN {
	srand(2); print "N <- 120\nK <- 12"
	for (i = 1; i <= 120; i++) { k = i % 12 + 1; y = y (i > 1 ? ", " : "") sprintf("%.4f", k / 3 + rand() * 4); z = z (i > 1 ? ", " : "") (rand() < k / 14); g = g (i > 1 ? ", " : "") k }
	print "y <- c(" y ")\nz <- c(" z ")\ng <- c(" g ")"
}' >data.R
for chain in 1 2 3; do printf '.RNG.name <- "base::Mersenne-Twister"\n.RNG.seed <- %d\n' "$chain" >"start$chain.R"; done
echo "starting"
{
	echo 'model in "schools.bug"'
	echo 'data in "data.R"'
	echo 'compile, nchains(3)'
	for chain in 1 2 3; do echo "parameters in \"start$chain.R\", chain($chain)"; done
	echo 'initialize'
	echo 'update 500'
	for name in mu a b tau theta; do echo "monitor $name"; done
	for turn in $(seq 40); do
		echo 'update 100'
		sleep 0.15
	done
	echo 'coda *'
	echo 'exit'
} | jags >output
grep -c -i 'updating' output
for chain in 1 2 3; do gawk '{ s += $2 } END { printf "%d values, mean %.9f\n", NR, s / NR }' "CODAchain$chain.txt"; done
rm output data.R start?.R schools.bug
