// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"

func (s *graphState) tables() map[replay.Class]handles {
	s.lock()
	defer s.unlock()
	return map[replay.Class]handles{"graph": &s.graphs, "node": &s.nodes, "graphexec": &s.execs}
}

// unsaved says why graphs cannot be made again as they are, or "".
func (s *graphState) unsaved() string {
	s.lock()
	defer s.unlock()
	if len(s.memory) > 0 {
		return "a graph of it allocates memory, and such memory cannot be saved yet"
	}
	return ""
}
