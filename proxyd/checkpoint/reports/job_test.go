// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// subject is a job with a file as its log. The reports of the job are written when the test asks for them.
type subject struct {
	meter  *eventMeter
	script *Script
	opened int
	dir    string                  // of the job's record; "": no record
	later  []func(context.Context) // if dir is set: what was started in the background
}

func (s *subject) Services() Services {
	if s.dir != "" {
		return Services{
			Timeline: records.NewTimeline(records.Folder{Dir: s.dir}, "n1"), Meter: s.meter,
			StartBackground: func(f func(context.Context)) { s.later = append(s.later, f) },
		}
	}
	return Services{
		Timeline: records.NewTimeline(records.Folder{Dir: "/nonexistent"}, "n1"), Meter: s.meter,
		StartBackground: func(f func(context.Context)) { f(context.Background()) },
	}
}

func (s *subject) SlurmName() string { return "7" }

func (s *subject) Log() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (s *subject) OpenScript(context.Context) (*Script, error) {
	if s.opened++; s.script == nil {
		return nil, errors.New("the script has ended")
	}
	return s.script, nil
}

// eventMeter remembers the events.
type eventMeter struct {
	NoMeter
	events []string
}

func (m *eventMeter) Event(what string) { m.events = append(m.events, what) }

// TestMeter: the Meter gets each event, also if the time line cannot be written.
func TestMeter(t *testing.T) {
	s := &subject{meter: &eventMeter{}}
	var j Job
	j.Init(7, s)
	j.AddEvent(records.EventHeld, nil, "")
	j.AddEvent(records.EventRestored, nil, "")
	if !slices.Equal(s.meter.events, []string{records.EventHeld, records.EventRestored}) {
		t.Errorf("the meter got %q", s.meter.events)
	}
}

// TestOrderOfEvents: the time line has events of the same moment in the order in which they happened, whichever is written first, and
// no event with a time that is still to come.
func TestOrderOfEvents(t *testing.T) {
	s := &subject{meter: &eventMeter{}, dir: t.TempDir()}
	folder := records.Folder{Dir: s.dir}
	if err := os.WriteFile(folder.Path(7), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var j Job
	j.Init(7, s)
	var want []string
	for n := range 100 {
		what := fmt.Sprint("event ", n)
		j.AddEvent(what, nil, "")
		want = append(want, what)
	}
	now := time.Now()
	var all sync.WaitGroup
	for _, f := range slices.Backward(s.later) {
		all.Go(func() { f(t.Context()) })
	}
	all.Wait()
	events, err := s.Services().Timeline.Read(7)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, e.What)
		if e.At.After(now) {
			t.Errorf("%s at %s happened before %s", e.What, e.At, now)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the time line has\n%q, want\n%q", got, want)
	}
}

// TestLogLines: the log of a job has each line, without the job's number and in a single line; the start line and the
// line about an obstacle once.
func TestLogLines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it writes as the user of a job")
	}
	path := filepath.Join(t.TempDir(), "slurm-7.out")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	script := exec.Command("cat") // until its input ends
	script.Stderr = log
	input, err := script.StdinPipe()
	if err == nil {
		err = script.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		input.Close()
		_ = script.Wait()
	}()
	s := &subject{meter: &eventMeter{}, script: &Script{PID: script.Process.Pid, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	var j Job
	j.Init(7, s)
	j.SetStartLine("begins anew")
	for range 2 {
		j.WriteStartLine()
		j.TellObstacle(t.Context(), "job 7: a terminal\nand a device")
	}
	got, err := os.ReadFile(path)
	want := "singularity: begins anew\nsingularity: no checkpoint can be made: a terminal; and a device; singctl show 7 says more\n"
	if err != nil || string(got) != want {
		t.Errorf("the log has %q, error %v, want %q", strings.TrimSpace(string(got)), err, want)
	}
	if s.opened != 2 {
		t.Errorf("the script was looked for %d times, want 2", s.opened)
	}
}
