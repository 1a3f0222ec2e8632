// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// Program describes a program of a capsule at the time of the call.
type Program struct {
	Name      string             // given by the warden, unique in the capsule
	PID       int                // of the steward, in the capsule: the root of the tree that CRIU dumps
	First     int                // of the program's first process, in the capsule; also its session
	HostPID   int                // of the steward, in the caller's PID namespace; 0 after its end. Set by Programs only
	UID       uint32             // of the warden
	Warden    bool               // the warden is connected
	WardenPID int                // in the PID namespace of the capsule's maker; 0 if the warden is gone
	Waiting   bool               // to be restored: there is only a warden; PID and First are 0
	Captured  bool               // marked: init does not act on its end or its warden's
	Ended     bool               // only of a captured program; other programs are forgotten at their end
	Status    syscall.WaitStatus // how the program ended
	Frozen    bool               // by Freeze, or about to be. Set by Programs only
	Cgroup    string             // folder of the cgroup, the same in the capsule and on the node; "" if it has no cgroup

	// Stdio are the links of descriptors 0, 1 and 2 at the program's start, as in /proc/PID/fd:
	// "pipe:[123]", a path, or "" for a closed descriptor. For a waiting or restored program: the
	// descriptors of the warden.
	Stdio [3]string
}

// Kind is the kind of an Event.
type Kind string

// Kinds of events.
const (
	Present        Kind = "present"  // exists; for each program when Watch begins
	Started        Kind = "started"  // was started, or restored
	Waiting        Kind = "waiting"  // a warden waits for the restore of a program of this name; its Cgroup exists
	Left           Kind = "left"     // the warden is gone; unless the program is captured, it is being killed. For a waiting program, also the cgroup is gone
	Captured       Kind = "captured" // a captured program has ended, and its cgroup is gone
	Ended          Kind = "ended"    // has ended, its cgroup is gone, and Status was sent to the warden if there was a warden
	SignalWithheld Kind = "asked"    // the warden requested a Signal which init withholds (Spec.Hold)
)

// Event is a change of a program.
type Event struct {
	Kind    Kind
	Program Program
	Signal  syscall.Signal // SignalWithheld only
}

// RefusedError says why init refuses a request.
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
