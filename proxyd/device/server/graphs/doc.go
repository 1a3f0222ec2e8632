// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package graphs carries out the calls about graphs: their nodes, executable graphs, captured calls, and the functions
// of the program that streams and nodes call.
//
// A node is made by the method that would carry its call out at once, on a stream that records: see recorder.
package graphs
