#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: LAMMPS on two MPI ranks: a Lennard-Jones melt, with dumps, averages and restart files of its own
# Needs: lammps openmpi-bin
#SBATCH --job-name=lammps --ntasks=2 --overcommit --output=log
set -eu
echo "starting"
cat >in.melt <<'L'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
compute pairs all rdf 50
fix 2 all ave/time 100 4 500 c_pairs[*] file rdf mode vector
dump 1 all custom 500 melt.dump id x y z vx vy vz
dump_modify 1 sort id format float %20.15g
restart 400 restart.a restart.b
thermo 100
run 3000
write_data melt.data nocoeff
L
mpirun.openmpi --oversubscribe -n 2 lmp -in in.melt -log none >output
# How long it took is another number each time.
awk '/^ *Step/ { on = 1 } /^Loop time/ { on = 0 } on' output
sha256sum melt.dump rdf
tail -n +2 melt.data | sha256sum
rm output restart.a restart.b melt.data
