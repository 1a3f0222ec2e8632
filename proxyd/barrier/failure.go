// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"fmt"
	"slices"
	"strings"
)

// FailureReason is the kind of reason for which an attempt failed.
type FailureReason int

// The reasons.
const (
	DeadlinePassed FailureReason = iota + 1 // no cut in time; a later attempt may find a cut
	RankDied                                // a rank died
	RankEnded                               // a rank ended, or left a communicator, before it did its part
	RankStuck                               // a rank cannot be captured
	ReportBroken                            // a rank reported counts that are impossible: its shim cannot be trusted
)

var reasonNames = [...]string{
	DeadlinePassed: "deadline", RankDied: "dead rank", RankEnded: "ended rank", RankStuck: "stuck rank", ReportBroken: "broken report",
}

// String is for logs and metrics.
func (w FailureReason) String() string {
	if w <= 0 || int(w) >= len(reasonNames) {
		return fmt.Sprintf("reason %d", int(w))
	}
	return reasonNames[w]
}

// Failure says why there is no cut, and which ranks are the cause. A Failure is an error. Text
// has the reason in words; Ranks and Comms are sorted and may be empty.
type Failure struct {
	Why   FailureReason
	Text  string
	Ranks []Rank
	Comms []Comm
}

func (f *Failure) Error() string { return "no cut: " + f.Text }

// brokenReport is the failure of a rank with a report that makes no sense.
func brokenReport(r Rank, format string, args ...any) *Failure {
	return &Failure{
		Why:   ReportBroken,
		Text:  fmt.Sprintf("rank %d ", r) + fmt.Sprintf(format, args...),
		Ranks: []Rank{r},
	}
}

// overdueFailure says which answers an attempt still waits for when its time is up.
func (b *Barrier) overdueFailure() *Failure {
	f := &Failure{Why: DeadlinePassed}
	var parts []string
	blame := func(who []Rank, what string) {
		if len(who) > 0 {
			parts = append(parts, what)
			f.Ranks = append(f.Ranks, who...)
		}
	}
	switch b.phase {
	case idle:
	case closing:
		open := b.ranksWhere(func(r rank) bool { return !r.shut })
		blame(open, "the gate is not shut in "+listOf("rank", open))
	case chasing:
		late := b.ranksWhere(func(r rank) bool { return r.behind > 0 })
		f.Comms = b.unevenComms()
		blame(late, listOf("rank", late)+" behind on "+listOf("communicator", f.Comms))
		for _, m := range b.meetings {
			if m.begun {
				blame(m.Ranks, fmt.Sprintf("creation %d is not finished in %s", m.ID, listOf("rank", m.Ranks)))
			}
		}
		unsure := b.ranksWhere(func(r rank) bool { return r.withdrawing > 0 })
		blame(unsure, "permissions are not taken back from "+listOf("rank", unsure))
	default:
		silent := b.ranksWhere(func(r rank) bool { return r.owes })
		blame(silent, "no answer to "+b.phase.String()+" from "+listOf("rank", silent))
	}
	slices.Sort(f.Ranks)
	f.Ranks = slices.Compact(f.Ranks)
	f.Text = "deadline passed: " + strings.Join(parts, "; ")
	return f
}

// ranksWhere returns each rank r that has not ended and for which is(r) is true.
func (b *Barrier) ranksWhere(is func(rank) bool) []Rank {
	var ranks []Rank
	for i, r := range b.ranks {
		if !r.ended && is(r) {
			ranks = append(ranks, Rank(i))
		}
	}
	return ranks
}

// listOf is "rank 3", "ranks 1, 2", or the first eight of them and the number of the rest.
func listOf[T ~int | ~uint64](noun string, of []T) string {
	const most = 8
	words := make([]string, 0, len(of))
	for _, v := range of {
		words = append(words, fmt.Sprint(v))
	}
	if len(of) != 1 {
		noun += "s"
	}
	rest := ""
	if len(words) > most {
		rest = fmt.Sprintf(" and %d more", len(words)-most)
		words = words[:most]
	}
	return noun + " " + strings.Join(words, ", ") + rest
}
