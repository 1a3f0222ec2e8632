// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// Program is a process tree of a capsule.
type Program struct {
	Init     int    // PID of the capsule's init in the caller's PID namespace; criu runs in its namespaces
	PID      int    // root of the tree, as the capsule counts; a child of init
	UID, GID uint32 // the job's user
	// Groups are the supplementary groups of the root, which Dump notes. At a restore files are
	// opened with these rights; the groups given to Restore are for an image without a note.
	Groups []uint32 `json:",omitempty"`
	// Cgroup is the folder of the program's cgroup v2, "" if it has no cgroup. Only the program may be in the cgroup. At a
	// dump the cgroup may be frozen, and is left as before.
	Cgroup string
	// Stdio are the targets of descriptors 0, 1 and 2 when the program began, or at the last restore, as
	// /proc/PID/fd shows them: "pipe:[123]", "socket:[9]", or a path. See StdioOf.
	Stdio [3]string
	// Renamed are the files that have other names by now than the image has
	// (RenameRemoved). Only for Restore.
	Renamed map[string]string `json:"-"`
	// Queues are the POSIX message queues of the program's IPC namespace. At a restore they are in the capsule's IPC
	// namespace, or the program gets them in its own.
	Queues *messagequeue.State `json:"-"`
	// AsRoot allows criu to be root where the kernel does not let the program's user choose the numbers of its System V
	// objects. Only for Restore.
	AsRoot bool `json:"-"`
	// Outside are the unix sockets of the program that are connected to processes outside of the job. A dump leaves
	// them alone, and a restore resets them (outside.go).
	Outside []OutsideSocket `json:",omitempty"`
	// Moved are the names that unix sockets of the program are bound to when they are restored, by the sockets' inodes.
	// The names that they were bound to are not their files' names any more.
	Moved map[uint32]string `json:",omitempty"`
	// Observed is the state of the program's threads that the caller observed just before it froze them
	// (syscalls.Observe). Only for Dump.
	Observed syscalls.WaitObservations `json:"-"`
	// ClocksRead is the time at which the clocks were read with which the program continues after a restore
	// (syscalls.ReadMonotonic), 0 if they are read at the dump. Only for Dump.
	ClocksRead time.Duration `json:"-"`
}

// Sink takes the images of a dump. Create is called concurrently, once for each name; names are
// CRIU's, plain and without a slash. An image is complete when its Close returns nil; an image that
// was not written to its end is closed too, and Dump then fails.
type Sink interface {
	Create(name string) (io.WriteCloser, error)
}

// Source gives the images of a dump. Open is called concurrently and may be called again for the
// same name; its error wraps fs.ErrNotExist if there is no such image.
type Source interface {
	Open(name string) (io.ReadCloser, error)
}

// Image describes a dump: Restore needs it besides the images. An Image can be kept as JSON.
type Image struct {
	Program   Program   `json:"program"` // at the dump
	Host      Host      `json:"host"`    // where
	Processes []Process `json:"processes"`
	Files     []File    `json:"files"` // ordered by name
	// Opened are the files that processes have open or mapped, by which Restore recognizes the same files.
	Opened []OpenedFile `json:"opened,omitempty"`
	// Queues are names of POSIX message queues, by CRIU's names of the open queues.
	Queues map[string]string `json:"queues,omitempty"`
	// Libraries are the files that processes run code from, by their paths (libraries.go).
	Libraries map[string]library `json:"libraries,omitempty"`

	calls *syscalls.Rewound // system calls to be made again when the program goes on in place
}

// Process is a member of a dumped tree, as its capsule counts.
type Process struct {
	PID     int    `json:"pid"`
	Parent  int    `json:"parent"`
	Session int    `json:"session"`
	Name    string `json:"name"` // as ps shows it
	Threads []int  `json:"threads,omitempty"`

	ProcessFacts
}

// ProcessFacts has the properties of a process that are in no image.
type ProcessFacts struct {
	Places *Places `json:"places,omitempty"` // nil: a zombie, or not noted
	// Slack is the timer slack of threads, in nanoseconds, where that is not the default.
	Slack map[int]uint64 `json:"slack,omitempty"`
	// IOPriority is the class and priority of threads that have set theirs, as in ioprio_set(2).
	IOPriority  map[int]int `json:"io_priority,omitempty"`
	Personality uint32      `json:"personality,omitempty"` // as in personality(2)
	Semaphores  []int       `json:"semaphores,omitempty"`  // descriptors that are eventfds with EFD_SEMAPHORE
	Detached    bool        `json:"detached,omitempty"`    // without the terminal that its session has
}

// File is an image in a Sink.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Size is the size of all images together.
func (i *Image) Size() int64 {
	var n int64
	for _, f := range i.Files {
		n += f.Size
	}
	return n
}

func (i *Image) findFile(name string) (File, bool) {
	n, found := slices.BinarySearchFunc(i.Files, name, func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !found {
		return File{}, false
	}
	return i.Files[n], true
}

// isInherited tells whether a name in Program.Stdio is a pipe or socket that was not the program's own: then the
// restored program is given the file, and CRIU does not open it by path.
func isInherited(stdio string) bool {
	return strings.HasPrefix(stdio, "pipe:[") || strings.HasPrefix(stdio, "socket:[")
}

// plainName tells whether a name can be a file's in a folder of images.
func plainName(name string) bool {
	return name != "" && len(name) <= 255 && name[0] != '.' && !strings.ContainsAny(name, "/\x00")
}
