#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: snakemake runs a workflow: a table is split, worked on by jobs two at a time, and gathered again; rules in shell and Python
# Needs: snakemake gawk
#SBATCH --job-name=snakemake-flow --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
cat >Snakefile <<'S'
PARTS = [f"{n:02d}" for n in range(12)]

rule all:
    input: "report"

rule table:
    output: "table"
    shell: "seq 6000 | gawk '{{ print $1, $1 * $1 % 7919 }}' >{output}"

rule split:
    input: "table"
    output: expand("parts/{n}", n=PARTS)
    shell: "split -n l/12 -d {input} parts/"

rule work:
    input: "parts/{n}"
    output: "worked/{n}"
    shell: "for i in $(seq 6); do sleep 0.1; gawk -v i=$i '{{ s += $2 * i }} END {{ print i, s }}' {input}; done >{output}"

rule gather:
    input: expand("worked/{n}", n=PARTS)
    output: "report"
    run:
        with open(output[0], "w") as out:
            for name in input:
                out.write(name + " " + open(name).read().split()[-1] + "\n")
S
echo "running"
snakemake --cores 2 >messages 2>&1 || cat messages
grep -c '^rule\|^localrule' messages
rm -r .snakemake messages
cat report
