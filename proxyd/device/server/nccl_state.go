// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

// ncclState is what a process has of communicators and what belongs to them.
type ncclState struct{}

// ncclWaits are the calls that may wait.
var ncclWaits []string

// contextEnded drops what belongs to a context that is being destroyed. It does not wait.
func (s *ncclState) contextEnded(*cudaContext) {}

// end drops everything. No call is under way, and the spaces are closed.
func (s *ncclState) end() {}
