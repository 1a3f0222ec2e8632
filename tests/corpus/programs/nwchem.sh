#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: NWChem on two MPI ranks: Hartree-Fock and density functional of water, scratch files on disk
# Needs: nwchem-openmpi
#SBATCH --job-name=nwchem --ntasks=2 --overcommit --output=log
set -eu
echo "starting"
cat >water.nw <<'NW'
start water
geometry units angstroms
  O  0.0  0.0  0.12
  H  0.0  0.76 -0.48
  H  0.0 -0.76 -0.48
end
basis
  * library 6-31g*
end
task scf energy
dft
  xc b3lyp
end
task dft energy
NW
mpirun.openmpi --oversubscribe -n 2 nwchem water.nw >output 2>complaints
# Two ranks share the work as it comes, and the last digits with it.
grep -E '^ +Total (SCF|DFT) energy' output | sed -E 's/(\.[0-9]{6})[0-9]*/\1/'
rm -f water.* output complaints
