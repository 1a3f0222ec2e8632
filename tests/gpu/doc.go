// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package gpu tests the kit for nodes with real GPUs on a machine without a GPU: the archive is unpacked into an empty
// folder, and run with only coreutils beside. docs/gpu.md describes the kit.
//
//	kit        the program that runs the steps
//	calltrace  writes a program's calls to the driver, in C
//	probe      answers questions about a driver, in C
//	programs   trainings by PyTorch
//	pack run   make the archive, and start the kit
package gpu
