#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GAP: permutation groups, their classes, Sylow subgroups, characters, cosets and homomorphisms
# Needs: gap-core
#SBATCH --job-name=gap-groups --ntasks=1 --output=log
set -eu
cat >groups.g <<'G'
Print("starting\n");
g := 0;; a := 0;; f := 0;; d := 0;; l := 0;;
for n in [4 .. 9] do
  g := SymmetricGroup(n);; a := DerivedSubgroup(g);;
  Print(n, ": ", Size(a), " ", Length(ConjugacyClasses(a)), " ", List([2, 3, 5], p -> Size(SylowSubgroup(a, p))), "\n");
  Exec("sleep 0.3");
od;
m11 := Group((1,2,3,4,5,6,7,8,9,10,11), (3,7,11,8)(4,10,5,6));;
Print("M11 ", Size(m11), " ", Collected(List(ConjugacyClasses(m11), c -> Order(Representative(c)))), "\n");
for k in [1 .. 25] do
  f := FreeGroup("a", "b");;
  d := f / [f.1^2, f.2^(k + 2), (f.1 * f.2)^2];;
  Print(k, ": ", Size(d), " ", AbelianInvariants(d), " ", Length(CosetTable(d, Subgroup(d, [d.1]))[1]));
  l := GL(2, 3 + 2 * (k mod 2));;
  Print(" ", Size(l), " ", Size(Centre(l)), " ", Length(NormalSubgroups(Image(IsomorphismPermGroup(l)))), "\n");
  Exec("sleep 0.2");
od;
Print(Factors(2^64 + 1), "\n");
QUIT;
G
gap -q -A groups.g </dev/null
rm groups.g
