//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import "testing"

// pair is a job of two tasks, of which the second connects to the first by the name of
// its node.
const pair = `srun -n2 -N2 bash -c '
	case $SLURM_PROCID in
	0) exec ../agent serve;;
	1) exec ../agent <in >out;;
	esac'`

var aimNetwork = atLeast(0.9, "≥ 0.9")

// measureNetwork measures the way between two nodes by the addresses of capsules and by the nodes' own.
func measureNetwork(t *testing.T, c *cluster) (all []figure) {
	plain, ours := c.startBoth(t, "network", "-N2", pair)
	for _, m := range []struct {
		verb, what string
		show       func(float64) string
	}{
		{"stream", "TCP stream between tasks on two nodes", gigabytesPS},
		{"trips", "round trips a second of one byte between them", formatCount},
	} {
		one := func(a *agent) func() float64 {
			return func() float64 { return a.askNumbers(t, m.verb+" n1 500", 1)[0] }
		}
		one(plain)()
		one(ours)()
		s := inTurns(max(1, *rounds/2), one(plain), one(ours))
		all = append(all, s.ratio(m.what, m.show, aimNetwork))
	}
	return all
}
