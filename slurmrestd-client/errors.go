// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The errors of Slurm, by meaning. Compare with errors.Is; the text of the error is Slurm's own.
var (
	ErrAuth             = errors.New("not authenticated")
	ErrAccessDenied     = errors.New("access denied")
	ErrInvalidJobID     = errors.New("no such job")
	ErrJobNotPending    = errors.New("job is not pending")
	ErrJobNotRunning    = errors.New("job is not running")
	ErrJobPending       = errors.New("job is pending")
	ErrJobHeld          = errors.New("job is held")
	ErrJobFinished      = errors.New("job is finished")
	ErrAlreadyDone      = errors.New("already done")
	ErrNoChange         = errors.New("no change")
	ErrDisabled         = errors.New("disabled for this job") // as is a requeue by --no-requeue
	ErrBatchOnly        = errors.New("only for batch jobs")
	ErrNotHetLeader     = errors.New("only for the leader of a heterogeneous job")
	ErrTransition       = errors.New("job is between two states")
	ErrBusy             = errors.New("slurm is busy with this job")
	ErrInvalidNodeName  = errors.New("no such node")
	ErrNodeConfig       = errors.New("no such configuration of nodes")
	ErrNodeState        = errors.New("node cannot go to this state")
	ErrNodeCount        = errors.New("invalid number of nodes")
	ErrInvalidPartition = errors.New("no such partition")
	ErrInvalidQOS       = errors.New("no such qos")
	ErrInvalidAccount   = errors.New("no such account")
	ErrInvalidGRES      = errors.New("invalid gres")
	ErrNoReservation    = errors.New("no such reservation")
	ErrReservationInUse = errors.New("reservation is in use") // by jobs that wait or run
	ErrTimeLimit        = errors.New("invalid time limit")
	ErrPolicy           = errors.New("against accounting policy")
	ErrInvalidRequest   = errors.New("request not understood")
	ErrNotSupported     = errors.New("not supported by this cluster")
	ErrController       = errors.New("slurmctld does not answer")
	ErrDatabase         = errors.New("slurmdbd does not answer")
)

// Errors of the way to Slurm.
var (
	// ErrUnreachable is a server that could not be reached, or a connection that was lost: no request
	// that changes something was sent.
	ErrUnreachable = errors.New("slurmrestd cannot be reached")
	// ErrUncertain is a connection that was lost, to slurmrestd or behind slurmrestd, after a
	// request that changes something was sent: the change may have been made. Look before asking
	// again.
	ErrUncertain = errors.New("may have been done")
	// ErrUnsupported matches every *UnsupportedError in errors.Is.
	ErrUnsupported = errors.New("unsupported")
)

// meanings is the only table from Slurm's error numbers to ours. retryable means that the same
// request may succeed a moment later. text is how scontrol writes the error, because scontrol has
// no numbers.
var meanings = []struct {
	number    int
	is        error
	retryable bool
	uncertain bool // the request may have been carried out although it failed
	status    int  // of HTTP, which alone has this meaning; 0: any
	text      string
}{
	// A slurmctld that ends while it answers: the request failed, and the bytes that came are no
	// answer. 22.05 gives -1 for every failure, with status 200.
	{number: -1, status: http.StatusInternalServerError, is: ErrController, retryable: true, uncertain: true},
	{number: 1000, is: ErrController, retryable: true, uncertain: true, text: "Unexpected message received"},
	{number: 1007, is: ErrAuth, text: "Protocol authentication error"},
	{number: 1800, is: ErrController, retryable: true, text: "Unable to contact slurm controller (connect failure)"},
	{number: 1801, is: ErrController, retryable: true, text: "Unable to contact slurm controller (send failure)"},
	{number: 1802, is: ErrController, retryable: true, uncertain: true, text: "Unable to contact slurm controller (receive failure)"},
	{number: 1803, is: ErrController, retryable: true, text: "Unable to contact slurm controller (shutdown failure)"},
	{number: 1804, is: ErrController, retryable: true}, // told to back off
	{number: 1900, is: ErrNoChange},
	{number: 2000, is: ErrInvalidPartition, text: "Invalid partition name specified"},
	{number: 2002, is: ErrAccessDenied, text: "Access/permission denied"},
	{number: 2006, is: ErrNodeCount, text: "Node count specification invalid"},
	{number: 2010, is: ErrAccessDenied, text: "Invalid user id"}, // another user's job
	{number: 2014, is: ErrNodeConfig, text: "Requested node configuration is not available"},
	{number: 2017, is: ErrInvalidJobID, text: "Invalid job id specified"},
	{number: 2018, is: ErrInvalidNodeName, text: "Invalid node name specified"},
	{number: 2020, is: ErrTransition, retryable: true, text: "Job can not be altered now, try again later"},
	{number: 2021, is: ErrAlreadyDone, text: "Job/step already completing or completed"},
	{number: 2024, is: ErrJobPending, text: "Job is pending execution"},
	{number: 2027, is: ErrController, retryable: true, text: "Slurm backup controller in standby mode"},
	{number: 2028, is: ErrNodeState, text: "Invalid node state specified"},
	{number: 2036, is: ErrNotSupported, text: "Requested operation not supported on this system"},
	{number: 2037, is: ErrDisabled, text: "Requested operation is presently disabled"},
	{number: 2039, is: ErrBatchOnly, text: "Only batch jobs are accepted or processed"},
	{number: 2042, is: ErrJobHeld, text: "Job is in held state, pending scheduler release"},
	{number: 2045, is: ErrInvalidAccount, text: "Invalid account or account/partition combination specified"},
	{number: 2050, is: ErrPolicy, text: "Job violates accounting/QOS policy"},
	{number: 2051, is: ErrTimeLimit, text: "Requested time limit is invalid"},
	{number: 2053, is: ErrNoReservation, text: "Requested reservation is invalid"},
	{number: 2055, is: ErrReservationInUse, text: "Requested reservation is in use"},
	{number: 2061, is: ErrTransition, retryable: true, text: "PrologSlurmctld is still running"},
	{number: 2066, is: ErrInvalidQOS, text: "Invalid qos specification"},
	{number: 2072, is: ErrInvalidGRES, text: "Invalid generic resource (gres) specification"},
	{number: 2073, is: ErrJobNotPending, text: "Job is no longer pending execution"},
	{number: 2083, is: ErrJobNotPending}, // the job has started
	{number: 2084, is: ErrJobFinished, text: "Job has already finished"},
	{number: 2085, is: ErrJobNotRunning, text: "Job is not running"},
	{number: 2103, is: ErrBusy, retryable: true, text: "Job update not available right now, the DB index is being set"},
	{number: 2107, is: ErrNotHetLeader, text: "Job not heterogeneous job leader"},
	{number: 2131, is: ErrController, retryable: true}, // asked a standby
	{number: 2180, is: ErrNodeState, text: "Invalid node state transition"},
	{number: 5004, is: ErrController, retryable: true, uncertain: true}, // timed out
	{number: 6000, is: ErrAuth},
	{number: 6001, is: ErrAuth}, // expired
	{number: 7000, is: ErrDatabase, retryable: true},
	{number: 9000, is: ErrInvalidRequest},
	{number: 9001, is: ErrInvalidRequest},
	{number: 9002, is: ErrInvalidRequest},
	{number: 9008, is: ErrAuth},
	{number: 9009, is: ErrInvalidRequest},
}

// Error is Slurm's answer to a request that was not carried out. errors.Is finds the meaning;
// Unwrap has the further errors of an answer that listed several.
type Error struct {
	Method, Path string // of the request; or "scontrol" and its arguments
	Subject      string // "job 12_3", "node n1", "nodes"
	Status       int    // of HTTP; 200 is possible, 0 is scontrol's
	Number       int    // of Slurm; 0 when the answer had none
	Text         string // Slurm's text for the number
	Description  string // Slurm's description of the failed operation
	Source       string // the function that reported the error
	Retryable    bool   // the same request may succeed a moment later

	is      []error
	others  []error
	foreign bool // not Slurm's: a proxy's, or the router's
}

// Error names the request, Slurm's text and Slurm's error number.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Subject != "" {
		b.WriteString(e.Subject + ": ")
	}
	said := e.Text
	switch {
	case said == "":
		said = e.Description
	case e.Description != "" && e.Description != e.Text:
		said += ": " + e.Description
	}
	if said == "" {
		said = http.StatusText(e.Status)
	}
	b.WriteString(printableText(said, 300))
	fmt.Fprintf(&b, " (%s %s", e.Method, e.Path)
	if e.Status != 0 {
		fmt.Fprintf(&b, ", http %d", e.Status)
	}
	if e.Number != 0 {
		fmt.Fprintf(&b, ", slurm %d", e.Number)
	}
	b.WriteString(")")
	return b.String()
}

// Is reports whether target is one of the meanings of the error, as the table meanings has them.
func (e *Error) Is(target error) bool {
	for _, meaning := range e.is {
		if meaning == target {
			return true
		}
	}
	return false
}

// Unwrap returns the further errors of the same answer.
func (e *Error) Unwrap() []error { return e.others }

// classifyError fills in the meaning and Retryable from the number and the HTTP status, and returns e.
func (e *Error) classifyError() *Error {
	for _, row := range meanings {
		if row.number != e.Number || row.status != 0 && row.status != e.Status {
			continue
		}
		e.is = append(e.is, row.is)
		e.Retryable = row.retryable
		if row.uncertain && e.Method != http.MethodGet {
			e.is = append(e.is, ErrUncertain)
			e.Retryable = false
		}
	}
	if e.Status == http.StatusUnauthorized {
		e.is = append(e.is, ErrAuth)
	}
	return e
}

// Retryable reports whether the same request may succeed a moment later because Slurm said so.
// ErrUncertain is not retryable.
func Retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Retryable
}

// UnsupportedError names a feature that this cluster lacks.
type UnsupportedError struct {
	Feature string // "requeue over REST"
	Needs   string // "v0.0.45 (Slurm 26.05)"
	Found   string // "v0.0.42"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s needs %s, found %s", e.Feature, e.Needs, e.Found)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// printableText makes a server's text fit for a line of a message: control characters become spaces,
// and no more than most bytes are kept.
func printableText(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, clipText(text, most))
	return strings.Join(strings.Fields(clean), " ")
}
