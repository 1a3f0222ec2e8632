// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

var then = time.Unix(1_800_000_000, 0)

func atMinute(m float64) time.Time { return then.Add(time.Duration(m * float64(time.Minute))) }

// TestCountWork: the work that checkpoints saved, and that was lost, by time lines as proxyd writes them.
func TestCountWork(t *testing.T) {
	m := time.Minute
	for _, tt := range []struct {
		name   string
		events []Event
		runs   []Run
		want   Work
	}{
		{name: "requeued after a capture: nothing is lost", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(11), What: "checkpoint", Checkpoint: 1, Took: m}, {At: atMinute(12), What: "left"},
			{At: atMinute(20), What: "started", Checkpoint: 1}, {At: atMinute(22), What: "restored", Checkpoint: 1},
			{At: atMinute(30), What: "ended"},
		}, want: Work{Made: 1, Longest: m, Capturing: m, Restoring: 2 * m, Worked: 18 * m, Saved: 10 * m}},
		{name: "a node dies: the run ends when Slurm says", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1, Took: m / 2},
			{At: atMinute(40), What: "started", Checkpoint: 1}, {At: atMinute(41), What: "restored", Checkpoint: 1},
		}, runs: []Run{{Ended: atMinute(15)}, {Began: atMinute(40), Elapsed: 20 * m}}, want: Work{Made: 1, Longest: m / 2, Capturing: m / 2, Restoring: m, Worked: 67 * m / 2, Saved: 19 * m / 2, Lost: 5 * m, LateEnd: true}},
		{name: "a node died, and the job waits", events: []Event{{At: atMinute(0), What: "started"}},
			runs: []Run{{Began: atMinute(0), Ended: atMinute(15)}, {Submitted: atMinute(15)}}, want: Work{Worked: 15 * m}},
		{name: "a part of the run is lost", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(5), What: "no checkpoint"},
			{At: atMinute(10), What: "to be run again"}, {At: atMinute(12), What: "started"},
		}, runs: []Run{{Ended: atMinute(11)}}, want: Work{Failed: 1, Worked: 10 * m, Anew: 10 * m}},
		{name: "twice from one checkpoint", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1},
			{At: atMinute(12), What: "to be run again"}, {At: atMinute(13), What: "started", Checkpoint: 1}, {At: atMinute(13), What: "restored", Checkpoint: 1},
			{At: atMinute(16), What: "to be run again"}, {At: atMinute(17), What: "started", Checkpoint: 1}, {At: atMinute(17), What: "restored", Checkpoint: 1},
		}, want: Work{Made: 1, Worked: 15 * m, Saved: 10 * m, Lost: 5 * m}},
		{name: "a restore is cut and tried again", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1}, {At: atMinute(10), What: "left"},
			{At: atMinute(11), What: "started", Checkpoint: 1}, {At: atMinute(12), What: "to be run again"},
			{At: atMinute(20), What: "started", Checkpoint: 1}, {At: atMinute(21), What: "restored", Checkpoint: 1},
		}, want: Work{Made: 1, Restoring: m, Worked: 10 * m, Saved: 10 * m}},
		{name: "the first half of the time line is dropped", events: []Event{
			{At: atMinute(20), What: "restored", Checkpoint: 7}, {At: atMinute(30), What: "checkpoint", Checkpoint: 8, Took: time.Second}, {At: atMinute(31), What: "ended"},
		}, want: Work{Made: 1, Longest: time.Second, Capturing: time.Second, Worked: 11*m - time.Second}},
		{name: "requeued three times: what was saved before is counted once", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1}, {At: atMinute(10), What: "left"},
			{At: atMinute(11), What: "started", Checkpoint: 1}, {At: atMinute(11), What: "restored", Checkpoint: 1},
			{At: atMinute(21), What: "checkpoint", Checkpoint: 2}, {At: atMinute(21), What: "left"},
			{At: atMinute(22), What: "started", Checkpoint: 2}, {At: atMinute(22), What: "restored", Checkpoint: 2},
			{At: atMinute(32), What: "checkpoint", Checkpoint: 3}, {At: atMinute(32), What: "left"},
			{At: atMinute(33), What: "started", Checkpoint: 3}, {At: atMinute(33), What: "restored", Checkpoint: 3},
			{At: atMinute(35), What: "ended"},
		}, want: Work{Made: 3, Worked: 32 * m, Saved: 30 * m}},
		{name: "the newest checkpoint is damaged: an older one is restored", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1}, {At: atMinute(20), What: "checkpoint", Checkpoint: 2}, {At: atMinute(20), What: "left"},
			{At: atMinute(21), What: "started", Checkpoint: 2}, {At: atMinute(21), What: "restored", Checkpoint: 2}, {At: atMinute(24), What: "to be run again"},
			{At: atMinute(25), What: "started", Checkpoint: 1}, {At: atMinute(25), What: "restored", Checkpoint: 1}, {At: atMinute(30), What: "ended"},
		}, want: Work{Made: 2, Worked: 28 * m, Saved: 10 * m, Lost: 13 * m}},
		{name: "resumed, and then it begins anew", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1}, {At: atMinute(10), What: "left"},
			{At: atMinute(11), What: "started", Checkpoint: 1}, {At: atMinute(11), What: "restored", Checkpoint: 1}, {At: atMinute(14), What: "to be run again"},
			{At: atMinute(15), What: "started"}, {At: atMinute(16), What: "ended"},
		}, want: Work{Made: 1, Worked: 14 * m, Anew: 13 * m}},
		{name: "it requeues itself, and ends by itself: its programs have saved what they need", events: []Event{
			{At: atMinute(0), What: "started"}, {At: atMinute(10), What: "checkpoint", Checkpoint: 1}, {At: atMinute(10), What: "left"},
			{At: atMinute(11), What: "started", Checkpoint: 1}, {At: atMinute(11), What: "restored", Checkpoint: 1}, {At: atMinute(15), What: "ended"},
			{At: atMinute(17), What: "started", AfterEnd: true}, {At: atMinute(20), What: "to be run again"},
			{At: atMinute(21), What: "started"}, {At: atMinute(22), What: "ended"},
		}, want: Work{Made: 1, Worked: 18 * m, Ended: 14 * m, Anew: 3 * m}},
		{name: "it runs", events: []Event{{At: atMinute(50), What: "started"}}, runs: []Run{{Began: atMinute(50), Elapsed: 10 * m}}, want: Work{Worked: 10 * m}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CountWork(tt.events, tt.runs); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestWorkIsCountedOnce: of any time line, no work is counted as saved or lost that the job did not do.
func TestWorkIsCountedOnce(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var events []Event
		made, at := 0, 0
		add := func(what string, checkpoint int, took time.Duration) {
			at += r.IntN(10)
			events = append(events, Event{At: atMinute(float64(at)), What: what, Checkpoint: checkpoint, Took: took, AfterEnd: what == "started" && checkpoint == 0 && r.IntN(2) == 0})
		}
		add("started", 0, 0)
		for range 20 {
			switch number := 1 + r.IntN(made+1); r.IntN(4) {
			case 0:
				made++
				add("checkpoint", made, time.Duration(r.IntN(600))*time.Second)
			case 1:
				add([]string{"left", "ended", "to be run again"}[r.IntN(3)], 0, 0)
			case 2:
				add("started", 0, 0)
			case 3:
				if number > made {
					continue
				}
				add("started", number, 0)
				add("restored", number, 0)
			}
		}
		got := CountWork(events, []Run{{Began: then, Elapsed: time.Duration(at) * time.Minute}})
		if most := time.Duration(at) * time.Minute; got.Worked > most || got.Saved+got.Lost+got.Anew+got.Ended > got.Worked || got.Saved < 0 || got.Lost < 0 {
			t.Fatalf("seed %d: %+v of %v; %+v", seed, got, most, events)
		}
	}
}

// TestUsefulShare: work that was done again is not useful, and the share is never more than 1.
func TestUsefulShare(t *testing.T) {
	w := Work{Worked: 9 * time.Minute, Lost: time.Minute, Anew: 3 * time.Minute}
	for ran, want := range map[time.Duration]float64{10 * time.Minute: 0.5, 4 * time.Minute: 1, 0: 0} {
		if got := w.UsefulShare(ran); got != want {
			t.Errorf("of %v: %v, want %v", ran, got, want)
		}
	}
}

// TestParseRuns: runs come in their order, for all comments.
func TestParseRuns(t *testing.T) {
	got := ParseRuns("alice|RUNNING|300|400|Unknown|50|n2|gres/gpu:a100=2,gres/gpu:h100=1|\n" +
		"alice|PREEMPTED|100|150|300|150|n1|billing=1,gres/gpu=2,gres/gpu:a100=2|a | b\nline|two\n" +
		"alice|CANCELLED by 7|500|None|560|0|None assigned||\nalice|X|1|2|3|much|n1||\n")
	want := []Run{
		{"alice", "PREEMPTED", time.Unix(100, 0), time.Unix(150, 0), time.Unix(300, 0), 150 * time.Second, "n1", 2, "a | b", 0},
		{"alice", "RUNNING", time.Unix(300, 0), time.Unix(400, 0), time.Time{}, 50 * time.Second, "n2", 3, "", 0},
		{"alice", "CANCELLED by 7", time.Unix(500, 0), time.Time{}, time.Unix(560, 0), 0, "", 0, "", 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// Slurm took the job to be over at 300, and proxyd had the job requeued at 378.
	late := []Run{{Submitted: time.Unix(100, 0), Began: time.Unix(150, 0), Ended: time.Unix(300, 0), Nodes: "n1"}, {Submitted: time.Unix(378, 0), Began: time.Unix(380, 0), Nodes: "n1"}}
	if waited := AddRuns(late, time.Unix(1000, 0)).Waited; waited != 130*time.Second {
		t.Errorf("waited %v, want 50 s before the first run and 80 s before the second", waited)
	}
	totals := AddRuns(got, time.Unix(1000, 0))
	if want := (Totals{Runs: 2, Moves: 1, Ran: 200 * time.Second, Waited: 210 * time.Second, GPUTime: 450 * time.Second}); totals != want {
		t.Errorf("got  %+v\nwant %+v", totals, want)
	}
}

// FuzzParseRuns: no output of sacct makes the sums panic or negative.
func FuzzParseRuns(f *testing.F) {
	f.Add("alice|RUNNING|300|400|Unknown|50|n2|gres/gpu=2|comment\n")
	f.Add("a|b|99999999999|1|1|-1|n|gres/gpu=-5|\n")
	f.Fuzz(func(t *testing.T, printed string) {
		if totals := AddRuns(ParseRuns(printed), then); totals.Runs < 0 || totals.Moves > totals.Runs || totals.Waited < 0 {
			t.Errorf("AddRuns(ParseRuns(%q)) = %+v", printed, totals)
		}
	})
}

// TestAddLeases: each run has the most GPUs that leases lent the job at a time. Texts about no lease do not count.
func TestAddLeases(t *testing.T) {
	at := func(minute int) time.Time {
		return time.Unix(1_800_000_000, 0).Add(time.Duration(minute) * time.Minute)
	}
	var changes []LeaseChange
	for _, e := range []struct {
		minute int
		text   string
	}{
		{1, "job 9 has lent 1: 2 now"}, {2, "job 10 has lent 2: 4 now"}, {3, "job 9 takes back 1: 3 now"}, {4, "job 11 has lent 1: 4 now"},
		{12, "job 12 has lent 1: 2 now"}, {13, "job 12 takes back 1: 1 now"}, {14, "job 13 lends 1: 2 now"}, // of an older release
		{15, "another text of 4: 9 now"},
	} {
		if gpus, is := ParseLease(e.text); is {
			changes = append(changes, LeaseChange{at(e.minute), gpus})
		}
	}
	runs := []Run{{Began: at(0), Ended: at(10)}, {Began: at(11)}, {}}
	AddLeases(runs, changes)
	if runs[0].Leased != 3 || runs[1].Leased != 1 || runs[2].Leased != 0 {
		t.Errorf("leased by run: %d, %d, %d, want 3, 1, 0", runs[0].Leased, runs[1].Leased, runs[2].Leased)
	}
}
