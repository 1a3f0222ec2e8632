// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestMain is also the main of the processes that the tests kill.
func TestMain(m *testing.M) {
	if life := lives[os.Getenv("JOURNAL_LIFE")]; life != nil {
		os.Exit(life(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// openJournal opens a journal, with the mandate.
func openJournal(t *testing.T, path string) *Journal {
	t.Helper()
	j := openUnchecked(t, path)
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return j
}

func openUnchecked(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), path, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func freshJournal(t *testing.T) *Journal {
	t.Helper()
	return openJournal(t, filepath.Join(t.TempDir(), "preemptd.db"))
}

var preempt = Request{Kind: "preempt", Job: 812, Args: json.RawMessage(`{"hold":true}`), Who: "alice", Why: "room for 813"}

func TestAction(t *testing.T) {
	j := freshJournal(t)
	a, err := j.Begin(t.Context(), preempt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(t.Context(), preempt); !errors.Is(err, ErrBusy) {
		t.Errorf("a second action of the job: %v", err)
	}
	old := a
	a.Step, a.Memo = "requeue", json.RawMessage(`{"restarts":3}`)
	if err := j.Save(t.Context(), &a, "looked"); err != nil {
		t.Fatal(err)
	}
	if err := j.Save(t.Context(), &old, "late"); !errors.Is(err, ErrStale) {
		t.Errorf("an old copy was saved: %v", err)
	}
	all, err := j.Unfinished(t.Context())
	if err != nil || len(all) != 1 || !sameAction(all[0], a) {
		t.Errorf("unfinished: %v\n%+v\nwant %+v", err, all, a)
	}
	a.State, a.Problem = Dropped, "it was cancelled"
	if err := j.Save(t.Context(), &a, "it was cancelled"); err != nil {
		t.Fatal(err)
	}
	if a.Ended.IsZero() {
		t.Error("the action has no end")
	}
	if err := j.Save(t.Context(), &a, "again"); !errors.Is(err, ErrStale) {
		t.Errorf("an ended action was saved: %v", err)
	}
	lines, err := j.Lines(t.Context(), a.ID)
	if err != nil || len(lines) != 3 || lines[1].Step != "requeue" || lines[1].Text != "looked" || lines[2].State != Dropped {
		t.Errorf("Lines: %v, %+v, want 3 lines", err, lines)
	}
	if _, err := j.Begin(t.Context(), preempt); err != nil {
		t.Errorf("an action after the end of the first: %v", err)
	}
	if past, err := j.History(t.Context(), 812, 10); err != nil || len(past) != 2 || past[0].ID <= past[1].ID {
		t.Errorf("history: %v %+v", err, past)
	}
	if _, err := j.Action(t.Context(), 99); !errors.Is(err, ErrNoAction) {
		t.Error(err)
	}
}

// sameAction compares as the database can: to the nanosecond, without a monotonic clock.
func sameAction(a, b Action) bool {
	for _, x := range []*Action{&a, &b} {
		for _, at := range []*time.Time{&x.Created, &x.StepBegan, &x.NotBefore, &x.Ended} {
			*at = fromUnixNano(unixNano(*at))
		}
	}
	return reflect.DeepEqual(a, b)
}

func TestLatest(t *testing.T) {
	j := freshJournal(t)
	for _, state := range []State{Done, Done, Undone, Going} {
		a, err := j.Begin(t.Context(), preempt)
		if err != nil {
			t.Fatal(err)
		}
		if a.State = state; state.Ended() {
			if err := j.Save(t.Context(), &a, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all, err := j.Latest(t.Context()); err != nil || len(all) != 1 || all[0].ID != 2 {
		t.Errorf("Latest = %v, %+v, want action 2 alone", err, all)
	}
	past, err := j.History(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if tried, err := j.Tried(t.Context()); err != nil || len(tried) != 1 || past[1].State != Undone || !tried[preempt.Job].Equal(past[1].Ended) {
		t.Errorf("%v %v, the last that ended is %+v", err, tried, past[1])
	}
}

func TestStepBegan(t *testing.T) {
	j := freshJournal(t)
	at := time.Unix(1000, 0)
	j.now = func() time.Time { return at }
	a, err := j.Begin(t.Context(), preempt)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		step string
		want int64
	}{{"park", 1001}, {"park", 1001}, {"release", 1003}} {
		at = at.Add(time.Second)
		a.Step = c.step
		if err := j.Save(t.Context(), &a, ""); err != nil || a.StepBegan.Unix() != c.want {
			t.Errorf("%d: %v: began at %d, want %d", i, err, a.StepBegan.Unix(), c.want)
		}
	}
}

func TestOriginAndEvents(t *testing.T) {
	j := freshJournal(t)
	for _, shape := range []string{`{"nodes":1}`, `{"nodes":2}`} {
		if err := j.SetOrigin(t.Context(), 7, json.RawMessage(shape)); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Origin(t.Context(), 7); err != nil || string(got) != shape {
			t.Error(err, string(got))
		}
	}
	if all, err := j.Origins(t.Context()); err != nil || len(all) != 1 || string(all[7]) != `{"nodes":2}` {
		t.Error(err, all)
	}
	if got, err := j.Origin(t.Context(), 8); err != nil || got != nil {
		t.Error(err, got)
	}
	e := Event{Job: 7, Restarts: 1, What: "preempted", At: time.Unix(50, 0), Text: "by Slurm"}
	for range 2 {
		if err := j.Note(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := j.Events(t.Context(), 7, 10); err != nil || !reflect.DeepEqual(all, []Event{e}) {
		t.Errorf("Events after the same Note twice: %v, %+v, want one event", err, all)
	}
}

func TestForget(t *testing.T) {
	j := freshJournal(t)
	now := time.Unix(1000, 0)
	j.now = func() time.Time { return now }
	ended := func(job int64) Action {
		r := preempt
		r.Job = job
		a, err := j.Begin(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for job := int64(1); job <= 4; job++ {
		if err := j.SetOrigin(t.Context(), job, json.RawMessage("{}")); err != nil {
			t.Fatal(err)
		}
	}
	past := ended(1)
	past.State = Done
	if err := j.Save(t.Context(), &past, ""); err != nil {
		t.Fatal(err)
	}
	ended(2) // this action has not ended
	if err := j.Note(t.Context(), Event{Job: 3, What: "requeued", At: now}); err != nil {
		t.Fatal(err)
	}
	if err := j.Forget(t.Context(), now.Add(time.Second), []int64{3}); err != nil {
		t.Fatal(err)
	}
	left, err := j.History(t.Context(), 0, 10)
	if err != nil || len(left) != 1 || left[0].Job != 2 {
		t.Errorf("actions: %v %+v", err, left)
	}
	if lines, err := j.Lines(t.Context(), past.ID); err != nil || lines != nil {
		t.Errorf("lines of a forgotten action: %v %v", err, lines)
	}
	if events, err := j.Events(t.Context(), 0, 10); err != nil || events != nil {
		t.Errorf("events: %v %v", err, events)
	}
	for job, want := range map[int64]bool{1: false, 2: true, 3: true, 4: false} {
		if got, err := j.Origin(t.Context(), job); err != nil || (got != nil) != want {
			t.Errorf("origin of job %d: %v %s", job, err, got)
		}
	}
}

func TestMandate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preemptd.db")
	first := openJournal(t, path)
	second := openUnchecked(t, path)
	now, err := second.Take(t.Context())
	if err != nil || now.Mine || now.Name != ourName() {
		t.Fatalf("Take while the first has the mandate: %v, %+v", err, now)
	}
	if _, err := second.Begin(t.Context(), preempt); !errors.Is(err, ErrLost) {
		t.Errorf("a write without the mandate: %v", err)
	}
	if err := first.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	// The first stands still for longer than the mandate lives.
	expireMandate(t, first)
	if now, err := second.Take(t.Context()); err != nil || !now.Mine || now.Term != 2 {
		t.Fatalf("Take after the mandate expired: %v, %+v, want term 2 of this process", err, now)
	}
	for name, err := range map[string]error{"renew": first.Renew(t.Context()), "begin": second1(first.Begin(t.Context(), preempt))} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s without the mandate, which was lost: %v", name, err)
		}
	}
	if _, err := second.Begin(t.Context(), preempt); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if now, err := first.Take(t.Context()); err != nil || !now.Mine || now.Term != 3 {
		t.Errorf("a mandate that was given back: %v %+v", err, now)
	}
}

func second1[T any](_ T, err error) error { return err }

// expireMandate lets the mandate run out.
func expireMandate(t *testing.T, j *Journal) {
	t.Helper()
	if _, err := j.database().Exec("UPDATE lease SET renewed = renewed - ?", int64(mandateLife+time.Second)); err != nil {
		t.Fatal(err)
	}
}

// A mandate that ran out unnoticed is not lost.
func TestMandateLate(t *testing.T) {
	j := freshJournal(t)
	expireMandate(t, j)
	if err := j.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := j.Mandate(t.Context()); err != nil || now.Expired || !now.Mine {
		t.Errorf("mandate after a late Renew: %v, %+v", err, now)
	}
}

func TestMandateOfEarlierBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preemptd.db")
	first := openJournal(t, path)
	if _, err := first.database().Exec("UPDATE lease SET boot = 'another', renewed = renewed + 1000000000000"); err != nil {
		t.Fatal(err)
	}
	if now, err := openUnchecked(t, path).Take(t.Context()); err != nil || !now.Mine {
		t.Errorf("Take of a mandate of an earlier boot: %v, %+v, want ours", err, now)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database, but text ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	j := openJournal(t, newer)
	if _, err := j.database().Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	j.Close()
	other := filepath.Join(dir, "other.db")
	openJournal(t, other).Close()
	for name, c := range map[string]struct {
		path, cluster string
		want          error
		said          string
	}{
		"no folder":       {filepath.Join(dir, "none", "none", "x.db"), "test", os.ErrNotExist, "no such file or directory"},
		"a folder":        {dir, "test", nil, "is a directory"},
		"no database":     {garbage, "test", ErrDamaged, "move it away"},
		"newer":           {newer, "test", ErrNewer, "its version is 99"},
		"another cluster": {other, "elsewhere", ErrForeign, `it is of "test", and this is "elsewhere"`},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := Open(t.Context(), c.path, c.cluster)
			if err == nil {
				j.Close()
				t.Fatal("Open returned no error")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), c.path) {
				t.Error(err)
			}
		})
	}
}

// Names of folders are not options of SQLite's.
func TestPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?_journal_mode=OFF#%41")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, filepath.Join(dir, "x.db"))
	if _, err := j.Begin(t.Context(), preempt); err != nil {
		t.Fatal(err)
	}
	j.Close()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "x.db" {
		t.Errorf("folder after Close: %v, %v, want x.db alone", err, names)
	}
}

func TestDurability(t *testing.T) {
	j := freshJournal(t)
	var mode, sync string
	if err := errors.Join(j.database().QueryRow("PRAGMA journal_mode").Scan(&mode), j.database().QueryRow("PRAGMA synchronous").Scan(&sync)); err != nil || mode != "wal" || sync != "2" {
		t.Errorf("%v: journal mode %s, synchronous %s", err, mode, sync)
	}
}

// checkIntegrity makes SQLite's own check, and checks the revisions of actions against their lines.
func checkIntegrity(t *testing.T, j *Journal) {
	t.Helper()
	var ok string
	if err := j.database().QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Fatalf("integrity: %v %s", err, ok)
	}
	var id int64
	err := j.database().QueryRow(`SELECT id FROM action WHERE revision <> (SELECT max(revision) FROM line WHERE action = id)
		OR revision + 1 <> (SELECT count(*) FROM line WHERE action = id)`).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("action %d and its lines: %v", id, err)
	}
}

// A journal keeps its id, and no two have the same.
func TestID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var ids []string
	for _, p := range []string{path, path, filepath.Join(t.TempDir(), "b.db")} {
		j, err := Open(t.Context(), p, "test")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID())
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids[0]) != 8 || ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("ids of two files, the first opened twice: %q", ids)
	}
}

// TestOlderSchema: a journal of version 1, without owners of jobs, is brought to this version with its rows.
func TestOlderSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "older.db")
	j := openJournal(t, path)
	a, err := j.Begin(t.Context(), Request{Kind: "preempt", Job: 7, User: "alice", Who: "policy tiers"})
	if err == nil {
		err = j.Note(t.Context(), Event{Job: 7, User: "alice", Restarts: 1, What: "requeued", At: time.Unix(1, 0), Text: "by itself"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"ALTER TABLE action DROP COLUMN user", "ALTER TABLE event DROP COLUMN user", "PRAGMA user_version = 1"} {
		if _, err := j.database().Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	j = openJournal(t, path)
	events, err := j.Events(t.Context(), 0, 10)
	if err != nil || len(events) != 1 || events[0].User != "" || events[0].Text != "by itself" {
		t.Errorf("events %+v, %v, want the one of before, without an owner", events, err)
	}
	all, err := j.History(t.Context(), 7, 10)
	if err != nil || len(all) != 1 || all[0].ID != a.ID || all[0].User != "" {
		t.Errorf("actions %+v, %v, want the one of before, without an owner", all, err)
	}
	if err := j.Note(t.Context(), Event{Job: 8, User: "bob", What: "requeued"}); err != nil {
		t.Fatal(err)
	}
	if events, err = j.Events(t.Context(), 8, 10); err != nil || len(events) != 1 || events[0].User != "bob" {
		t.Errorf("a new event %+v, %v, want its owner, bob", events, err)
	}
}
