#!/bin/bash
#SBATCH --singularity-interval=10m
#SBATCH --singularity-outside=foo
for i in 1 2; do
	echo $i
