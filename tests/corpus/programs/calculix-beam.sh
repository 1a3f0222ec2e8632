#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: CalculiX: a beam of bricks, bent in small steps beyond its elasticity, then its oscillations
# Needs: calculix-ccx gawk
#SBATCH --job-name=calculix-beam --ntasks=1 --output=log
set -eu
export OMP_NUM_THREADS=1
gawk 'BEGIN {
	nx = 20; ny = nz = 3
	print "*NODE, NSET=ALL"
	for (i = 0; i <= nx; i++) for (j = 0; j <= ny; j++) for (k = 0; k <= nz; k++)
		print 1 + k + (nz + 1) * (j + (ny + 1) * i) ", " i ", " j ", " k
	print "*ELEMENT, TYPE=C3D8, ELSET=BEAM"
	for (i = 0; i < nx; i++) for (j = 0; j < ny; j++) for (k = 0; k < nz; k++) {
		a = 1 + k + (nz + 1) * (j + (ny + 1) * i); b = a + (nz + 1) * (ny + 1)
		print ++n ", " a ", " b ", " b + nz + 1 ", " a + nz + 1 ", " a + 1 ", " b + 1 ", " b + nz + 2 ", " a + nz + 2
	}
	print "*NSET, NSET=ROOT, GENERATE\n1, 16\n*NSET, NSET=TIP, GENERATE\n321, 336"
	print "*BOUNDARY\nROOT, 1, 3\n*MATERIAL, NAME=STEEL\n*ELASTIC\n210000., .3\n*DENSITY\n7.8E-9"
	print "*PLASTIC\n235., 0.\n400., .2\n*SOLID SECTION, ELSET=BEAM, MATERIAL=STEEL"
	print "*AMPLITUDE, NAME=TWICE\n0., 0., .5, 1., 1., 0."
	print "*STEP, NLGEOM, INC=200\n*STATIC, DIRECT\n.05, 1.\n*CLOAD, AMPLITUDE=TWICE\nTIP, 2, -4."
	print "*NODE PRINT, NSET=TIP\nU\n*EL PRINT, ELSET=BEAM, TOTALS=ONLY\nELSE\n*END STEP"
}' >beam.inp
sed -e '/^\*PLASTIC/,/^400/d' -e '/^\*AMPLITUDE/,$d' beam.inp >tone.inp
printf '*STEP\n*FREQUENCY\n6\n*END STEP\n' >>tone.inp
for turn in 1 2 3; do
	echo "bending $turn"
	ccx beam >output
	grep -c 'convergence' output
	sha256sum beam.dat
	ccx tone >output
	awk 'NF == 5 && $1 ~ /^[1-6]$/ { printf "%d %.5e\n", $1, $4 }' tone.dat
done
rm -f beam.* tone.* output spooles.out
