// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// blockReader reads the restart blocks of all threads. A process has a single blockReader, which may be used
// concurrently.
type blockReader struct {
	reader  *threaddata.Reader
	layout  blockLayout
	symbols map[uint64]blockKind
	// observes says that the kernel records when a thread has last got a core.
	observes bool
}

// recordHead is the size of what is read of each thread before its restart block: four numbers of the scheduler.
const recordHead = 4 * 8

// loadBlockReader returns the reader, or the reason why this kernel cannot have one.
var loadBlockReader = sync.OnceValues(func() (*blockReader, error) {
	r, err := newBlockReader()
	if err != nil {
		return nil, fmt.Errorf("read restart blocks of threads by BPF: %w", err)
	}
	return r, nil
})

// Prepare makes the first Rewind as quick as any other. Prepare takes half a second, and returns an error if calls with
// a timeout cannot be rewound on this node.
func Prepare() error {
	_, err := loadBlockReader()
	return err
}

func newBlockReader() (*blockReader, error) {
	var o taskOffsets
	reader, err := threaddata.NewReader(threaddata.ReaderSpec{Name: "sing_restart", ChooseFields: func(spec *btf.Spec) (_ []threaddata.Field, err error) {
		if o, err = readOffsets(spec); err != nil {
			return nil, err
		}
		number := func(at uint32) threaddata.Field { return threaddata.Field{Path: []uint32{at}, Size: 8} }
		return []threaddata.Field{
			number(o.switches), number(o.arrival), number(o.sum), number(o.before),
			{Path: []uint32{o.restart}, Size: o.layout.size},
		}, nil
	}})
	if err != nil {
		return nil, err
	}
	return &blockReader{reader, o.layout, readSymbols(), o.arrival != 0}, nil
}

// taskOffsets has the offsets of the kernel's data that are read of a thread.
type taskOffsets struct {
	restart, switches    uint32 // in task_struct
	arrival, sum, before uint32 // in task_struct, of the scheduler; arrival is 0 if the kernel has no such member
	layout               blockLayout
}

func readOffsets(spec *btf.Spec) (taskOffsets, error) {
	var o taskOffsets
	var problems []error
	find := func(structure, member string) uint32 {
		at, err := threaddata.MemberOf(spec, structure, member)
		problems = append(problems, err)
		return at
	}
	o.restart, o.switches = find("task_struct", "restart_block"), find("task_struct", "nvcsw")
	o.sum, o.before = find("task_struct", "se.sum_exec_runtime"), find("task_struct", "se.prev_sum_exec_runtime")
	if at, err := threaddata.MemberOf(spec, "task_struct", "sched_info.last_arrival"); err == nil { // CONFIG_SCHED_INFO
		o.arrival = at
	}
	o.layout.fn = find("restart_block", "fn")
	o.layout.clock, o.layout.kind = find("restart_block", "nanosleep.clockid"), find("restart_block", "nanosleep.type")
	o.layout.left, o.layout.expires = find("restart_block", "nanosleep.rmtp"), find("restart_block", "nanosleep.expires")
	o.layout.timed = find("restart_block", "poll.has_timeout")
	if at, err := threaddata.MemberOf(spec, "restart_block", "poll.end_time"); err == nil { // since 6.14
		o.layout.seconds, o.layout.nanoseconds = at, at+8
	} else {
		o.layout.seconds, o.layout.nanoseconds = find("restart_block", "poll.tv_sec"), find("restart_block", "poll.tv_nsec")
	}
	var block *btf.Struct
	problems = append(problems, spec.TypeByName("restart_block", &block))
	if err := errors.Join(problems...); err != nil {
		return o, err
	}
	o.layout.size = block.Size
	return o, nil
}

// threadRecord has the kernel's data of a thread.
type threadRecord struct {
	block    block
	switches uint64 // how often the thread has begun to wait
	// arrival and ran are in nanoseconds of the scheduler's clock: when the thread last got a core, and
	// for how long the thread then ran.
	arrival, ran int64
}

// readThreads calls f with the record of each thread of the node.
func (r *blockReader) readThreads(f func(threaddata.ID, threadRecord)) error {
	return r.reader.ReadThreads(func(id threaddata.ID, record []byte) {
		number := func(n int) uint64 { return binary.NativeEndian.Uint64(record[8*n:]) }
		f(id, threadRecord{
			block: r.layout.parseBlock(record[recordHead:], r.symbols), switches: number(0),
			arrival: int64(number(1)), ran: int64(number(2) - number(3)),
		})
	})
}

// readSymbols returns the kernel's functions that restart blocks name. The map is empty if the kernel hides its
// addresses: then the number of the call tells the kind.
func readSymbols() map[uint64]blockKind {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	symbols := map[uint64]blockKind{}
	for in := bufio.NewScanner(f); in.Scan(); {
		words := strings.Fields(in.Text())
		if len(words) < 3 {
			continue
		}
		kind, ok := kindsByFunction[words[2]]
		if at, err := strconv.ParseUint(words[0], 16, 64); ok && err == nil && at != 0 {
			symbols[at] = kind
		}
	}
	return symbols
}
