#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GROMACS on Open MPI, gmx_mpi started by srun --mpi=pmix, two ranks on each of two nodes: a box of water, split into domains
# Needs: gromacs gromacs-data openmpi-bin
# First: --singularity
# Without it Slurm has to serve PMIx, and that of Debian cannot.
#SBATCH --job-name=gromacs-srun --nodes=2 --ntasks=4 --overcommit --output=log
set -eu
echo "filling a box"
cat >topol.top <<'T'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
T
gmx -quiet solvate -cs spc216 -box 3.0 3.0 3.0 -o box.gro -p topol.top >/dev/null 2>&1
printf 'integrator = steep\nnsteps = 20\ncutoff-scheme = Verlet\ncoulombtype = PME\nrcoulomb = 0.9\nrvdw = 0.9\n' >relax.mdp
printf 'integrator = md\nnsteps = 200\ndt = 0.002\ncoulombtype = PME\nrcoulomb = 0.9\nrvdw = 0.9\nconstraints = h-bonds\ntcoupl = v-rescale\ntc-grps = system\ntau-t = 0.1\nref-t = 300\ngen-vel = yes\ngen-seed = 7\nld-seed = 8\nnstxout-compressed = 20\nnstenergy = 20\nnstlog = 50\n' >run.mdp
gmx -quiet grompp -f relax.mdp -c box.gro -p topol.top -o relax.tpr >/dev/null 2>&1
gmx -quiet mdrun -reprod -ntmpi 1 -ntomp 1 -deffnm relax >/dev/null 2>&1
echo "relaxed"
gmx -quiet grompp -f run.mdp -c relax.gro -p topol.top -o run.tpr >/dev/null 2>&1
srun --mpi=pmix gmx_mpi -quiet mdrun -reprod -ntomp 1 -cpt 0.1 -deffnm run >/dev/null 2>complaints
grep -o 'Using [0-9]* MPI process.*' run.log
echo Potential | gmx -quiet energy -f run.edr -o energy.xvg >/dev/null 2>&1
grep -v '^[#@]' energy.xvg | tail -n 3
sha256sum run.gro run.xtc
rm -f ./*.log ./*.cpt ./*.edr ./*.tpr ./*.trr mdout.mdp energy.xvg complaints ./#*
