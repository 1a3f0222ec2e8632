// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mandate

import (
	"regexp"
	"slices"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// ours is the form of our names: the meaning, and the preemptd.
var ours = regexp.MustCompile(`^preemptd:(works|waits):([A-Za-z0-9_.-]+:[0-9a-f]{8})$`)

// foreign matches the characters that a host's name may have and a name of ours cannot.
var foreign = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// view is the state of the mandates in Slurm, as a single preemptd sees it.
type view struct {
	mine  bool     // our mandate is there
	asked bool     // our question is there
	works []string // other preemptds with a mandate
	asks  []string // other preemptds with a question
}

func viewOf(all []slurmrest.Reservation, me string) view {
	var v view
	for i := range all {
		found := ours.FindStringSubmatch(all[i].Name)
		switch {
		case found == nil:
		case found[1] == "works" && found[2] == me:
			v.mine = true
		case found[1] == "works":
			v.works = append(v.works, found[2])
		case found[2] == me:
			v.asked = true
		default:
			v.asks = append(v.asks, found[2])
		}
	}
	return v
}

// nextMove is the next move of a waiting preemptd.
type nextMove int

const (
	rest  nextMove = iota // look again later
	yield                 // delete our mandate: another preemptd's is there
	ask                   // put the question
	seize                 // the worker that was asked does not answer
	take                  // make our mandate
	work                  // the mandate is ours
)

// memory is a waiting preemptd's knowledge from earlier looks.
type memory struct {
	asked time.Duration // since when the question has been there unanswered; 0: not known
	whom  []string      // the preemptds that had a mandate then
	seen  time.Duration // when another's mandate was seen last; 0: never
}

// nextMove decides by a look that was made at a time.
func (m *memory) nextMove(v view, at time.Duration) nextMove {
	if len(v.works) == 0 {
		m.asked = 0
		switch {
		case m.seen != 0 && at-m.seen < certainFor:
			return rest
		case v.mine:
			return work
		}
		return take
	}
	m.seen = at
	switch {
	case v.mine:
		m.asked = 0
		return yield
	case !v.asked:
		m.asked, m.whom = at, v.works
		return ask
	case m.asked == 0 || slices.ContainsFunc(v.works, func(who string) bool { return !slices.Contains(m.whom, who) }):
		m.asked, m.whom = at, v.works
		return rest
	case at-m.asked >= answerTimeout:
		return seize
	}
	return rest
}

// forgetCounts forgets since when the question is there: a look failed, and the worker that was asked could not look
// either.
func (m *memory) forgetCounts() { m.asked = 0 }

// mandateConfirmed is called when the mandates of the preemptds that did not answer are deleted, with the view after
// that. If our question is still there, these preemptds are not sure any more; if not, they may be.
func (m *memory) mandateConfirmed(v view, at time.Duration) {
	m.asked, m.seen = 0, at
	if v.asked {
		m.seen = 0
	}
}
