// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package workloads holds programs that train, serve and compute on devices, and tests them. The programs are
// written in C, with hand-written PTX in src/ptx. They call only CUDA's driver and NCCL, and the same
// binaries run on a GPU and on the software GPU:
//
//	mlp      a perceptron, trained with Adam, data-parallel; with --zero, the ranks divide the model as ZeRO and FSDP do
//	gpt      a small transformer, trained with Adam, data-parallel; with --recompute, activations are computed twice
//	grid     tensor- and pipeline-parallel on 2x2 ranks, or on several such grids data-parallel
//	streams  graphs, events, streams and threads
//	solver   queues thousands of kernels and waits for all of them at once
//	serve    answers requests; each request changes the program's state
//
// Each program prints a hash of its parameters per step, or request. The hash depends on the options alone,
// and not on the run, on the number of devices, or on whether ranks are threads or processes: the kernels
// round as IEEE 754 says, add in a fixed order and use no approximate instructions.
//
// The tests here run each kernel by package ptx and compare with a computation in float64, compare gradients
// with differences, and run the programs by `proxyd run`.
package workloads
