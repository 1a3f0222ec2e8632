// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "testing"

func TestGate(t *testing.T) {
	a, b := Key{Comm: 1}, Key{Comm: 2}
	counts := map[Key]uint64{a: 3, b: 5}
	issued := func(k Key) uint64 { return counts[k] }
	tests := []struct {
		name       string
		do         func(*Gate)
		ok, nudged bool
		again      bool // ask a second time
	}{
		{"open", func(*Gate) {}, true, false, true},
		{"shut", (*Gate).Shut, false, false, false},
		{"behind on one of two", func(g *Gate) { g.Shut(); g.Raise([]Count{{a, 3}, {b, 6}}) }, true, false, true},
		{"reached", func(g *Gate) { g.Shut(); g.Raise([]Count{{a, 3}, {b, 5}}) }, false, false, false},
		{"never counted there", func(g *Gate) { g.Shut(); g.Raise([]Count{{Key{Comm: 3}, 1}}) }, true, false, true},
		{"replaced", func(g *Gate) { g.Shut(); g.Raise([]Count{{b, 6}}); g.Raise([]Count{{a, 2}}) }, false, false, false},
		{"nudged", func(g *Gate) { g.Shut(); g.Nudge() }, true, true, false},
		{"nudged and behind", func(g *Gate) { g.Shut(); g.Nudge(); g.Raise([]Count{{a, 4}}) }, true, false, true},
		{"withdrawn", func(g *Gate) { g.Shut(); g.Nudge(); g.Raise([]Count{{a, 4}}); g.Withdraw() }, false, false, false},
		{"raised after it", func(g *Gate) { g.Shut(); g.Withdraw(); g.Raise([]Count{{a, 4}}) }, true, false, true},
		{"shut anew", func(g *Gate) { g.Nudge(); g.Shut() }, false, false, false},
		{"opened", func(g *Gate) { g.Shut(); g.Nudge(); g.Open() }, true, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var g Gate
			tt.do(&g)
			if ok, nudged := g.Pass(issued); ok != tt.ok || nudged != tt.nudged {
				t.Errorf("Pass = %v, %v; want %v, %v", ok, nudged, tt.ok, tt.nudged)
			}
			if ok, _ := g.Pass(issued); ok != tt.again {
				t.Errorf("Pass again = %v, want %v", ok, tt.again)
			}
		})
	}
}
