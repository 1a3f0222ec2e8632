// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package landlock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// ConfinedProcesses are the confined processes of a PID namespace at one moment.
type ConfinedProcesses struct {
	namespace uint32
	numbers   map[int]bool // in that namespace
	hidden    bool         // the kernel does not show domains
}

// The words of Describe.
const (
	isConfined    = "has confined itself by Landlock"
	mayBeConfined = "may have confined itself by Landlock, which this node's kernel does not show (it has set no_new_privs)"
)

// FindConfined looks at all threads in the PID namespace of the process init. No process of that namespace that stands
// still during the look is missed.
func FindConfined(init int) ConfinedProcesses {
	c := ConfinedProcesses{namespace: threaddata.NamespaceOf(init), numbers: map[int]bool{}}
	reader, err := loadReader()
	if err == nil && reader == nil {
		return c // the kernel has no Landlock
	}
	if err == nil {
		err = readDomains(reader, func(process threaddata.ID) {
			if process.Namespace == c.namespace {
				c.numbers[int(process.Number)] = true
			}
		})
	}
	c.hidden = err != nil
	return c
}

// IsEmpty tells whether Describe has nothing to say of any process.
func (c ConfinedProcesses) IsEmpty() bool { return len(c.numbers) == 0 && !c.hidden }

// Describe says in a user's words that a process is confined, or may be. It returns "" for another process, and for a
// process that is in another PID namespace or has ended.
func (c ConfinedProcesses) Describe(pid int) string {
	if c.IsEmpty() || threaddata.NamespaceOf(pid) != c.namespace {
		return ""
	}
	if c.hidden {
		if hasSetNoNewPrivileges(pid) {
			return mayBeConfined
		}
		return ""
	}
	if c.numbers[int(threaddata.IDOf(pid).Number)] {
		return isConfined
	}
	return ""
}

// hasSetNoNewPrivileges tells whether a thread of the process has set no_new_privs.
func hasSetNoNewPrivileges(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is not malformed
	for _, path := range threads {
		if status, err := os.ReadFile(path); err == nil && bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")) {
			return true
		}
	}
	return false
}

// readDomains calls f with the process of each thread that has a domain.
func readDomains(reader *threaddata.Reader, f func(process threaddata.ID)) error {
	threads := 0
	err := reader.ReadThreads(func(process threaddata.ID, pointer []byte) {
		threads++
		if binary.NativeEndian.Uint64(pointer) != 0 {
			f(process)
		}
	})
	if err == nil && threads == 0 { // at least the calling thread has a record
		return errHidden
	}
	return err
}
