// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package device holds programs that use CUDA's driver, NCCL and NVML, and runs them on the software GPU.
//
// Each testdata/AREA_*.c is compiled with the headers in include/, which are like the vendor's, linked against stubs of
// libcuda.so.1, libnccl.so.2 and libnvidia-ml.so.1 and run by `proxyd run --soft N -- PROGRAM`, without root and without
// Slurm. It must end by itself, with exit code 0. Lines at its top say more:
//
//	// devices: 2          how many it gets; 1
//	// expect: TEXT        a line that it prints; all such lines together are what it prints, where there are any
//	// says: TEXT          a text within what it writes to its standard error
//	// exit: 3             its exit code
//	// args: A B           its arguments
//	// env: A=B            one more variable of its environment
//	// stdin: TEXT         a line that it reads
//	// limit: 20s          how long it may take; 20s
//	// cflags: -DX         more for the compiler
//	// slow: WHY           not with -short
//	// broken: WHY         known to fail: skipped, with the reason
package device
