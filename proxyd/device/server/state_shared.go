// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// checkShared makes sure that a state has the bytes of all memory that processes share. A save has such bytes with the
// process that has allocated the memory or, after that process has freed it, with a process that imports the memory. A
// process that ends while its job is being saved is left out, and then the bytes are missing: the next save has them with
// another process.
func checkShared(st *serverState) error {
	has := map[backend.ShareID]bool{}
	var wanted []backend.Share
	for i := range st.Processes {
		for _, d := range st.Processes[i].Devices {
			if d.State == nil {
				continue
			}
			for _, m := range d.State.Shared {
				has[m.ID] = true
			}
			for _, a := range d.State.Allocations {
				switch {
				case a.Kind != backend.Imported:
				case slices.Contains(d.State.Orphans, a.Base):
					has[a.Share.Memory] = true
				default:
					wanted = append(wanted, a.Share)
				}
			}
		}
	}
	for _, s := range wanted {
		if !has[s.Memory] {
			return fmt.Errorf("no process has the bytes of memory %x, which processes share: one has ended meanwhile", s.Memory[:4])
		}
	}
	return nil
}
