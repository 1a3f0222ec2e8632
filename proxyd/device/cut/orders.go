// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"context"
	"errors"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// Errors of a Member, which a transport may have made of a text.
var (
	// ErrForgotten is what a device server says of an attempt that it is not in: its lease ran out, the attempt was
	// forgotten, or a later attempt has come.
	ErrForgotten = errors.New("the attempt at a cut was forgotten")
	// ErrBusy is what a device server says of a new attempt while being saved, or stopped without an attempt.
	ErrBusy = errors.New("the device server is stopped or being saved")
)

// Member is a device server of the job, as the leader sees it.
type Member interface {
	// Exchange carries out the orders, in their sequence, and returns what has happened that was not heard: as soon as
	// there is something, at the latest after Wait. Only one goroutine calls Exchange. ctx ends the call where there
	// are no orders, and any error is no matter then. After another error nothing more of the member can be known.
	Exchange(ctx context.Context, o *Orders) (*Events, error)
}

// Orders is what the leader wants of a member.
type Orders struct {
	Attempt uint64        `json:"attempt"`         // from 1
	Lease   time.Duration `json:"lease"`           // from now on, until the next Exchange
	Wait    time.Duration `json:"wait,omitempty"`  // for events, if there are none
	Heard   uint64        `json:"heard,omitempty"` // how many of the attempt's events the leader has
	Do      []Order       `json:"do,omitempty"`
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
	Forget    bool           `json:"forget,omitempty"` // the attempt is over: open everything
	Past      []barrier.Comm `json:"past,omitempty"`   // with Forget: no process is in these any more
}

// Raise is barrier.Raise for a process.
type Raise struct {
	Process uint64          `json:"process"`
	Targets []barrier.Count `json:"targets"`
}

// Events is what has happened at a member since the leader has heard of it.
type Events struct {
	Next uint64  `json:"next"` // to be Heard
	List []Event `json:"list,omitempty"`
}

// Kind says what an event is.
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
	Stuck     Kind = "stuck"     // Reason is why no cut of the process can be saved, after any time
	Left      Kind = "left"      // a Place was given up: barrier.Destroyed
	Arrived   Kind = "arrived"   // a Place waits for Create
	Made      Kind = "made"      // a Place that has arrived, or comes of a split, is there, or Broken
	Broken    Kind = "broken"    // a Place's communicator has failed
	Pending   Kind = "pending"   // of a process: Counts has what is kept back. The process does not go on if it is Quiet
	Still     Kind = "still"     // the cut holds at this member: nothing passes or is in flight, no process is attached
	Obstacle  Kind = "obstacle"  // Reason is what keeps a process from becoming quiet, by now
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
	Places    []Place         `json:"places,omitempty"`    // likewise
}

// Process is a process with a ring. Ended processes are told of if they were in communicators.
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
