#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Z3 answers questions from a pipe, on a stack of assertions: factors, schedules, optima, proofs that there is none
# Needs: z3
#SBATCH --job-name=z3-proofs --ntasks=1 --output=log
set -eu
echo "asking"
{
	echo '(declare-const x (_ BitVec 24)) (declare-const y (_ BitVec 24))'
	echo '(assert (bvule x y)) (assert (bvugt x #x000001)) (assert (bvult y #x001000))'
	for n in $(seq 40); do
		echo "(push) (assert (= (bvmul x y) (_ bv$((1000003 + n * 6)) 24))) (check-sat) (pop)"
		echo "(push) (declare-const a Int) (declare-const b Int)"
		echo "(assert (and (> a 0) (< a b) (= (+ (* 7 a) (* 11 b)) $((500 + n)))))"
		echo "(minimize b) (check-sat) (eval b) (pop)"
		if ((n % 10 == 0)); then echo "(echo \"question $n\")"; fi
		sleep 0.05
	done
} | z3 -in smt.random_seed=1 | uniq -c
{
	echo '(set-logic QF_UF) (declare-sort Hole 0)'
	for hole in $(seq 6); do echo "(declare-const h$hole Hole)"; done
	for pigeon in $(seq 7); do
		echo "(declare-const p$pigeon Hole) (assert (or$(printf " (= p$pigeon h%d)" $(seq 6))))"
	done
	echo "(assert (distinct$(printf ' p%d' $(seq 7)))) (check-sat)"
} | z3 -in
