#!/bin/bash
#SBATCH --job-name=meanfield-sweep
#SBATCH --array=0-15
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
# Cells of a sweep, side by side: sbatch sweep.sh phase
# The folder is made beforehand, by the same command as on one machine, with --workers 0.
# A task that ends early leaves its cells to the others.
set -euo pipefail
meanfield sweep "$1"
