// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Error is a dump or a restore that did not work.
type Error struct {
	Op  string // "dump" or "restore"
	PID int    // root of the tree
	// Obstacle names, in the user's words, the part of the program that cannot be dumped or restored; "" if the error has
	// another cause.
	Obstacle string
	Lines    []string // CRIU's errors, the first is the oldest
	Log      string   // the end of CRIU's log, for the administrator
	Err      error    // the cause: the error of ctx, of a Sink or of a Source, how criu ended, or ErrNotNow with that
}

func (e *Error) Error() string {
	what := fmt.Sprintf("%s of process %d", e.Op, e.PID)
	switch {
	case e.Obstacle != "":
		return what + ": " + e.Obstacle
	case len(e.Lines) > 0 && errors.As(e.Err, new(*exec.ExitError)):
		return fmt.Sprintf("%s: %v: criu: %s", what, e.Err, strings.Join(e.Lines[:min(len(e.Lines), 3)], "; "))
	}
	return fmt.Sprintf("%s: %v", what, e.Err)
}

// Unwrap makes errors.Is with the context's error, a Sink's or a Source's work.
func (e *Error) Unwrap() error { return e.Err }

// failureOf makes the Error of an operation on p that ended with err.
func (s *criuRun) failureOf(op string, p Program, err error) *Error {
	e := &Error{Op: op, PID: p.PID, Log: s.log.lastLines(), Err: err}
	var changed *ChangedError
	if errors.As(err, &changed) {
		e.Obstacle = changed.Error()
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		e.Obstacle = refused.Error()
	}
	complaints := s.log.allComplaints()
	for _, c := range complaints {
		e.Lines = append(e.Lines, c.text)
	}
	var exit *exec.ExitError
	if len(complaints) == 0 || !errors.As(s.firstFailure(), &exit) {
		return e // broken off by us: criu's complaints only follow from that
	}
	members, _ := membersOf(p.Init) // names only improve the message
	for i := range complaints {
		complaints[i] = complaints[i].addLink(members)
	}
	var soon bool
	e.Obstacle, soon = explainComplaints(complaints, func(pid int) string { return cmp.Or(s.log.processName(pid), members[pid].name) })
	if soon && op == "dump" {
		e.Err = fmt.Errorf("%w: %w", ErrNotNow, err)
	}
	if e.Obstacle == "" && op == "dump" {
		e.Obstacle = findSilent(members, p.PID)
	}
	return e
}
