#!/bin/bash
#SBATCH --no-requeue

sudo mount /data
srun gdb ./train
