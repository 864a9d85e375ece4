#!/bin/bash
#SBATCH --job-name=meanfield
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --requeue
# One flow on all nodes: sbatch flow.sh run.toml run.zarr
# Submitted again, on as many nodes or others, it goes on from the last frame.
set -euo pipefail
keys=$1 run=$2
if [ -e "$run" ]; then
  srun --kill-on-bad-exit=1 meanfield resume "$run" --join slurm
else
  srun --kill-on-bad-exit=1 meanfield simulate "$keys" --out "$run" --join slurm
fi
