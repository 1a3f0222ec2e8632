// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// Program is one program of a capsule, as it was when asked.
type Program struct {
	Name      string             // given by its warden, unique in the capsule
	PID       int                // of its steward, in the capsule: the root of what CRIU dumps
	First     int                // of the program itself, in the capsule; also its session
	HostPID   int                // of its steward, in the caller's PID namespace; 0 if it has ended. Only of Programs
	UID       uint32             // its warden's
	Warden    bool               // its warden is there
	WardenPID int                // in the PID namespace of the capsule's maker; 0 if the warden is gone
	Waiting   bool               // to be restored: there is a warden and nothing else; PID and First are 0
	Captured  bool               // marked: neither its end nor its warden's has consequences
	Ended     bool               // only of a captured one; others are gone when they have ended
	Status    syscall.WaitStatus // how it ended
	Frozen    bool               // by Freeze, or about to be. Only of Programs
	Cgroup    string             // the folder of its cgroup, in the capsule as on the node; "" if it has none

	// Stdio is what its descriptors 0, 1 and 2 were when it began, as the links in
	// /proc/PID/fd tell: "pipe:[123]", a path, or "" for one that was closed. Of one that
	// waits or was restored: the warden's own.
	Stdio [3]string
}

// Kind says what an Event is about.
type Kind string

// The kinds of events.
const (
	Present  Kind = "present"  // is there; for each program when Watch begins
	Started  Kind = "started"  // was started, or restored
	Waiting  Kind = "waiting"  // a warden waits for a program of this name to be restored; its Cgroup is there
	Left     Kind = "left"     // its warden is gone; if the program is not captured, it is being killed. Of one that waited: and so is its cgroup
	Captured Kind = "captured" // a captured program has ended, and its cgroup is gone
	Ended    Kind = "ended"    // has ended, its cgroup is gone, and Status was told to its warden if there was one
	Asked    Kind = "asked"    // its warden asks for a Signal which init holds back (Spec.Hold)
)

// Event is a change of one program.
type Event struct {
	Kind    Kind
	Program Program
	Signal  syscall.Signal // Asked only
}

// RefusedError is why init does not do what it was asked for.
type RefusedError struct {
	Program string
	Errno   syscall.Errno
	Reason  string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("program %q: %s", e.Program, e.Reason) }

// Unwrap makes errors.Is with an errno work.
func (e *RefusedError) Unwrap() error { return e.Errno }

// String is for messages and golden files.
func (e Event) String() string {
	b, _ := json.Marshal(e) // plain fields: cannot fail
	return string(b)
}
