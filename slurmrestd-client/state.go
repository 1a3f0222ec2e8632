// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "strings"

// BaseState is the main state of a job: a constant below. It is empty where the server hides it:
// v0.0.38 reports a completing job as "COMPLETING" only, and whether the job will be pending again
// or is over cannot be told.
type BaseState string

// The base states, spelled as Slurm does.
const (
	Pending     BaseState = "PENDING"
	Running     BaseState = "RUNNING"
	Suspended   BaseState = "SUSPENDED"
	Completed   BaseState = "COMPLETED"
	Cancelled   BaseState = "CANCELLED"
	Failed      BaseState = "FAILED"
	TimedOut    BaseState = "TIMEOUT"
	NodeFail    BaseState = "NODE_FAIL"
	Preempted   BaseState = "PREEMPTED"
	BootFail    BaseState = "BOOT_FAIL"
	DeadlineHit BaseState = "DEADLINE"
	OutOfMemory BaseState = "OUT_OF_MEMORY"
)

// StateFlags are the conditions that a job has beside its base state.
type StateFlags uint32

// The flags, in the order in which String names them.
const (
	Completing StateFlags = 1 << iota // its nodes are not free yet
	Configuring
	BeingRequeued
	RequeueHold
	RequeueFederation
	SpecialExit
	Resizing
	Stopped
	Signaling
	StageOut
	LaunchFailed
	ReconfigFailed
	PowerUpNode
	Revoked
	ReservationDeleted
	Expediting
	UnknownFlag // the server named a flag that this package does not know
)

// stateFlags is the wire name of each flag.
var stateFlags = []struct {
	flag StateFlags
	name string
}{
	{Completing, "COMPLETING"},
	{Configuring, "CONFIGURING"},
	{BeingRequeued, "REQUEUED"},
	{RequeueHold, "REQUEUE_HOLD"},
	{RequeueFederation, "REQUEUE_FED"},
	{SpecialExit, "SPECIAL_EXIT"},
	{Resizing, "RESIZING"},
	{Stopped, "STOPPED"},
	{Signaling, "SIGNALING"},
	{StageOut, "STAGE_OUT"},
	{LaunchFailed, "LAUNCH_FAILED"},
	{ReconfigFailed, "RECONFIG_FAIL"},
	{PowerUpNode, "POWER_UP_NODE"},
	{Revoked, "REVOKED"},
	{ReservationDeleted, "RESV_DEL_HOLD"},
	{Expediting, "EXPEDITING"},
	{UnknownFlag, "UNKNOWN_FLAG"},
}

var (
	baseByName = func() map[string]BaseState {
		all := map[string]BaseState{}
		for _, b := range []BaseState{
			Pending, Running, Suspended, Completed, Cancelled, Failed,
			TimedOut, NodeFail, Preempted, BootFail, DeadlineHit, OutOfMemory,
		} {
			all[string(b)] = b
		}
		return all
	}()
	flagByName = func() map[string]StateFlags {
		all := map[string]StateFlags{}
		for _, f := range stateFlags {
			all[f.name] = f.flag
		}
		return all
	}()
)

// State is a job's state.
type State struct {
	Base  BaseState
	Flags StateFlags
}

// Has reports whether all of the flags are set.
func (s State) Has(f StateFlags) bool { return s.Flags&f == f }

// Finished reports whether the job is over and its nodes are free: false where the base is hidden.
func (s State) Finished() bool {
	switch s.Base {
	case "", Pending, Running, Suspended:
		return false
	}
	return !s.Has(Completing)
}

// Editable reports whether Slurm accepts edits that are allowed for pending jobs only. A job that
// was requeued and is still completing counts as pending.
func (s State) Editable() bool { return s.Base == Pending }

// String names base and flags as "PENDING+COMPLETING". A hidden base is left out.
func (s State) String() string {
	parts := make([]string, 0, 4)
	if s.Base != "" {
		parts = append(parts, string(s.Base))
	}
	for _, f := range stateFlags {
		if s.Has(f.flag) {
			parts = append(parts, f.name)
		}
	}
	return strings.Join(parts, "+")
}

// addName takes a name of the server's into the state.
func (s *State) addName(name []byte) {
	if base, ok := baseByName[string(name)]; ok {
		s.Base = base
		return
	}
	if flag, ok := flagByName[string(name)]; ok {
		s.Flags |= flag
		return
	}
	s.Flags |= UnknownFlag
}

// impliedBase has the base for each flag that v0.0.38 reports instead of the base. Only flags that
// Slurm sets on a single base are listed; Completing and BeingRequeued are not.
var impliedBase = map[StateFlags]BaseState{
	Configuring:        Running,
	Resizing:           Running,
	Stopped:            Running,
	RequeueHold:        Pending,
	SpecialExit:        Pending,
	ReservationDeleted: Pending,
}

// unhideBase fills in the base where the only flag that v0.0.38 shows implies the base.
func (s *State) unhideBase() {
	if s.Base == "" {
		s.Base = impliedBase[s.Flags]
	}
}
