// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"
)

func newRecord(job uint32) *Record {
	return &Record{Job: job, UID: 1001, Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")}}
}

// TestPast: the time line of a job outlives its record, until forgotten by age.
func TestPast(t *testing.T) {
	folder := Folder{t.TempDir()}
	here, there := NewTimeline(folder, "n1"), NewTimeline(folder, "n2")
	want := []Event{
		{At: time.Unix(1, 0).UTC(), What: EventStarted, Where: "n1"}, {At: time.Unix(2, 0).UTC(), What: EventCheckpoint, Text: "1 (asked), in 1s"},
	}
	rec := newRecord(7)
	rec.BeginAnew, rec.LastNumber = true, 1
	err := errors.Join(folder.Save(rec), there.Write(7, want[1]), here.Write(7, want[0]),
		here.KeepPast(rec), folder.Remove(7), here.Remove(7), here.KeepPast(rec))
	if err != nil {
		t.Fatal(err)
	}
	past, err := there.ReadPast(7)
	if err != nil || past == nil || past.UID != 1001 || !past.NextBeginsAnew || past.LastNumber != 1 || !reflect.DeepEqual(past.Events, want) {
		t.Fatalf("ReadPast after KeepPast = %+v, %v", past, err)
	}
	if all, err := folder.LoadAll(); err != nil || len(all) != 0 {
		t.Errorf("records %v, %v", all, err)
	}
	kept := time.Now()
	if err := here.ForgetPast(kept.Add(47*time.Hour), 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if past, err = here.ReadPast(7); err != nil || past == nil {
		t.Errorf("forgotten too early: %v", err)
	}
	if err := here.ForgetPast(kept.Add(49*time.Hour), 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if past, err = here.ReadPast(7); err != nil || past != nil {
		t.Errorf("the past of the job is not forgotten: %v, %v", past, err)
	}
}

// TestPastBounds: jobs of which Slurm knows as much are kept for a day, and of long time lines the end is kept.
func TestPastBounds(t *testing.T) {
	folder := Folder{t.TempDir()}
	lines := NewTimeline(folder, "n1")
	plain, long := newRecord(7), newRecord(8)
	err := errors.Join(folder.Save(plain), folder.Save(long),
		lines.Write(7, Event{What: EventHeld}), lines.KeepPast(plain), lines.Remove(7), // of a job that had the number before
		lines.Write(7, Event{What: EventStarted}), lines.Write(7, Event{What: EventEnded}), lines.KeepPast(plain))
	for n := range maxPastEvents + 10 {
		err = errors.Join(err, lines.Write(8, Event{At: time.Unix(int64(n), 0), What: EventCheckpoint}))
	}
	if err = errors.Join(err, lines.KeepPast(long)); err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{23 * time.Hour, 25 * time.Hour} {
		want := after < 24*time.Hour
		err := lines.ForgetPast(time.Now().Add(after), 48*time.Hour)
		past, readErr := lines.ReadPast(7)
		if err != nil || readErr != nil || (past != nil) != want || want && past.Events[0].What != EventStarted {
			t.Errorf("after %v: %+v, %v, %v", after, past, err, readErr)
		}
	}
	past, err := lines.ReadPast(8)
	if err != nil || len(past.Events) != maxPastEvents || past.Events[maxPastEvents-1].At.Unix() != maxPastEvents+9 {
		t.Errorf("ReadPast of a long time line: %d events, %v", len(past.Events), err)
	}
}

// TestDamagedPast: a file with other content than KeepPast writes is an error, not a job without events.
func TestDamagedPast(t *testing.T) {
	lines := NewTimeline(Folder{t.TempDir()}, "n1")
	if err := os.MkdirAll(lines.pastFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"job": 8}`} {
		if err := os.WriteFile(lines.pastPath(7), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if past, err := lines.ReadPast(7); err == nil {
			t.Errorf("ReadPast of the damaged file %q = %+v, want an error", text, past)
		}
	}
}

// TestPastStays: while nodes keep a job's time line at the same time, the kept time line can always be read.
func TestPastStays(t *testing.T) {
	folder := Folder{t.TempDir()}
	tl, rec := NewTimeline(folder, "n1"), newRecord(7)
	if err := folder.Save(rec); err != nil {
		t.Fatal(err)
	}
	if err := tl.Write(7, Event{At: time.Now(), What: EventHeld}); err != nil {
		t.Fatal(err)
	}
	if err := tl.KeepPast(rec); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for range 300 {
			err = errors.Join(err, tl.KeepPast(rec))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if past, err := tl.ReadPast(7); err != nil || past == nil {
				t.Errorf("ReadPast while another node keeps the time line = %v, %v", past, err)
				<-done
				return
			}
		}
	}
}
