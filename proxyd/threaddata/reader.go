// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package threaddata reads data that the kernel has of threads, and that no file of /proc shows. A BPF program of type
// iter/task (Linux 5.8) copies the data of each thread; the kernel's BTF has the offsets.
package threaddata

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// ID names a thread as the processes of its own PID namespace do. A program can have namespaces of its own within the
// capsule's.
type ID struct{ Namespace, Number uint32 } // the first is the namespace's inode

// NamespaceOf returns the inode of a thread's PID namespace, 0 if the thread is gone.
func NamespaceOf(tid int) uint32 {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", tid), &st); err != nil {
		return 0
	}
	return uint32(st.Ino)
}

// IDOf returns the ID of a thread, which has the number 0 if the thread is gone.
func IDOf(tid int) ID {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return ID{}
	}
	_, after, _ := bytes.Cut(status, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) == 0 {
		return ID{}
	}
	number, _ := strconv.ParseUint(string(words[len(words)-1]), 10, 32)
	return ID{NamespaceOf(tid), uint32(number)}
}

// Field is a piece of the kernel's data of a thread.
type Field struct {
	// Path has offsets, the first in task_struct. A pointer is at each of them but the last, and is followed.
	Path []uint32
	Size uint32
}

// ReaderSpec describes a Reader.
type ReaderSpec struct {
	Name string // of the BPF program
	// OfProcess has the ID of each thread be that of its process.
	OfProcess bool
	// ChooseFields returns the fields, in the order in which ReadThreads passes their bytes on.
	ChooseFields func(*btf.Spec) ([]Field, error)
}

// Reader reads fields of all threads. It may be used concurrently.
type Reader struct {
	name    string
	program *ebpf.Program
	size    int
}

// maxFields bounds the fields of a thread. A BPF program has a stack of 512 bytes.
const maxFields = 400

// idSize is the size of the thread's ID, with which each record of the BPF program begins.
const idSize = 8

// NewReader makes a reader, which takes half a second. NewReader fails if this kernel has no such programs or no BTF, or
// if the caller lacks rights.
func NewReader(w ReaderSpec) (*Reader, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	defer btf.FlushKernelSpec() // some MiB
	o, err := readOffsets(spec)
	if err != nil {
		return nil, err
	}
	fields, err := w.ChooseFields(spec)
	if err != nil {
		return nil, err
	}
	size := uint32(0)
	for _, f := range fields {
		size += f.Size
	}
	if size > maxFields {
		return nil, fmt.Errorf("%d bytes of a thread: %w", size, errors.ErrUnsupported)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: w.Name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task",
		License: "GPL", Instructions: o.makeProgram(w.OfProcess, fields, size),
	})
	if err != nil {
		return nil, err
	}
	return &Reader{w.Name, program, int(size)}, nil
}

// offsets has the offsets of the kernel's data that each BPF program reads.
type offsets struct {
	threadPID, leader    uint32 // in task_struct
	level, numbers       uint32 // in pid
	numberSize           uint32 // of upid
	number, numberSpace  uint32 // in upid
	spaceCommon, inum    uint32 // in pid_namespace, ns_common
	seq                  uint32 // in bpf_iter_meta
	contextMeta, context uint32 // in bpf_iter__task
}

func readOffsets(spec *btf.Spec) (offsets, error) {
	var o offsets
	var problems []error
	find := func(structure, member string) uint32 {
		at, err := MemberOf(spec, structure, member)
		problems = append(problems, err)
		return at
	}
	o.threadPID, o.leader = find("task_struct", "thread_pid"), find("task_struct", "group_leader")
	o.level, o.numbers = find("pid", "level"), find("pid", "numbers")
	o.number, o.numberSpace = find("upid", "nr"), find("upid", "ns")
	o.spaceCommon, o.inum = find("pid_namespace", "ns"), find("ns_common", "inum")
	o.seq, o.contextMeta, o.context = find("bpf_iter_meta", "seq"), find("bpf_iter__task", "meta"), find("bpf_iter__task", "task")
	var upid *btf.Struct
	problems = append(problems, spec.TypeByName("upid", &upid))
	if err := errors.Join(problems...); err != nil {
		return o, err
	}
	o.numberSize = upid.Size
	return o, nil
}

// makeProgram makes the program that the kernel runs for each thread. The program follows pointers with
// bpf_probe_read_kernel, which fails without harm if a pointer is bad: the thread has no record then.
func (o offsets) makeProgram(ofProcess bool, fields []Field, size uint32) asm.Instructions {
	record := -int32(idSize + (size+7)/8*8)
	scratch := record - 16
	copyTo := func(to int32, size uint32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, to), asm.Mov.Imm(asm.R2, int32(size)),
			asm.FnProbeReadKernel.Call(), asm.JNE.Imm(asm.R0, 0, "exit"),
		}
	}
	from := func(r asm.Register, at uint32) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R3, r), asm.Add.Imm(asm.R3, int32(at))}
	}
	fromScratch := asm.Instructions{asm.LoadMem(asm.R8, asm.RFP, int16(scratch), asm.DWord)}
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
	// R8: the struct pid of the thread, or of its process, then the number in its own namespace.
	named := asm.R7
	if ofProcess {
		add(from(asm.R7, o.leader), copyTo(scratch, 8), fromScratch)
		named = asm.R8
	}
	add(from(named, o.threadPID), copyTo(scratch, 8), fromScratch,
		from(asm.R8, o.level), copyTo(scratch, 4),
		asm.Instructions{
			asm.LoadMem(asm.R9, asm.RFP, int16(scratch), asm.Word),
			asm.Mul.Imm(asm.R9, int32(o.numberSize)), asm.Add.Reg(asm.R8, asm.R9), asm.Add.Imm(asm.R8, int32(o.numbers)),
		},
		from(asm.R8, o.number), copyTo(record, 4),
		from(asm.R8, o.numberSpace), copyTo(scratch, 8), fromScratch,
		from(asm.R8, o.spaceCommon+o.inum), copyTo(record+4, 4))
	at := record + idSize
	for _, f := range fields {
		base := asm.R7
		for _, step := range f.Path[:len(f.Path)-1] {
			add(from(base, step), copyTo(scratch, 8), fromScratch)
			base = asm.R8
		}
		add(from(base, f.Path[len(f.Path)-1]), copyTo(at, f.Size))
		at += int32(f.Size)
	}
	add(asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, record),
		asm.Mov.Imm(asm.R3, int32(idSize+size)), asm.FnSeqWrite.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return(),
	})
	return p
}

// ReadThreads calls f with the fields of each thread in the PID namespace of the calling process, and in the namespaces
// below. f must not keep the slice.
func (r *Reader) ReadThreads(f func(ID, []byte)) error {
	fail := func(err error) error { return fmt.Errorf("read threads by BPF (%s): %w", r.name, err) }
	attached, err := link.AttachIter(link.IterOptions{Program: r.program})
	if err != nil {
		return fail(err)
	}
	defer attached.Close()
	all, err := attached.Open()
	if err != nil {
		return fail(err)
	}
	defer all.Close()
	in := bufio.NewReaderSize(all, 64<<10)
	for record := make([]byte, idSize+r.size); ; {
		_, err := io.ReadFull(in, record)
		if err == io.EOF { //nolint:errorlint // bare by contract
			return nil
		}
		if err != nil {
			return fail(err)
		}
		number := func(at int) uint32 { return binary.NativeEndian.Uint32(record[at:]) }
		f(ID{number(4), number(0)}, record[idSize:])
	}
}
