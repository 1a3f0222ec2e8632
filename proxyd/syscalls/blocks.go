// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// threadID names a thread as the processes of its own PID namespace do. A program can have namespaces
// of its own within the capsule's.
type threadID struct{ namespace, tid uint32 } // the first is the namespace's inode

// blockReader reads the restart blocks of all threads. A process has a single blockReader, which may be used
// concurrently.
type blockReader struct {
	program *ebpf.Program
	layout  blockLayout
	symbols map[uint64]blockKind
	// observes says that the kernel records when a thread has last got a core.
	observes bool
}

// Sizes of the record that the BPF program writes for each thread: its id, its namespace, four numbers of the
// scheduler, its restart block.
const (
	maxBlock     = 96
	recordNumber = 8
	recordHead   = 8 + 4*8
)

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
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	defer btf.FlushKernelSpec() // some MiB
	offsets, err := readOffsets(spec)
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "sing_restart", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task",
		License: "GPL", Instructions: offsets.readerProgram(),
	})
	if err != nil {
		return nil, err
	}
	return &blockReader{program, offsets.layout, readSymbols(), offsets.arrival != 0}, nil
}

// taskOffsets has the offsets of the kernel's data that the BPF program reads.
type taskOffsets struct {
	threadPID, restart   uint32 // in task_struct
	switches             uint32 // in task_struct
	arrival, sum, before uint32 // in task_struct, of the scheduler; arrival is 0 if the kernel has no such member
	level, numbers       uint32 // in pid
	numberSize           uint32 // of upid
	number, numberSpace  uint32 // in upid
	spaceCommon, inum    uint32 // in pid_namespace, ns_common
	seq                  uint32 // in bpf_iter_meta
	contextMeta, context uint32 // in bpf_iter__task
	layout               blockLayout
}

func readOffsets(spec *btf.Spec) (taskOffsets, error) {
	var o taskOffsets
	var problems []error
	find := func(structure, member string) uint32 {
		at, err := memberOf(spec, structure, member)
		problems = append(problems, err)
		return at
	}
	o.threadPID, o.restart = find("task_struct", "thread_pid"), find("task_struct", "restart_block")
	o.switches = find("task_struct", "nvcsw")
	o.sum, o.before = find("task_struct", "se.sum_exec_runtime"), find("task_struct", "se.prev_sum_exec_runtime")
	if at, err := memberOf(spec, "task_struct", "sched_info.last_arrival"); err == nil { // CONFIG_SCHED_INFO
		o.arrival = at
	}
	o.level, o.numbers = find("pid", "level"), find("pid", "numbers")
	o.number, o.numberSpace = find("upid", "nr"), find("upid", "ns")
	o.spaceCommon, o.inum = find("pid_namespace", "ns"), find("ns_common", "inum")
	o.seq, o.contextMeta, o.context = find("bpf_iter_meta", "seq"), find("bpf_iter__task", "meta"), find("bpf_iter__task", "task")
	o.layout.fn = find("restart_block", "fn")
	o.layout.clock, o.layout.kind = find("restart_block", "nanosleep.clockid"), find("restart_block", "nanosleep.type")
	o.layout.left, o.layout.expires = find("restart_block", "nanosleep.rmtp"), find("restart_block", "nanosleep.expires")
	o.layout.timed = find("restart_block", "poll.has_timeout")
	if at, err := memberOf(spec, "restart_block", "poll.end_time"); err == nil { // since 6.14
		o.layout.seconds, o.layout.nanoseconds = at, at+8
	} else {
		o.layout.seconds, o.layout.nanoseconds = find("restart_block", "poll.tv_sec"), find("restart_block", "poll.tv_nsec")
	}
	var upid, block *btf.Struct
	problems = append(problems, spec.TypeByName("upid", &upid), spec.TypeByName("restart_block", &block))
	if err := errors.Join(problems...); err != nil {
		return o, err
	}
	o.numberSize, o.layout.size = upid.Size, block.Size
	if o.layout.size > maxBlock {
		return o, fmt.Errorf("a restart block of %d bytes: %w", o.layout.size, errors.ErrUnsupported)
	}
	return o, nil
}

// memberOf returns the offset of a member of a structure; a dot in the name leads into a member that is a structure
// itself.
func memberOf(spec *btf.Spec, structure, member string) (uint32, error) {
	var s *btf.Struct
	if err := spec.TypeByName(structure, &s); err != nil {
		return 0, fmt.Errorf("struct %s: %w", structure, err)
	}
	var t btf.Type = s
	at := uint32(0)
	for name := range strings.SplitSeq(member, ".") {
		offset, next, ok := findMember(t, name)
		if !ok {
			return 0, fmt.Errorf("struct %s: no member %s: %w", structure, member, errors.ErrUnsupported)
		}
		at, t = at+offset, next
	}
	return at, nil
}

// findMember looks for a member in a structure or union, and in its members without a name.
func findMember(t btf.Type, name string) (uint32, btf.Type, bool) {
	var members []btf.Member
	switch s := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = s.Members
	case *btf.Union:
		members = s.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), m.Type, true
		}
		if m.Name != "" {
			continue
		}
		if at, found, ok := findMember(m.Type, name); ok {
			return m.Offset.Bytes() + at, found, true
		}
	}
	return 0, nil, false
}

// readerProgram makes the program that the kernel runs for each thread. The program follows pointers with
// bpf_probe_read_kernel, which fails without harm if a pointer is bad.
func (o taskOffsets) readerProgram() asm.Instructions {
	const (
		record  = -int32(recordHead + maxBlock)
		scratch = record - 16
	)
	copyTo := func(to, size int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, to), asm.Mov.Imm(asm.R2, size),
			asm.FnProbeReadKernel.Call(), asm.JNE.Imm(asm.R0, 0, "exit"),
		}
	}
	from := func(r asm.Register, at uint32) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R3, r), asm.Add.Imm(asm.R3, int32(at))}
	}
	var p asm.Instructions
	add := func(more ...asm.Instructions) {
		for _, m := range more {
			p = append(p, m...)
		}
	}
	add(asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, int16(o.context), asm.DWord),
		asm.JEq.Imm(asm.R7, 0, "exit"), // the last call has no task
		asm.LoadMem(asm.R6, asm.R1, int16(o.contextMeta), asm.DWord),
		asm.LoadMem(asm.R6, asm.R6, int16(o.seq), asm.DWord),
	})
	// R8: the thread's struct pid, then its number in its own namespace.
	add(from(asm.R7, o.threadPID), copyTo(scratch, 8),
		asm.Instructions{asm.LoadMem(asm.R8, asm.RFP, int16(scratch), asm.DWord)},
		from(asm.R8, o.level), copyTo(scratch, 4),
		asm.Instructions{
			asm.LoadMem(asm.R9, asm.RFP, int16(scratch), asm.Word),
			asm.Mul.Imm(asm.R9, int32(o.numberSize)), asm.Add.Reg(asm.R8, asm.R9), asm.Add.Imm(asm.R8, int32(o.numbers)),
		},
		from(asm.R8, o.number), copyTo(record, 4),
		from(asm.R8, o.numberSpace), copyTo(scratch, 8),
		asm.Instructions{asm.LoadMem(asm.R8, asm.RFP, int16(scratch), asm.DWord)},
		from(asm.R8, o.spaceCommon+o.inum), copyTo(record+4, 4),
		from(asm.R7, o.switches), copyTo(record+recordNumber, 8),
		from(asm.R7, o.arrival), copyTo(record+recordNumber+8, 8),
		from(asm.R7, o.sum), copyTo(record+recordNumber+16, 8),
		from(asm.R7, o.before), copyTo(record+recordNumber+24, 8),
		from(asm.R7, o.restart), copyTo(record+recordHead, int32(o.layout.size)),
		asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, record),
			asm.Mov.Imm(asm.R3, int32(recordHead+o.layout.size)), asm.FnSeqWrite.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return(),
		})
	return p
}

// threadRecord has the kernel's data of a thread.
type threadRecord struct {
	block    block
	switches uint64 // how often the thread has begun to wait
	// arrival and ran are in nanoseconds of the scheduler's clock: when the thread last got a core, and
	// for how long the thread then ran.
	arrival, ran int64
}

func (r *blockReader) parseRecord(record []byte) (threadID, threadRecord) {
	number := func(n int) uint64 { return binary.NativeEndian.Uint64(record[recordNumber+8*n:]) }
	id := threadID{binary.NativeEndian.Uint32(record[4:]), binary.NativeEndian.Uint32(record)}
	return id, threadRecord{
		block: r.layout.parseBlock(record[recordHead:], r.symbols), switches: number(0),
		arrival: int64(number(1)), ran: int64(number(2) - number(3)),
	}
}

// readThreads calls f with the record of each thread of the node.
func (r *blockReader) readThreads(f func(threadID, threadRecord)) error {
	attached, err := link.AttachIter(link.IterOptions{Program: r.program})
	if err != nil {
		return fmt.Errorf("read restart blocks: %w", err)
	}
	defer attached.Close()
	all, err := attached.Open()
	if err != nil {
		return fmt.Errorf("read restart blocks: %w", err)
	}
	defer all.Close()
	in := bufio.NewReaderSize(all, 64<<10)
	for record := make([]byte, recordHead+r.layout.size); ; {
		_, err := io.ReadFull(in, record)
		if err == io.EOF { //nolint:errorlint // bare by contract
			return nil
		}
		if err != nil {
			return fmt.Errorf("read restart blocks: %w", err)
		}
		f(r.parseRecord(record))
	}
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
