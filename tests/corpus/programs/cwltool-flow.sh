#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: cwltool runs a workflow in the Common Workflow Language: a scatter over files, two steps at a time, expressions, a sum
# Needs: cwltool nodejs
#SBATCH --job-name=cwltool-flow --ntasks=1 --output=log
set -eu
cat >count.cwl <<'C'
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [sh, -c]
arguments: ['seq 10 | while read i; do sort -n -r "$0" | sha256sum; sleep 0.1; done', $(inputs.text.path)]
inputs:
  text: File
outputs:
  sums: stdout
stdout: $(inputs.text.nameroot).sums
C
cat >join.cwl <<'C'
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [sha256sum]
requirements:
  InlineJavascriptRequirement: {}
  InitialWorkDirRequirement:
    listing: $(inputs.parts)
arguments: ["${ return inputs.parts.map(function(p) { return p.basename; }).sort(); }"]
inputs:
  parts: File[]
outputs:
  all: stdout
stdout: all.sums
C
cat >flow.cwl <<'C'
cwlVersion: v1.2
class: Workflow
requirements:
  ScatterFeatureRequirement: {}
inputs:
  texts: File[]
outputs:
  result:
    type: File
    outputSource: last/all
steps:
  each:
    run: count.cwl
    scatter: text
    in: {text: texts}
    out: [sums]
  last:
    run: join.cwl
    in: {parts: each/sums}
    out: [all]
C
{
	echo 'texts:'
	for i in $(seq 8); do
		seq $((i * 1000)) >"text$i"
		echo "  - {class: File, path: text$i}"
	done
} >job.yml
echo "starting"
cwltool --no-container --parallel --quiet --tmpdir-prefix "$PWD/tmp/" --outdir out flow.cwl job.yml | grep -E '"(basename|checksum|size)"'
cat out/all.sums
rm -rf tmp ./*.cwl job.yml text?
