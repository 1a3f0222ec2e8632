#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: OpenFOAM: the flow in a cavity with a moving lid: a mesh is made, cut in two, solved by two MPI ranks and put together
# Needs: openfoam openmpi-bin
#SBATCH --job-name=openfoam --ntasks=2 --overcommit --output=log
set -eu
export WM_PROJECT_DIR=/usr/share/openfoam # where Debian has OpenFOAM's own etc
mkdir -p case/0 case/constant case/system
cd case
head_of() { printf 'FoamFile { version 2.0; format ascii; class %s; object %s; }\n' "$1" "$2"; }
{ head_of dictionary blockMeshDict; cat <<'F'; } >system/blockMeshDict
scale 0.1;
vertices ((0 0 0) (1 0 0) (1 1 0) (0 1 0) (0 0 0.1) (1 0 0.1) (1 1 0.1) (0 1 0.1));
blocks (hex (0 1 2 3 4 5 6 7) (32 32 1) simpleGrading (1 1 1));
edges ();
boundary
(
    lid { type wall; faces ((3 7 6 2)); }
    walls { type wall; faces ((0 4 7 3) (2 6 5 1) (1 5 4 0)); }
    frontAndBack { type empty; faces ((0 3 2 1) (4 5 6 7)); }
);
mergePatchPairs ();
F
{ head_of dictionary controlDict; cat <<'F'; } >system/controlDict
application icoFoam;
startFrom startTime;
startTime 0;
stopAt endTime;
endTime 0.3;
deltaT 0.001;
writeControl timeStep;
writeInterval 60;
writeFormat ascii;
writePrecision 12;
timeFormat general;
timePrecision 6;
runTimeModifiable true;
F
{ head_of dictionary fvSchemes; cat <<'F'; } >system/fvSchemes
ddtSchemes { default Euler; }
gradSchemes { default Gauss linear; }
divSchemes { default none; div(phi,U) Gauss linear; }
laplacianSchemes { default Gauss linear orthogonal; }
interpolationSchemes { default linear; }
snGradSchemes { default orthogonal; }
F
{ head_of dictionary fvSolution; cat <<'F'; } >system/fvSolution
solvers
{
    p { solver PCG; preconditioner DIC; tolerance 1e-07; relTol 0.05; }
    pFinal { $p; relTol 0; }
    U { solver smoothSolver; smoother symGaussSeidel; tolerance 1e-06; relTol 0; }
}
PISO { nCorrectors 2; nNonOrthogonalCorrectors 0; pRefCell 0; pRefValue 0; }
F
{ head_of dictionary decomposeParDict; echo 'numberOfSubdomains 2; method simple; coeffs { n (2 1 1); }'; } >system/decomposeParDict
{ head_of dictionary transportProperties; echo 'nu 0.01;'; } >constant/transportProperties
{ head_of volScalarField p; cat <<'F'; } >0/p
dimensions [0 2 -2 0 0 0 0];
internalField uniform 0;
boundaryField { lid { type zeroGradient; } walls { type zeroGradient; } frontAndBack { type empty; } }
F
{ head_of volVectorField U; cat <<'F'; } >0/U
dimensions [0 1 -1 0 0 0 0];
internalField uniform (0 0 0);
boundaryField { lid { type fixedValue; value uniform (1 0 0); } walls { type noSlip; } frontAndBack { type empty; } }
F
echo "meshing"
blockMesh >../mesh.out
decomposePar >../decompose.out
mpirun.openmpi --oversubscribe -n 2 icoFoam -parallel >../solve.out
reconstructPar >../reconstruct.out
cd ..
# Times, PIDs, hosts and the case's own path are in what the programs say.
awk '/^Time = / { t = $3 } /^smoothSolver|^DICPCG|^time step continuity/ { print t, $0 }' solve.out >residuals
for out in mesh decompose solve reconstruct; do tail -n 1 $out.out; rm $out.out; done
ls case
sha256sum residuals case/0.3/U case/0.3/p
