// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// TestPolicies: a snapshot is for operators, of any size; without a snapshot the newest snapshot is tried.
func TestPolicies(t *testing.T) {
	s := newSite(t)
	if _, err := s.clientOf(carol).Snapshot(t.Context()); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("before the first look: %v", err)
	}
	s.snapshot = []byte("seen")
	for uid, operator := range map[uint32]bool{alice: false, carol: true, dave: true, 0: true} {
		c := s.clientOf(uid)
		got, err := c.Snapshot(t.Context())
		if operator && (err != nil || string(got) != "seen") || !operator && !errors.Is(err, rpc.ErrDenied) {
			t.Errorf("Snapshot for user %d = %q, %v", uid, got, err)
		}
		tried, err := c.Try(t.Context(), &rpc.TryRequest{})
		if operator && (err != nil || tried.GetCluster() != "4") || !operator && !errors.Is(err, rpc.ErrDenied) {
			t.Errorf("Try by user %d = %v, %v", uid, tried, err)
		}
		tried, err = c.Try(t.Context(), &rpc.TryRequest{Snapshot: make([]byte, 10<<20)})
		if operator && (err != nil || tried.GetCluster() != "10485760") || !operator && err == nil {
			t.Errorf("user %d, a large snapshot: %v, %v", uid, tried, err)
		}
	}
}
