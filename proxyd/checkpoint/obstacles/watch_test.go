// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package obstacles

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
)

// looks is a job with the obstacles that each look finds, nil for a look that is not complete, and with the obstacles
// that were noted.
type looks struct {
	found [][]processes.Obstacle
	noted []string
}

// FindObstacles implements Job.
func (l *looks) FindObstacles(context.Context) ([]processes.Obstacle, bool) {
	found := l.found[0]
	l.found = l.found[1:]
	return found, found != nil
}

// NoteObstacles implements Job.
func (l *looks) NoteObstacles(_ context.Context, settled []processes.Obstacle, changed bool) {
	l.noted = append(l.noted, fmt.Sprintf("%d %v", len(settled), changed))
}

// TestIncompleteLook: a look without the answer of each node settles no obstacle, and is not noted.
func TestIncompleteLook(t *testing.T) {
	found := []processes.Obstacle{{Node: "n1", Program: "batch", Name: "sleep", What: "is stopped"}}
	l := &looks{found: [][]processes.Obstacle{found, nil, found, nil, nil, found}}
	w := Watch{Job: l}
	var unsure []bool
	for range len(l.found) {
		unsure = append(unsure, w.lookForObstacles(t.Context()))
	}
	if want := []string{"0 false", "1 true", "1 false"}; !slices.Equal(l.noted, want) {
		t.Errorf("noted %q, want %q", l.noted, want)
	}
	if want := []bool{true, false, false, false, false, false}; !slices.Equal(unsure, want) {
		t.Errorf("looks were unsure: %v, want %v", unsure, want)
	}
}

// TestSettledObstacles: an obstacle counts when two looks in a row have found it, and is gone when two have not.
func TestSettledObstacles(t *testing.T) {
	for _, tt := range []struct {
		name    string
		looks   string // the obstacles that each look finds, each a letter; a digit behind the letter is the PID
		settled string // after each look; ! if the look was unsure
	}{
		{"nothing", "-,-,-", "-,-,-"},
		{"from the start", "a,a,a", "-!,a,a"},
		{"an hour later", "-,-,a,a,a", "-,-,-!,a,a"},
		{"gone", "a,a,-,-,-", "-!,a,a!,-,-"},
		{"comes and goes", "a,-,a,-,a,-", "-!,-!,-!,-!,-!,-!"},
		{"is missed once", "a,a,-,a,a", "-!,a,a!,a!,a"},
		{"another beside it", "a,a,ab,ab,b,b", "-!,a,a!,ab,ab!,b"},
		{"another process of the same program", "a1,a2,a3,-,-", "-!,a2,a3,a3!,-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s settledObstacles
			was := ""
			var got []string
			for _, look := range strings.Split(tt.looks, ",") {
				var found []processes.Obstacle
				for _, c := range strings.Trim(look, "-") {
					if c >= '0' && c <= '9' {
						found[len(found)-1].PID = int(c - '0')
						continue
					}
					found = append(found, processes.Obstacle{Node: "n1", Program: "batch", Name: "sleep", What: string(c)})
				}
				changed, unsure := s.addLook(found)
				now, keys := "", ""
				for _, o := range s.listSettled() {
					keys += o.What
					if now += o.What; o.PID != 0 {
						now += string(rune('0' + o.PID))
					}
				}
				if changed != (keys != was) {
					t.Errorf("%s: changed %v, from %q to %q", look, changed, was, keys)
				}
				was = keys
				if now == "" {
					now = "-"
				}
				if unsure {
					now += "!"
				}
				got = append(got, now)
			}
			if g := strings.Join(got, ","); g != tt.settled {
				t.Errorf("settled %s, want %s", g, tt.settled)
			}
		})
	}
}
