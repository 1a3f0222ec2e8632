// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package fraction_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func timeAt(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// A premium job of 4 GPUs: the job waits for 2 minutes, runs, is preempted after half an hour and
// waits, comes back on 2 GPUs, and grows again.
func TestLifeOfAJob(t *testing.T) {
	minute := func(m float64) time.Time { return start.Add(time.Duration(m * float64(time.Minute))) }
	l := fraction.New(time.Hour)
	e := func(m float64, run int, state fraction.State, gpus int) {
		l.Add(fraction.Event{Job: 812, At: minute(m), Run: run, State: state, GPUs: gpus, Request: 4, Account: "lab"})
	}
	e(0, 0, fraction.Excused, 0) // submitted, held by its user
	e(5, 0, fraction.Waiting, 0)
	e(7, 0, fraction.Running, 4)
	e(37, 0, fraction.Stopped, 4) // the dump
	e(38, 1, fraction.Waiting, 0)
	e(43, 1, fraction.Stopped, 2) // the restore
	e(44, 1, fraction.Running, 2)
	e(64, 1, fraction.Running, 8)
	for _, c := range []struct {
		minute  float64
		want    float64
		counted time.Duration
	}{
		{0, 1, 0},
		{4, 1, 0}, // held by its user: no GPU time was owed
		{6, 0, time.Minute},
		{7, 0, 2 * time.Minute},
		{9, 0.5, 4 * time.Minute},
		{37, 30.0 / 32, 32 * time.Minute},
		{44, 30.0 / 39, 39 * time.Minute},
		{64, 40.0 / 59, 59 * time.Minute},
		{65, 42.0 / 60, time.Hour},            // 8 GPUs for 4: the job catches up
		{97, (7.0 + 10 + 66) / 60, time.Hour}, // the window begins at 37: would be more than 1
		{64 + 60, 1, time.Hour},
	} {
		got := l.Job(812, minute(c.minute))
		if f := got.Fraction(); got.Counted != c.counted || f < min(1, c.want)-1e-12 || f > min(1, c.want)+1e-12 {
			t.Errorf("minute %g: fraction %g of %v, want %g of %v", c.minute, f, got.Counted, c.want, c.counted)
		}
	}
}

// countSlowly counts millisecond by millisecond, and is slow.
func countSlowly(events []fraction.Event, window int, now int, is func(fraction.Event) bool) fraction.Count {
	jobs := map[sdk.JobID]bool{}
	for _, e := range events {
		jobs[e.Job] = true
	}
	var c fraction.Count
	for job := range jobs {
		for ms := now - window; ms < now; ms++ {
			var holds *fraction.Event
			for i := range events {
				if e := &events[i]; e.Job == job && !e.At.After(timeAt(ms)) && (holds == nil || comesLater(e, holds)) {
					holds = e
				}
			}
			if holds == nil || !is(*holds) {
				continue
			}
			switch holds.State {
			case fraction.Running:
				c.Delivered += int64(holds.GPUs)
				fallthrough
			case fraction.Waiting, fraction.Stopped:
				c.Asked += int64(holds.Request)
				if holds.Request > 0 {
					c.Counted += time.Millisecond
				}
			}
		}
	}
	return c
}

// comesLater says which of two events of a job comes after the other.
func comesLater(a, b *fraction.Event) bool {
	key := func(e *fraction.Event) []int {
		return []int{int(e.At.Sub(start).Milliseconds()), e.Run, int(e.State), e.GPUs, e.Request, int(e.Account[0])}
	}
	x, y := key(a), key(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}

func randomEvents(r *rand.Rand) []fraction.Event {
	events := make([]fraction.Event, 1+r.IntN(25))
	for i := range events {
		events[i] = fraction.Event{
			Job: sdk.JobID(1 + r.IntN(3)), At: timeAt(r.IntN(60)), Run: r.IntN(3), State: fraction.State(r.IntN(5)),
			GPUs: r.IntN(9), Request: r.IntN(5), Account: string(rune('a' + r.IntN(2))),
		}
	}
	return events
}

// For all events, and all ways in which the Counter learnt of them, the Counter counts like the reference.
func TestCountsAsTheReference(t *testing.T) {
	const window = 20
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		events := randomEvents(r)
		l := fraction.New(window * time.Millisecond)
		l.Add(events...)
		for now := 0; now < 90; now += 1 + r.IntN(10) {
			for job := sdk.JobID(1); job <= 3; job++ {
				want := countSlowly(events, window, now, func(e fraction.Event) bool { return e.Job == job })
				if got := l.Job(job, timeAt(now)); got != want {
					t.Fatalf("seed %d: job %d at %d: %+v, want %+v\n%+v", seed, job, now, got, want, events)
				}
			}
			accounts := l.Accounts(timeAt(now))
			for _, a := range []string{"a", "b"} {
				if want := countSlowly(events, window, now, func(e fraction.Event) bool { return e.Account == a }); accounts[a] != want {
					t.Fatalf("seed %d: account %s at %d: %+v, want %+v\n%+v", seed, a, now, accounts[a], want, events)
				}
			}
			switch r.IntN(3) {
			case 0: // the daemon starts again, and reads all events, some twice and in any order
				known := append(l.Events(), events...)
				r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
				l = fraction.New(window * time.Millisecond)
				l.Add(known...)
			case 1: // old events are dropped
				l.Forget(timeAt(now))
			}
		}
	}
}

func TestForgetForgets(t *testing.T) {
	l := fraction.New(time.Second)
	l.Add(
		fraction.Event{Job: 1, At: timeAt(0), State: fraction.Running, GPUs: 1, Request: 1},
		fraction.Event{Job: 1, At: timeAt(10), State: fraction.Ended},
		fraction.Event{Job: 2, At: timeAt(0), State: fraction.Waiting, Request: 1},
		fraction.Event{Job: 2, At: timeAt(10), State: fraction.Running, GPUs: 1, Request: 1},
	)
	l.Forget(timeAt(2000))
	want := []fraction.Event{{Job: 2, At: timeAt(10), State: fraction.Running, GPUs: 1, Request: 1}}
	if got := l.Events(); !reflect.DeepEqual(got, want) {
		t.Errorf("kept %+v, want %+v", got, want)
	}
}

func TestTierOf(t *testing.T) {
	site := map[string]sdk.Tier{"gold": sdk.Premium, "premium": sdk.Basic}
	for qos, want := range map[string]sdk.Tier{"standard": sdk.Standard, "gold": sdk.Premium, "premium": sdk.Basic, "normal": sdk.Basic, "": sdk.Basic} {
		if got := fraction.TierOf(qos, site); got != want {
			t.Errorf("QOS %q: %v, want %v", qos, got, want)
		}
	}
	if got := fraction.TierOf("premium", nil); got != sdk.Premium {
		t.Errorf("QOS premium: %v", got)
	}
}
