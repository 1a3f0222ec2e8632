#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Csound: an orchestra of oscillators, plucked strings and filters plays a long score into a file, one control period after another
# Needs: csound
#SBATCH --job-name=csound --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) LANG=C.UTF-8
cat >piece.csd <<'C'
<CsoundSynthesizer>
<CsOptions>
-d -m0 --nosound -W -o piece.wav
</CsOptions>
<CsInstruments>
sr = 44100
ksmps = 32
nchnls = 2
0dbfs = 1
seed 7
giSine ftgen 1, 0, 16384, 10, 1, 0.5, 0.3, 0.2
gaRev init 0
instr 1
  kenv linseg 0, p3 * 0.1, 1, p3 * 0.9, 0
  a1 oscili kenv * p5, cpspch(p4), 1
  a2 pluck kenv * p5, cpspch(p4) * 1.5, cpspch(p4), 0, 1
  a3 moogladder a1 + a2, 400 + 3000 * kenv, 0.4
  outs a3 * 0.6, a3 * 0.4
  gaRev += a3 * 0.2
endin
instr 2
  k1 randh 600, 4, 0.3
  a1 vco2 0.1, 110 + k1 / 20
  a2 butterlp a1, 800 + k1
  outs a2, a2
  fprintks "notes", "%f %f\n", timeinsts(), k1
endin
instr 99
  aL, aR reverbsc gaRev, gaRev, 0.85, 9000
  outs aL, aR
  gaRev = 0
endin
</CsInstruments>
<CsScore>
{ 90 N
i1 [0.33 * $N] 1.5 [7 + ($N % 12) / 100] 0.15
}
i2 0 30
i99 0 34
e
</CsScore>
</CsoundSynthesizer>
C
for turn in 1 2; do
	echo "turn $turn"
	sed "s/seed 7/seed $turn/" piece.csd >turn.csd
	csound turn.csd >output 2>&1
	sha256sum piece.wav notes >>sums
	rm notes
done
rm -r piece.wav turn.csd output "$HOME"
sha256sum sums
