// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package workloads holds programs that train, serve and compute on devices, and tests them. They are C, with hand-written PTX
// in src/ptx, call CUDA's driver and NCCL alone, and are the same binaries on a GPU and on the software GPU:
//
//	mlp      a perceptron, trained with Adam, data-parallel
//	gpt      a small transformer, trained with Adam, data-parallel
//	grid     tensor- and pipeline-parallel on 2x2 ranks, or on several such grids data-parallel
//	streams  graphs, events, streams and threads
//	solver   queues thousands of kernels and waits for all of them at once
//	serve    answers requests, each of which changes what it remembers
//
// Each prints a hash of its parameters per step, or request. It depends on the options alone, not on the run, on how many
// devices there are, nor on whether ranks are threads or processes: the kernels round as IEEE 754 says, add in a fixed
// order and use no approximate instructions.
//
// The tests here run each kernel by package ptx against a computation in float64, gradients against differences, and the
// programs by `proxyd run`.
package workloads
