#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gforth: sieves and 64-bit mixing in a threaded-code interpreter that maps its own image
# Needs: gforth
#SBATCH --job-name=gforth --ntasks=1 --output=log
set -eu
cat >sieve.fs <<'FORTH'
200000 constant limit
create flags limit allot
variable mixed
: sieve ( n -- primes )
  flags limit 1 fill
  0 swap 2 do
    flags i + c@ if
      1+ i dup * limit < if limit i dup * do 0 flags i + c! j +loop then
    then
  loop ;
: mix ( n -- ) mixed @ 6364136223846793005 * + 1442695040888963407 + mixed ! ;
: turn ( i -- ) dup 2000 * 1000 + sieve mix
  dup 10 mod 0= if ." turn " dup . mixed @ u. cr then drop
  90 ms ;
: run ." sieving" cr 61 1 do i turn loop ." mixed " mixed @ hex u. decimal cr ;
run bye
FORTH
gforth sieve.fs
