// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package jobrequest

import (
	"encoding/json"
	"fmt"
)

// Record is the journal's record of a job that an action has edited (journal.Origin).
type Record struct {
	Asked Request `json:"asked"` // the request of the job's user
	Ours  Request `json:"ours"`  // the request that the action put in its place
	By    Editor  `json:"by"`
	// SizedBy is the user or action that chose the number of nodes and GPUs; its Who is empty if no
	// action changed the number.
	SizedBy Sizer `json:"sizedBy,omitzero"`
}

// Sizer is the user or policy that chose the size of a job.
type Sizer struct {
	Editor
	// InPlace is how many GPUs the running job was to have on each node, with those of leases: its request to Slurm did
	// not change. 0: the job asks Slurm for its size.
	InPlace int64 `json:"inPlace,omitempty"`
}

// Editor is the user or policy on behalf of which an action edited a job.
type Editor struct {
	Who      string `json:"who,omitempty"`
	Restarts int64  `json:"restarts,omitempty"` // of the job at the edit
}

// Decode reads a record of the journal.
func Decode(record json.RawMessage) (Record, error) {
	var r Record
	if err := json.Unmarshal(record, &r); err != nil {
		return r, fmt.Errorf("read the job's earlier request: %w", err)
	}
	return r, nil
}

// PinsOf returns the host lists that the job's user wants a job to require and to exclude. A list of the job that is
// still as the action made it counts as the list that the user had asked for.
func (r Record) PinsOf(required, excluded string) (string, string) {
	if SameHosts(required, r.Ours.Required) {
		required = r.Asked.Required
	}
	if SameHosts(excluded, r.Ours.Excluded) {
		excluded = r.Asked.Excluded
	}
	return required, excluded
}
