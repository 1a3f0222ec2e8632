// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

// codeState is what a process has of modules and what belongs to them.
type codeState struct{}

// codeWaits are the calls that may wait.
var codeWaits []string

// contextEnded drops what belongs to a context that is being destroyed. It does not wait.
func (s *codeState) contextEnded(*cudaContext) {}

// end drops everything. No call is under way, and the spaces are closed.
func (s *codeState) end() {}
