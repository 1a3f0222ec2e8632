// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"reflect"
	"testing"
	"time"
)

var then = time.Unix(1_800_000_000, 0)

func atMinute(m float64) time.Time { return then.Add(time.Duration(m * float64(time.Minute))) }

// TestCountWork: what checkpoints saved, and what was lost, by time lines as proxyd writes them.
func TestCountWork(t *testing.T) {
	m := time.Minute
	for _, tt := range []struct {
		name   string
		events []Event
		runs   []Run
		want   Work
	}{
		{name: "requeued after a capture: nothing is lost", events: []Event{
			{atMinute(0), "started", ""}, {atMinute(11), "checkpoint", "1 (requeue), in 1m0s"}, {atMinute(12), "left", ""},
			{atMinute(20), "started", "run 2, to resume from checkpoint 1"}, {atMinute(22), "restored", "from checkpoint 1"},
			{atMinute(30), "ended", ""},
		}, want: Work{Made: 1, Longest: m, Capturing: m, Restoring: 2 * m, Saved: 10 * m}},
		{name: "a node dies: the run ends when Slurm says", events: []Event{
			{atMinute(0), "started", ""}, {atMinute(10), "checkpoint", "1 (interval), in 30s"},
			{atMinute(40), "started", "run 2, to resume from checkpoint 1; 5m0s of work are lost"}, {atMinute(41), "restored", "from checkpoint 1; 5m0s of work are lost"},
		}, runs: []Run{{Ended: atMinute(15)}, {}}, want: Work{Made: 1, Longest: m / 2, Capturing: m / 2, Restoring: m, Saved: 19 * m / 2, Lost: 5 * m}},
		{name: "a part of the run is lost", events: []Event{
			{atMinute(0), "started", ""}, {atMinute(5), "no checkpoint", "process 7 holds a terminal"},
			{atMinute(10), "to be run again", "node n2: no answer"}, {atMinute(12), "started", "run 2, anew"},
		}, runs: []Run{{Ended: atMinute(11)}}, want: Work{Failed: 1, Anew: 10 * m}},
		{name: "twice from one checkpoint", events: []Event{
			{atMinute(0), "started", ""}, {atMinute(10), "checkpoint", "1 (interval), in 0s"},
			{atMinute(12), "to be run again", ""}, {atMinute(13), "started", "run 2, to resume from checkpoint 1"}, {atMinute(13), "restored", "from checkpoint 1"},
			{atMinute(16), "to be run again", ""}, {atMinute(17), "started", "run 3, to resume from checkpoint 1"}, {atMinute(17), "restored", "from checkpoint 1"},
		}, want: Work{Made: 1, Saved: 20 * m, Lost: 5 * m}},
		{name: "a restore is cut and tried again", events: []Event{
			{atMinute(0), "started", ""}, {atMinute(10), "checkpoint", "1 (requeue), in 0s"}, {atMinute(10), "left", ""},
			{atMinute(11), "started", "run 2, to resume from checkpoint 1"}, {atMinute(12), "to be run again", ""},
			{atMinute(20), "started", "run 3, to resume from checkpoint 1"}, {atMinute(21), "restored", "from checkpoint 1"},
		}, want: Work{Made: 1, Restoring: m, Saved: 10 * m}},
		{name: "the first half of the time line is dropped", events: []Event{
			{atMinute(20), "restored", "from checkpoint 7"}, {atMinute(30), "checkpoint", "8 (asked), in 1s"}, {atMinute(31), "ended", ""},
		}, want: Work{Made: 1, Longest: time.Second, Capturing: time.Second}},
		{name: "texts that mean nothing", events: []Event{{atMinute(1), "checkpoint", "soon"}, {atMinute(2), "restored", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CountWork(tt.events, tt.runs); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestParseRuns: runs come in their order, whatever a comment has in it.
func TestParseRuns(t *testing.T) {
	got := ParseRuns("alice|RUNNING|300|400|Unknown|50|n2|gres/gpu:a100=2,gres/gpu:h100=1|\n" +
		"alice|PREEMPTED|100|150|300|150|n1|billing=1,gres/gpu=2,gres/gpu:a100=2|a | b\nline|two\n" +
		"alice|CANCELLED by 7|500|None|560|0|None assigned||\nalice|X|1|2|3|much|n1||\n")
	want := []Run{
		{"alice", "PREEMPTED", time.Unix(100, 0), time.Unix(150, 0), time.Unix(300, 0), 150 * time.Second, "n1", 2, "a | b"},
		{"alice", "RUNNING", time.Unix(300, 0), time.Unix(400, 0), time.Time{}, 50 * time.Second, "n2", 3, ""},
		{"alice", "CANCELLED by 7", time.Unix(500, 0), time.Time{}, time.Unix(560, 0), 0, "", 0, ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	totals := AddRuns(got, time.Unix(1000, 0))
	if want := (Totals{Runs: 2, Moves: 1, Ran: 200 * time.Second, Waited: 210 * time.Second, GPUTime: 450 * time.Second}); totals != want {
		t.Errorf("got  %+v\nwant %+v", totals, want)
	}
}

// FuzzParseRuns: nothing that sacct could print makes the sums panic or negative.
func FuzzParseRuns(f *testing.F) {
	f.Add("alice|RUNNING|300|400|Unknown|50|n2|gres/gpu=2|comment\n")
	f.Add("a|b|99999999999|1|1|-1|n|gres/gpu=-5|\n")
	f.Fuzz(func(t *testing.T, printed string) {
		if totals := AddRuns(ParseRuns(printed), then); totals.Runs < 0 || totals.Moves > totals.Runs || totals.Waited < 0 {
			t.Errorf("%q: %+v", printed, totals)
		}
	})
}
