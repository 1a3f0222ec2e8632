// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
)

// conn numbers a warden's connection; 0: no connection.
type conn uint64

// Effects that the table requests, in order.
type (
	say struct { // to a warden
		to   conn
		what message
		with int // PID of which the pidfd is sent along, or 0
	}
	kill struct { // a program, by its cgroup if there is one; pid is 0 when its steward has ended
		pid, first int
		cgroup     string
	}
	sweep struct { // kill the processes left in the cgroup and remove it; then call handleSweptCgroup
		name, cgroup string
		ended        bool // the program has ended; else it was not restored
	}
	send struct { // all processes of a program
		pid int
		sig syscall.Signal
	}
	tell    struct{ event Event } // to the maker
	effects []any
)

// maxPrograms is far above the tasks of any node, and fits into one packet.
const maxPrograms = 512

// maxEnded bounds the remembered ends of programs.
const maxEnded = 4096

// table knows the programs of a capsule and decides about them. A table acts only through the
// effects that its methods return for the caller to carry out. A table is not safe for concurrent
// use.
type table struct {
	hold   []syscall.Signal
	byName map[string]*entry
	ended  map[string]syscall.WaitStatus
	order  []string // names in ended, oldest first
}

func newTable(hold []syscall.Signal) *table {
	return &table{hold: hold, byName: map[string]*entry{}, ended: map[string]syscall.WaitStatus{}}
}

// checkAdmitted returns an error if a warden may not have a program of that name with steward pid. pid is 0 for a
// program that is to be restored.
func (t *table) checkAdmitted(c conn, name string, pid int) error {
	refuse := func(errno syscall.Errno, reason string) error { return &RefusedError{name, errno, reason} }
	switch {
	case t.byName[name] != nil:
		return refuse(syscall.EEXIST, "there is one of this name")
	case t.entryOf(c) != nil:
		return refuse(syscall.EBUSY, "its warden has one already")
	case len(t.byName) >= maxPrograms:
		return refuse(syscall.EAGAIN, "the capsule is full")
	case t.withPID(pid) != nil:
		return refuse(syscall.EEXIST, fmt.Sprintf("PID %d is another program's", pid))
	}
	return nil
}

// startProgram registers a program that c has announced and that waits to run. The caller has checked
// that p.PID is an unreaped child of init.
func (t *table) startProgram(c conn, p Program) (effects, error) {
	if err := t.checkAdmitted(c, p.Name, p.PID); err != nil {
		return nil, err
	}
	p.Warden = true
	e := &entry{Program: p, warden: c}
	t.byName[p.Name] = e
	t.forgetStatus(p.Name)
	return effects{say{c, message{kind: kindGo}, 0}, tell{e.newEvent(Started)}}, nil
}

// awaitRestore registers the warden of a program that is to be restored.
func (t *table) awaitRestore(c conn, p Program) (effects, error) {
	if err := t.checkAdmitted(c, p.Name, 0); err != nil {
		return nil, err
	}
	p.Warden, p.Waiting = true, true
	e := &entry{Program: p, warden: c}
	t.byName[p.Name] = e
	t.forgetStatus(p.Name)
	return effects{tell{e.newEvent(Waiting)}}, nil
}

// findAwaited returns the program of that name that is to be restored.
func (t *table) findAwaited(name string) (*entry, error) {
	if e := t.byName[name]; e != nil && e.Waiting && e.life == staying {
		return e, nil
	}
	return nil, &RefusedError{name, syscall.ENOENT, "no warden waits for it"}
}

// joinRestored joins a restored program to its waiting warden. The caller has checked pid as for
// startProgram.
func (t *table) joinRestored(name string, pid, first int) (effects, error) {
	e, err := t.findAwaited(name)
	if err != nil {
		return nil, err
	}
	if t.withPID(pid) != nil {
		return nil, &RefusedError{name, syscall.EEXIST, fmt.Sprintf("PID %d is another program's", pid)}
	}
	e.Waiting, e.PID, e.First = false, pid, first
	return effects{say{e.warden, message{kind: kindGo}, pid}, tell{e.newEvent(Started)}}, nil
}

// orderInput tells a program's warden how much standard input to take.
func (t *table) orderInput(name string, all bool) (effects, error) {
	e, err := t.findProgram(name)
	if err != nil || e.warden == 0 {
		return nil, err
	}
	m := message{kind: kindInput}
	if all {
		m.value = 1
	}
	return effects{say{e.warden, m, 0}}, nil
}

// handleReapedChild is called for every child of init that has ended.
func (t *table) handleReapedChild(pid int, status syscall.WaitStatus) effects {
	e := t.withPID(pid)
	if e == nil {
		return nil // an orphan
	}
	e.Ended, e.Status = true, status
	return t.endProgram(e)
}

// endProgram begins the end of a program that has lost its steward, or that will not be restored.
func (t *table) endProgram(e *entry) effects {
	if e.Cgroup != "" {
		e.life = sweeping
		return effects{sweep{e.Name, e.Cgroup, e.Ended}}
	}
	return t.settleEnd(e)
}

// handleSweptCgroup is called when the cgroup of a program is gone.
func (t *table) handleSweptCgroup(name string) effects {
	e := t.byName[name]
	if e == nil || e.life != sweeping {
		return nil
	}
	e.life, e.Cgroup = swept, ""
	return t.settleEnd(e)
}

// settleEnd returns the effects of a program's end: its warden and the watchers are told. The program is forgotten
// unless it is captured.
func (t *table) settleEnd(e *entry) effects {
	switch {
	case e.Waiting: // the warden gave up
		delete(t.byName, e.Name)
		return effects{tell{e.newEvent(Left)}}
	case !e.Captured:
		return t.forgetProgram(e)
	}
	out := effects{}
	if e.warden != 0 {
		out = append(out, say{e.warden, message{kind: kindCaptured}, 0})
	}
	return append(out, tell{e.newEvent(Captured)})
}

// forgetProgram forgets a program that has ended.
func (t *table) forgetProgram(e *entry) effects {
	delete(t.byName, e.Name)
	out := effects{}
	if e.warden != 0 {
		out = append(out, say{e.warden, message{kind: kindStatus, value: int32(e.Status)}, 0})
	}
	if !e.Captured {
		t.rememberStatus(e.Name, e.Status)
		if e.life != swept {
			out = append(out, kill{0, e.First, ""}) // if the steward was killed, the rest of the program still runs
		}
	}
	return append(out, tell{e.newEvent(Ended)})
}

// rememberStatus keeps a program's exit status, of the newest maxEnded programs.
func (t *table) rememberStatus(name string, status syscall.WaitStatus) {
	t.forgetStatus(name)
	if len(t.order) >= maxEnded {
		t.forgetStatus(t.order[0])
	}
	t.ended[name] = status
	t.order = append(t.order, name)
}

// endedAfter returns endings in the order of names: the endings after last that fit into a packet.
func (t *table) endedAfter(last string) (some []endedProgram, more bool) {
	for name, status := range t.ended {
		if name > last {
			some = append(some, endedProgram{name, status})
		}
	}
	slices.SortFunc(some, func(a, b endedProgram) int { return cmp.Compare(a.Name, b.Name) })
	n := countFitting(some)
	return some[:n], n < len(some)
}

// forgetStatus drops a program's exit status, if known.
func (t *table) forgetStatus(name string) {
	if _, ok := t.ended[name]; !ok {
		return
	}
	delete(t.ended, name)
	i := slices.Index(t.order, name)
	t.order = slices.Delete(t.order, i, i+1)
}

// handleWardenHangup is called when a warden's connection has closed. It kills the program, unless the program is
// captured or has ended.
func (t *table) handleWardenHangup(c conn) effects {
	e := t.entryOf(c)
	if e == nil {
		return nil
	}
	e.warden, e.Warden, e.WardenPID = 0, false, 0
	if e.Waiting {
		return t.endProgram(e)
	}
	out := effects{tell{e.newEvent(Left)}}
	if !e.Captured && !e.Ended {
		out = append(out, e.newKill())
	}
	return out
}

// requestSignal is called when a warden requests a signal. The signals in hold are withheld until the maker decides, or
// until sendWithheld.
func (t *table) requestSignal(c conn, sig syscall.Signal) effects {
	e := t.entryOf(c)
	if e == nil || e.Ended || e.Waiting {
		return nil
	}
	// The SIGCONT that ends Slurm's own suspension is not withheld: the maker need not decide about that signal.
	hold := slices.Contains(t.hold, sig) && (sig != syscall.SIGCONT || !e.suspended)
	switch sig {
	case syscall.SIGTSTP, syscall.SIGSTOP:
		e.suspended = true
	case syscall.SIGCONT:
		e.suspended = false
	}
	if !hold {
		return effects{send{e.PID, sig}}
	}
	if !slices.Contains(e.withheld, sig) {
		e.withheld = append(e.withheld, sig)
	}
	return effects{tell{e.signalEvent(sig)}}
}

// hasUndecided tells whether the maker's decision about a signal is pending.
func (t *table) hasUndecided() bool {
	for _, e := range t.byName {
		if len(e.withheld) > 0 {
			return true
		}
	}
	return false
}

// sendWithheld sends withheld signals, because there is no maker to decide.
func (t *table) sendWithheld() effects {
	var all effects
	for _, e := range t.byName {
		if !e.Ended {
			for _, sig := range e.withheld {
				all = append(all, send{e.PID, sig})
			}
		}
		e.withheld = nil
	}
	return all
}

// markCaptured marks a program as captured, or unmarks it. Unmarking catches up on the ends that were ignored: the
// status of an ended program is sent, a program without a warden is killed.
func (t *table) markCaptured(name string, captured bool) (effects, error) {
	e, err := t.findProgram(name)
	if err != nil {
		return nil, err
	}
	e.Captured = captured
	switch {
	case captured || e.life == sweeping: // settled later
		return nil, nil
	case e.Ended:
		return t.forgetProgram(e), nil
	case e.warden == 0:
		return effects{e.newKill()}, nil
	}
	return nil, nil
}

// releaseCaptured forgets a captured program that has ended, and ends its warden with status.
func (t *table) releaseCaptured(name string, status syscall.WaitStatus) (effects, error) {
	e, err := t.findProgram(name)
	if err != nil {
		return nil, err
	}
	if !e.Captured || !e.Ended || e.life == sweeping {
		return nil, &RefusedError{name, syscall.EBUSY, "has not been captured"}
	}
	e.Status = status
	return t.forgetProgram(e), nil
}

// forceSignal kills a program by the maker's order, or sends the program a signal.
func (t *table) forceSignal(name string, sig syscall.Signal) (effects, error) {
	e, err := t.findProgram(name)
	switch {
	case err != nil:
		return nil, err
	case e.Ended:
		return nil, nil
	case sig == syscall.SIGKILL:
		return effects{e.newKill()}, nil
	}
	e.withheld = slices.DeleteFunc(e.withheld, func(w syscall.Signal) bool { return w == sig })
	return effects{send{e.PID, sig}}, nil
}
