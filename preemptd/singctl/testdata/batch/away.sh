#!/bin/bash
#SBATCH --singularity
srun ./train
