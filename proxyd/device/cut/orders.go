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
	// ErrForgotten is what a device server says of an attempt that it is not in: its lease ran out, it was forgotten, or a later
	// one has come.
	ErrForgotten = errors.New("the attempt at a cut was forgotten")
	// ErrBusy is what it says of a new attempt while it is being saved, or stopped without one.
	ErrBusy = errors.New("the device server is stopped or being saved")
)

// Member is a device server of the job, as the leader sees it.
type Member interface {
	// Exchange carries out the orders, in their sequence, and returns what has happened that was not heard: as soon as there is
	// something, at the latest after Wait. It is called by one goroutine. ctx ends it where there are no orders, and any error is no
	// matter then. After another error nothing more of the member can be known.
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
	Forget    bool           `json:"forget,omitempty"` // the attempt is over: open everything
	Past      []barrier.Comm `json:"past,omitempty"`   // with Forget: nobody is in these any more
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

// The kinds. Those of a process are the events of package barrier of the same name.
const (
	Opened    Kind = "opened"    // the first of an attempt
	Shut      Kind = "shut"      // of a process, as those until Stuck
	Issued    Kind = "issued"    //
	Withdrawn Kind = "withdrawn" //
	Reading   Kind = "reading"   //
	Drained   Kind = "drained"   //
	CallsShut Kind = "callsShut" //
	Ended     Kind = "ended"     //
	Died      Kind = "died"      //
	Stuck     Kind = "stuck"     // Reason is why no cut of it can be saved, however long it is waited for
	Left      Kind = "left"      // a Place was given up: barrier.Destroyed
	Arrived   Kind = "arrived"   // a Place waits for Create
	Made      Kind = "made"      // a Place that has arrived, or comes of a split, is there, or Broken
	Broken    Kind = "broken"    // a Place's communicator has failed
	Still     Kind = "still"     // the cut holds at this member: nothing passes, nothing is in flight, nobody is attached
	Obstacle  Kind = "obstacle"  // Reason is what keeps a process from becoming quiet, by now
)

// Event is something that happened at a member.
type Event struct {
	Kind      Kind            `json:"kind"`
	Process   uint64          `json:"process,omitempty"`
	Counts    []barrier.Count `json:"counts,omitempty"`
	Nudge     bool            `json:"nudge,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Place     *Place          `json:"place,omitempty"`
	Processes []Process       `json:"processes,omitempty"` // of Opened
	Places    []Place         `json:"places,omitempty"`    // likewise
}

// Process is one with a ring. Ended ones are told of if they were in communicators.
type Process struct {
	ID    uint64 `json:"id"`
	PID   int    `json:"pid"`
	Ended bool   `json:"ended,omitempty"`
}

// Place is a process's place in a communicator. One that is neither Made nor Left waits for the others to come.
type Place struct {
	Comm    barrier.Comm    `json:"comm"`
	Size    int             `json:"size"`
	Member  int32           `json:"member"`
	Process uint64          `json:"process"`
	Made    bool            `json:"made,omitempty"`
	Left    bool            `json:"left,omitempty"`
	Broken  bool            `json:"broken,omitempty"`
	Counts  []barrier.Count `json:"counts,omitempty"` // of one that is Left, its last
}
