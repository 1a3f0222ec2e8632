// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"context"
	"errors"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// Errors of a Member. A transport may have made them from a text.
var (
	// ErrForgotten is returned by a device server for an attempt that the server is not in: its time ran
	// out, the attempt was forgotten, or a later attempt has come.
	ErrForgotten = errors.New("the attempt at a cut was forgotten")
	// ErrBusy is returned by a device server for a new attempt while the server is being saved, or is stopped
	// without an attempt.
	ErrBusy = errors.New("the device server is stopped or being saved")
)

// Member is a device server of the job, as the leader sees it.
type Member interface {
	// Exchange carries out the orders, in their sequence, and returns the events that the leader has not
	// heard: as soon as there are any, at the latest after Wait. Only one goroutine calls Exchange. If there
	// are no orders, ctx may end the call, and the leader ignores the error. After any other error the member
	// is lost.
	Exchange(ctx context.Context, o *Orders) (*Events, error)
}

// Orders has the leader's orders for a member.
type Orders struct {
	Attempt       uint64        `json:"attempt"`         // from 1
	LeaderTimeout time.Duration `json:"lease"`           // from now on, until the next Exchange
	Wait          time.Duration `json:"wait,omitempty"`  // for events, if there are none
	Heard         uint64        `json:"heard,omitempty"` // how many of the attempt's events the leader has
	Do            []Order       `json:"do,omitempty"`
}

// Order is carried out in the sequence of its fields.
type Order struct {
	Open      bool           `json:"open,omitempty"` // begin the attempt; answered by Opened
	Shut      bool           `json:"shut,omitempty"` // the rest as in barrier.Effects
	Withdraw  []uint64       `json:"withdraw,omitempty"`
	Raise     []Raise        `json:"raise,omitempty"`
	Nudge     []uint64       `json:"nudge,omitempty"`
	Create    []barrier.Comm `json:"create,omitempty"`
	Read      bool           `json:"read,omitempty"`
	Drain     bool           `json:"drain,omitempty"`
	ShutCalls bool           `json:"shutCalls,omitempty"`
	Keep      bool           `json:"keep,omitempty"`   // with ShutCalls: collectives are kept back, as Limit says, until Stay
	Limit     []Raise        `json:"limit,omitempty"`  // at most so many operations are kept back
	Stay      bool           `json:"stay,omitempty"`   // the cut is where all processes are; answered by Still
	Forget    bool           `json:"forget,omitempty"` // the attempt is over: all gates open
	Past      []barrier.Comm `json:"past,omitempty"`   // with Forget: no process is in these any more
}

// Raise is barrier.Raise for a process.
type Raise struct {
	Process uint64          `json:"process"`
	Targets []barrier.Count `json:"targets"`
}

// Events has the events at a member that the leader has not heard.
type Events struct {
	Next uint64  `json:"next"` // number for Heard
	List []Event `json:"list,omitempty"`
}

// Kind is the kind of an event.
type Kind string

// The kinds. The kinds of a process, but for Pending, are the events of package barrier of the same name.
const (
	Opened    Kind = "opened"    // the first of an attempt
	Shut      Kind = "shut"      // of a process, as all until Stuck
	Issued    Kind = "issued"    //
	Withdrawn Kind = "withdrawn" //
	Reading   Kind = "reading"   //
	Drained   Kind = "drained"   //
	CallsShut Kind = "callsShut" //
	Ended     Kind = "ended"     //
	Died      Kind = "died"      //
	Stuck     Kind = "stuck"     // Reason says why a cut with this process can never be saved
	Left      Kind = "left"      // a Place was given up: barrier.Destroyed
	Arrived   Kind = "arrived"   // a Place waits for Create
	Made      Kind = "made"      // a Place that has arrived, or comes of a split, was made, or is Broken
	Broken    Kind = "broken"    // a Place's communicator has failed
	Pending   Kind = "pending"   // of a process: Counts are the operations kept back; if Quiet, the process does not go on
	Still     Kind = "still"     // the cut holds here: no operation passes a gate or is in flight, no process is attached
	Obstacle  Kind = "obstacle"  // Reason is the present obstacle that keeps a process from becoming quiet
)

// Event is something that happened at a member.
type Event struct {
	Kind      Kind            `json:"kind"`
	Process   uint64          `json:"process,omitempty"`
	Counts    []barrier.Count `json:"counts,omitempty"`
	Nudge     bool            `json:"nudge,omitempty"`
	Quiet     bool            `json:"quiet,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Place     *Place          `json:"place,omitempty"`
	Processes []Process       `json:"processes,omitempty"` // of Opened
	Places    []Place         `json:"places,omitempty"`    // of Opened
}

// Process is a process with a ring. Ended processes are included if they were in communicators.
type Process struct {
	ID    uint64 `json:"id"`
	PID   int    `json:"pid"`
	Ended bool   `json:"ended,omitempty"`
}

// Place is a process's place in a communicator. A place that is neither Made nor Left waits for the other members to
// come.
type Place struct {
	Comm    barrier.Comm    `json:"comm"`
	Size    int             `json:"size"`
	Member  int32           `json:"member"`
	Process uint64          `json:"process"`
	Made    bool            `json:"made,omitempty"`
	Left    bool            `json:"left,omitempty"`
	Broken  bool            `json:"broken,omitempty"`
	Counts  []barrier.Count `json:"counts,omitempty"` // of a place that is Left, its last
}
