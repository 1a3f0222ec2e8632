// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package device holds programs that use CUDA's driver, NCCL and NVML, and runs them on the software GPU.
//
// Each testdata/AREA_*.c is compiled with the headers in include/, which are like the vendor's, and linked
// against stubs of libcuda.so.1, libnccl.so.2 and libnvidia-ml.so.1. The test runs `proxyd run --soft N --
// PROGRAM`, without root and without Slurm. The program must end with exit code 0. Lines at the top of the
// file change that:
//
//	// devices: 2          number of devices; 1
//	// expect: TEXT        a line of the standard output; all these lines are the whole output, unless there are none
//	// says: TEXT          a text within the standard error
//	// misses: TEXT        a call that is not covered, in the device server's list; with such lines they are all of it
//	// exit: 3             the exit code
//	// args: A B           the arguments
//	// env: A=B            an additional variable of the environment
//	// stdin: TEXT         a line of the standard input
//	// limit: 20s          time limit; 20s
//	// cflags: -DX         additional flags of the compiler
//	// slow: WHY           skipped with -short
//	// rung: splice        on fewer devices, kernels run once for several of its processes
//	// broken: WHY         known to fail: skipped, with the reason
//	// software: WHY       only software GPUs have its calls: left out by the GPU kit on real GPUs
//
// Programs of several devices run on fewer, too, by each way to share these.
//
// A testdata/state_*.c also runs while its device server is killed and restored, again and again. Its output must be that of
// a run in which the device server was not disturbed.
package device
