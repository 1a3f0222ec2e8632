// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package tiles finds processes that have used AMX tiles (arch_prctl with ARCH_REQ_XCOMP_PERM, Linux 5.16). CRIU does
// not save tiles: a checkpoint empties them, even in place, and the next tile instruction ends the program with
// SIGILL. So a program with such a process is not captured. libsingshim.so tells programs that the processor has no
// AMX, except static programs and programs that make the system call by themselves.
//
// No file of /proc shows which threads use tiles. The kernel gives a thread a larger buffer for its registers at the
// thread's first tile instruction, and the thread keeps the buffer until execve (struct fpstate).
package tiles

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// tileData is the bit of tiles in the masks of register sets (XFEATURE_XTILE_DATA of asm/fpu/types.h).
const tileData = 1 << 18

// Users are the processes that have used tiles, at a moment.
type Users struct{ processes map[threaddata.ID]bool }

// FindUsers looks at all threads in the caller's PID namespace and in the namespaces below. The result is empty where
// the processor has no AMX, and where the kernel does not show the registers of threads.
func FindUsers() Users {
	u := Users{map[threaddata.ID]bool{}}
	reader, err := loadReader()
	if err != nil || reader == nil {
		return u
	}
	// After an error the threads that were read count.
	_ = reader.ReadThreads(func(process threaddata.ID, mask []byte) {
		if binary.NativeEndian.Uint64(mask)&tileData != 0 {
			u.processes[process] = true
		}
	})
	return u
}

// IsEmpty tells whether no process has used tiles.
func (u Users) IsEmpty() bool { return len(u.processes) == 0 }

// Describe says in a user's words that a process has used tiles. It returns "" for another process.
func (u Users) Describe(pid int) string {
	if u.IsEmpty() || !u.processes[threaddata.IDOf(pid)] {
		return ""
	}
	return "uses AMX tiles, which CRIU does not save"
}

// Prepare makes the first FindUsers as quick as any other. Prepare takes half a second, and returns an error if the
// processor has AMX and the kernel does not show which threads have used tiles.
func Prepare() error {
	_, err := loadReader()
	return err
}

// loadReader returns the reader of the masks of the register sets that threads have buffers for. The reader is nil if
// the processor has no AMX.
var loadReader = sync.OnceValues(func() (*threaddata.Reader, error) {
	if !hasTiles() {
		return nil, nil //nolint:nilnil // no tiles to read
	}
	reader, err := threaddata.NewReader(threaddata.ReaderSpec{Name: "sing_tiles", OfProcess: true, ChooseFields: chooseFields})
	if err != nil {
		return nil, fmt.Errorf("read the use of AMX tiles by BPF: %w", err)
	}
	return reader, nil
})

// hasTiles tells whether the processor and the kernel have AMX tiles.
func hasTiles() bool {
	b, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && strings.Contains(string(b), " amx_tile")
}

// chooseFields returns where the kernel has the mask of a thread.
func chooseFields(spec *btf.Spec) ([]threaddata.Field, error) {
	fpu, err := threaddata.MemberOf(spec, "task_struct", "thread.fpu")
	if err != nil { // since Linux 6.16 struct fpu comes after task_struct
		var task *btf.Struct
		if err := spec.TypeByName("task_struct", &task); err != nil {
			return nil, fmt.Errorf("struct task_struct: %w", err)
		}
		fpu = task.Size
	}
	state, err := threaddata.MemberOf(spec, "fpu", "fpstate")
	if err != nil {
		return nil, err
	}
	mask, err := threaddata.MemberOf(spec, "fpstate", "xfeatures")
	if err != nil {
		return nil, err
	}
	return []threaddata.Field{{Path: []uint32{fpu + state, mask}, Size: 8}}, nil
}
