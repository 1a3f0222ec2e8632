// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Error is a dump or a restore that did not work.
type Error struct {
	Op  string // "dump" or "restore"
	PID int    // root of the tree
	// Obstacle names, in the user's words, the part of the program that cannot be dumped or restored; "" if the error has
	// another cause.
	Obstacle string
	Part     *Part    // what of the program the obstacle is; nil if there is none, or if the node lacks something
	Lines    []string // CRIU's errors, the first is the oldest
	Log      string   // the end of CRIU's log, for the administrator
	Err      error    // the cause: the error of ctx, of a Sink or of a Source, how criu ended, or ErrNotNow with that
}

func (e *Error) Error() string {
	what := fmt.Sprintf("%s of process %d", e.Op, e.PID)
	said := strings.Join(e.listCauses(), "; ")
	switch {
	case e.Obstacle != "" && e.Part != nil && e.Part.Cure != "":
		return what + ": " + said + ": " + e.Part.Cure
	case e.Obstacle != "":
		return what + ": " + said
	case said != "":
		return fmt.Sprintf("%s: %v: criu: %s", what, e.Err, said)
	}
	return fmt.Sprintf("%s: %v", what, e.Err)
}

// listCauses returns the messages that say why criu has failed: the obstacle, or criu's first errors if criu ended by itself.
func (e *Error) listCauses() []string {
	switch {
	case e.Obstacle != "":
		return []string{e.Obstacle}
	case errors.As(e.Err, new(*exec.ExitError)):
		return e.Lines[:min(len(e.Lines), 3)]
	}
	return nil
}

// Unwrap makes errors.Is with the context's error, a Sink's or a Source's work.
func (e *Error) Unwrap() error { return e.Err }

// errnoTexts are the numbers in criu's messages by which a caller knows that a file server, the network or the node was
// away or too busy, as the C library writes them.
var errnoTexts = map[string]syscall.Errno{
	"Input/output error":                            syscall.EIO,
	"Remote I/O error":                              syscall.EREMOTEIO,
	"Stale file handle":                             syscall.ESTALE,
	"Transport endpoint is not connected":           syscall.ENOTCONN,
	"Cannot send after transport endpoint shutdown": syscall.ESHUTDOWN,
	"Connection timed out":                          syscall.ETIMEDOUT,
	"Host is down":                                  syscall.EHOSTDOWN,
	"No route to host":                              syscall.EHOSTUNREACH,
	"Network is down":                               syscall.ENETDOWN,
	"Network is unreachable":                        syscall.ENETUNREACH,
	"Connection refused":                            syscall.ECONNREFUSED,
	"Connection reset by peer":                      syscall.ECONNRESET,
	"Resource temporarily unavailable":              syscall.EAGAIN,
	"Cannot allocate memory":                        syscall.ENOMEM,
	"Too many open files in system":                 syscall.ENFILE,
}

// Is has errors.Is find a number of errnoTexts with which a message in the error's text ends. A name of a file, which
// comes before the number, cannot be taken for a number.
func (e *Error) Is(target error) bool {
	errno, ok := target.(syscall.Errno)
	return ok && slices.ContainsFunc(e.listCauses(), func(message string) bool {
		parts := strings.Split(message, ": ")
		found, ok := errnoTexts[parts[len(parts)-1]]
		return ok && found == errno
	})
}

// failureOf makes the Error of an operation on p that ended with err.
func (s *criuRun) failureOf(op string, p Program, err error) *Error {
	e := &Error{Op: op, PID: p.PID, Log: s.log.lastLines(), Err: err}
	var changed *ChangedError
	if errors.As(err, &changed) {
		e.Obstacle = changed.Error()
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		e.setPart(&refused.part)
	}
	complaints := s.log.allComplaints()
	for _, c := range complaints {
		e.Lines = append(e.Lines, c.text)
	}
	var exit *exec.ExitError
	if len(complaints) == 0 || !errors.As(s.firstFailure(), &exit) {
		return e // broken off by us: criu's complaints only follow from that
	}
	members, _ := listMembers(p.Init) // names only improve the message
	for i := range complaints {
		complaints[i] = complaints[i].addLink(members)
	}
	found, ok := explainComplaints(complaints, func(pid int) string { return cmp.Or(s.log.processName(pid), members[pid].name) })
	switch {
	case !ok && op == "dump":
		e.setPart(findHidden(members, p.PID))
	case !ok:
	case found.end == ofNode:
		e.Obstacle = found.part.String()
	default:
		e.setPart(&found.part)
	}
	if found.end == endsSoon && op == "dump" {
		e.Err = fmt.Errorf("%w: %w", ErrNotNow, err)
	}
	return e
}

// setPart has the error name a part of the program, or nothing if part is nil.
func (e *Error) setPart(part *Part) {
	if part != nil {
		e.Part, e.Obstacle = part, part.String()
	}
}
