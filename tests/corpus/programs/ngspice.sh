#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ngspice: a ring oscillator and a rectifier, transient and small-signal analyses, sweeps in its own script
# Needs: ngspice
#SBATCH --job-name=ngspice --ntasks=1 --output=log
set -eu
cat >ring.cir <<'C'
ring oscillator of five inverters, and a rectifier
.model n nmos level=1 vto=0.7 kp=100u lambda=0.02
.model p pmos level=1 vto=-0.7 kp=50u lambda=0.02
.model d1 d is=1e-14 rs=1
.subckt inv a y vdd
mp y a vdd vdd p w=4u l=1u
mn y a 0 0 n w=2u l=1u
c1 y 0 50f
.ends
vdd vdd 0 dc 3.3
x1 a b vdd inv
x2 b c vdd inv
x3 c d vdd inv
x4 d e vdd inv
x5 e a vdd inv
.ic v(a)=0
v1 in 0 sin(0 5 1meg) ac 1
dr in out d1
rl out 0 10k
cl out 0 1n
.control
set numdgt=10
let k = 0
while k < 30
  alter vdd dc = 2.5 + k * 0.05
  tran 0.1n 400n uic
  meas tran swing max v(a)
  wrdata wave{$&k} v(a) v(out)
  echo "sweep $&k: $&swing"
  shell sleep 0.15
  destroy all
  let k = k + 1
end
ac dec 10 1 1g
wrdata response v(out)
quit
.endc
.end
C
echo "simulating"
ngspice -b ring.cir 2>&1 | grep '^sweep'
cat wave* | sha256sum
sha256sum response
