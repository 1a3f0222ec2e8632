// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"cmp"
	"slices"
	"syscall"
)

// entry is a program with its warden's connection.
type entry struct {
	Program
	warden    conn
	life      stage
	withheld  []syscall.Signal // until the maker decides, in the order in which the warden requested them
	suspended bool             // by Slurm, through the warden
}

// stage is how far an entry's end has come. A program with a cgroup is not forgotten, and its warden is not told of the
// end, before the cgroup is gone: otherwise Slurm's own cleaning up, which begins at the warden's end, would find the
// cgroup.
type stage int

const (
	staying  stage = iota // or waiting to be restored
	sweeping              // has ended; its cgroup is being removed
	swept
)

// listPrograms returns all programs, ordered by name.
func (t *table) listPrograms() []Program {
	all := make([]Program, 0, len(t.byName))
	for _, e := range t.byName {
		p := e.Program
		switch {
		case e.life == sweeping && e.Captured:
			p.Ended = false // the program cannot be released yet
		case e.life == sweeping:
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Program) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// firstEvents returns the first events for a new watcher.
func (t *table) firstEvents() []Event {
	var all []Event
	for _, p := range t.listPrograms() {
		kind := Present
		if p.Waiting {
			kind = Waiting
		}
		all = append(all, Event{Kind: kind, Program: p})
		if e := t.byName[p.Name]; !e.Ended {
			for _, sig := range e.withheld {
				all = append(all, e.signalEvent(sig))
			}
		}
	}
	return all
}

// findProgram returns a program that runs or was captured.
func (t *table) findProgram(name string) (*entry, error) {
	e := t.byName[name]
	switch {
	case e == nil:
		return nil, &RefusedError{name, syscall.ENOENT, "no such program"}
	case e.Waiting:
		return nil, &RefusedError{name, syscall.ENOENT, "waits to be restored"}
	}
	return e, nil
}

func (t *table) entryOf(c conn) *entry {
	for _, e := range t.byName {
		if e.warden == c {
			return e
		}
	}
	return nil
}

func (t *table) withPID(pid int) *entry {
	for _, e := range t.byName {
		if e.PID == pid && pid != 0 && !e.Ended {
			return e
		}
	}
	return nil
}

// signalEvent returns the event for a withheld signal.
func (e *entry) signalEvent(sig syscall.Signal) Event {
	ev := e.newEvent(SignalWithheld)
	ev.Signal = sig
	return ev
}

func (e *entry) newEvent(k Kind) Event { return Event{Kind: k, Program: e.Program} }

func (e *entry) newKill() kill { return kill{e.PID, e.First, e.Cgroup} }
