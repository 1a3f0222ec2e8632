// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

// graphState is what a process has of graphs and what belongs to them.
type graphState struct{}

// graphWaits are the calls that may wait.
var graphWaits []string

// contextEnded drops what belongs to a context that is being destroyed. It does not wait.
func (s *graphState) contextEnded(*cudaContext) {}

// end drops everything. No call is under way, and the spaces are closed.
func (s *graphState) end() {}
