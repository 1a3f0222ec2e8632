// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
)

// Program is one program of a capsule, as it was when asked.
type Program struct {
	Name     string             // given by its warden, unique in the capsule
	PID      int                // of its steward, in the capsule: the root of what CRIU dumps
	First    int                // of the program itself, in the capsule; also its session
	HostPID  int                // of its steward, in the caller's PID namespace; 0 if it has ended
	UID      uint32             // its warden's
	Warden   bool               // its warden is there
	Captured bool               // marked: neither its end nor its warden's has consequences
	Ended    bool               // only of a captured one; others are gone when they have ended
	Status   syscall.WaitStatus // how it ended
}

// Kind says what an Event is about.
type Kind string

// The kinds of events.
const (
	Present  Kind = "present"  // is there; for each program when Watch begins
	Started  Kind = "started"  // was started, or restored
	Waiting  Kind = "waiting"  // a warden waits for a program of this name to be restored; only Name and UID are set
	Left     Kind = "left"     // its warden is gone; if the program is not captured, it is being killed
	Captured Kind = "captured" // a captured program has ended
	Ended    Kind = "ended"    // has ended, and Status was told to its warden if there was one
	Asked    Kind = "asked"    // its warden asks for a Signal which init holds back (Spec.Hold)
)

// Event is a change of one program.
type Event struct {
	Kind    Kind
	Program Program
	Signal  syscall.Signal // Asked only
}

// conn names a warden's connection; 0 is none.
type conn uint64

// What the table wants done, in order.
type (
	say struct { // to a warden
		to   conn
		what message
		with int // PID of which a pidfd goes along, or 0
	}
	kill struct{ pid, first int } // a program; pid is 0 when its steward has ended
	send struct {                 // all processes of a program
		pid int
		sig syscall.Signal
	}
	tell    struct{ event Event } // to the maker
	effects []any
)

// RefusedError is why init does not do what it was asked for.
type RefusedError struct {
	Program string
	Errno   syscall.Errno
	Reason  string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("program %q: %s", e.Program, e.Reason) }

// Unwrap makes errors.Is with an errno work.
func (e *RefusedError) Unwrap() error { return e.Errno }

// maxPrograms is far above the tasks of any node, and what fits into one packet.
const maxPrograms = 512

// entry is a program with its warden's connection.
type entry struct {
	Program
	warden conn
}

// table knows the programs of a capsule and decides what becomes of them. It does
// nothing itself: each method returns effects for the caller to carry out. It is not
// safe for concurrent use.
type table struct {
	hold    []syscall.Signal
	byName  map[string]*entry
	waiting map[string]conn // wardens of programs that are to be restored
}

func newTable(hold []syscall.Signal) *table {
	return &table{hold: hold, byName: map[string]*entry{}, waiting: map[string]conn{}}
}

// admit says why a warden may not have a program of that name, or nil.
func (t *table) admit(c conn, name string) error {
	refuse := func(errno syscall.Errno, reason string) error { return &RefusedError{name, errno, reason} }
	switch {
	case t.byName[name] != nil || t.waiting[name] != 0:
		return refuse(syscall.EEXIST, "there is one of this name")
	case t.of(c) != nil || t.waits(c) != "":
		return refuse(syscall.EBUSY, "its warden has one already")
	case len(t.byName)+len(t.waiting) >= maxPrograms:
		return refuse(syscall.EAGAIN, "the capsule is full")
	}
	return nil
}

// start registers a program that c has announced and that waits to be let go. The
// caller has made sure that pid is a child of init which has not been reaped.
func (t *table) start(c conn, name string, pid, first int, uid uint32) (effects, error) {
	if err := t.admit(c, name); err != nil {
		return nil, err
	}
	if t.withPID(pid) != nil {
		return nil, &RefusedError{name, syscall.EEXIST, fmt.Sprintf("PID %d is another program's", pid)}
	}
	e := &entry{Program{Name: name, PID: pid, First: first, UID: uid, Warden: true}, c}
	t.byName[name] = e
	return effects{say{c, message{kind: kindGo}, 0}, tell{e.event(Started)}}, nil
}

// restore registers the warden of a program that somebody restores.
func (t *table) restore(c conn, name string, uid uint32) (effects, error) {
	if err := t.admit(c, name); err != nil {
		return nil, err
	}
	t.waiting[name] = c
	return effects{tell{Event{Kind: Waiting, Program: Program{Name: name, UID: uid, Warden: true}}}}, nil
}

// restored joins a program that was restored to the warden that waits for it. Of pid
// the same holds as in start.
func (t *table) restored(name string, pid, first int, uid uint32) (effects, error) {
	c := t.waiting[name]
	if c == 0 {
		return nil, &RefusedError{name, syscall.ENOENT, "no warden waits for it"}
	}
	if t.withPID(pid) != nil {
		return nil, &RefusedError{name, syscall.EEXIST, fmt.Sprintf("PID %d is another program's", pid)}
	}
	delete(t.waiting, name)
	e := &entry{Program{Name: name, PID: pid, First: first, UID: uid, Warden: true}, c}
	t.byName[name] = e
	return effects{say{c, message{kind: kindGo}, pid}, tell{e.event(Started)}}, nil
}

// reaped learns of every child of init that has ended.
func (t *table) reaped(pid int, status syscall.WaitStatus) effects {
	e := t.withPID(pid)
	if e == nil {
		return nil // an orphan
	}
	e.Ended, e.Status = true, status
	if !e.Captured {
		return t.finish(e)
	}
	out := effects{}
	if e.warden != 0 {
		out = append(out, say{e.warden, message{kind: kindCaptured}, 0})
	}
	return append(out, tell{e.event(Captured)})
}

// finish forgets a program that has ended.
func (t *table) finish(e *entry) effects {
	delete(t.byName, e.Name)
	out := effects{}
	if e.warden != 0 {
		out = append(out, say{e.warden, message{kind: kindStatus, value: int32(e.Status)}, 0})
	}
	if !e.Captured {
		out = append(out, kill{0, e.First}) // if its steward was killed, the rest is not
	}
	return append(out, tell{e.event(Ended)})
}

// hungUp learns that a warden's connection has closed. Of one whose program has
// ended there is nothing to do.
func (t *table) hungUp(c conn) effects {
	if name := t.waits(c); name != "" {
		delete(t.waiting, name)
		return effects{tell{Event{Kind: Left, Program: Program{Name: name}}}}
	}
	e := t.of(c)
	if e == nil {
		return nil
	}
	e.warden, e.Warden = 0, false
	out := effects{tell{e.event(Left)}}
	if !e.Captured {
		out = append(out, kill{e.PID, e.First})
	}
	return out
}

// wanted learns that a warden wants a signal sent. heard says whether a maker would
// hear of it: what is held back with nobody to decide is not held back.
func (t *table) wanted(c conn, sig syscall.Signal, heard bool) effects {
	e := t.of(c)
	if e == nil || e.Ended {
		return nil
	}
	if heard && slices.Contains(t.hold, sig) {
		ev := e.event(Asked)
		ev.Signal = sig
		return effects{tell{ev}}
	}
	return effects{send{e.PID, sig}}
}

// mark makes a program captured, or takes that back. Taken back, everything that was
// withheld happens: the status of one that has ended is told, one without a warden is
// killed.
func (t *table) mark(name string, captured bool) (effects, error) {
	e, err := t.find(name)
	if err != nil {
		return nil, err
	}
	e.Captured = captured
	switch {
	case captured:
		return nil, nil
	case e.Ended:
		return t.finish(e), nil
	case e.warden == 0:
		return effects{kill{e.PID, e.First}}, nil
	}
	return nil, nil
}

// release forgets a captured program that has ended, and ends its warden with status.
func (t *table) release(name string, status syscall.WaitStatus) (effects, error) {
	e, err := t.find(name)
	if err != nil {
		return nil, err
	}
	if !e.Captured || !e.Ended {
		return nil, &RefusedError{name, syscall.EBUSY, "has not been captured"}
	}
	e.Status = status
	return t.finish(e), nil
}

// force kills a program on the maker's word, or sends it a signal.
func (t *table) force(name string, sig syscall.Signal) (effects, error) {
	e, err := t.find(name)
	switch {
	case err != nil:
		return nil, err
	case e.Ended:
		return nil, nil
	case sig == syscall.SIGKILL:
		return effects{kill{e.PID, e.First}}, nil
	}
	return effects{send{e.PID, sig}}, nil
}

// programs returns all, ordered by name.
func (t *table) programs() []Program {
	all := make([]Program, 0, len(t.byName))
	for _, e := range t.byName {
		all = append(all, e.Program)
	}
	slices.SortFunc(all, func(a, b Program) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// present returns the events with which a new watcher begins.
func (t *table) present() []Event {
	var all []Event
	for _, p := range t.programs() {
		all = append(all, Event{Kind: Present, Program: p})
	}
	for name := range t.waiting {
		all = append(all, Event{Kind: Waiting, Program: Program{Name: name, Warden: true}})
	}
	return all
}

func (t *table) find(name string) (*entry, error) {
	if e := t.byName[name]; e != nil {
		return e, nil
	}
	return nil, &RefusedError{name, syscall.ENOENT, "no such program"}
}

func (t *table) of(c conn) *entry {
	for _, e := range t.byName {
		if e.warden == c {
			return e
		}
	}
	return nil
}

func (t *table) waits(c conn) string {
	for name, w := range t.waiting {
		if w == c {
			return name
		}
	}
	return ""
}

func (t *table) withPID(pid int) *entry {
	for _, e := range t.byName {
		if e.PID == pid && !e.Ended {
			return e
		}
	}
	return nil
}

func (e *entry) event(k Kind) Event { return Event{Kind: k, Program: e.Program} }

// String is for messages and golden files.
func (e Event) String() string {
	b, _ := json.Marshal(e) // plain fields: cannot fail
	return string(b)
}
