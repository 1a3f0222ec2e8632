// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Versions of Meta. A daemon refuses a version above those that it knows, because it would restore the job without the
// parts for which the version was introduced:
//
//	2  devices
//	3  message queues
//	4  tasks that did not begin; eventfds that count as semaphores; unix sockets that are to be reset, which would be
//	   connected to a daemon of the node again, in the middle of a message
//	5  standard input that was on its way
//	6  standard input that had ended: the task would get the input that the srun of the new run sends
//	7  a state of files in a stream: no files would be put back
const (
	MetaVersion  = 1
	metaDevices  = 2
	metaQueues   = 3
	metaReset    = 4
	metaNotBegun = 4
	metaInput    = 5
	metaEnded    = 6
	metaFiles    = 7

	metaSemaphores = 4
)

// Meta is the conductor's part of a manifest. The store protects it against changes.
type Meta struct {
	Version  int               `json:"version"`
	Record   Record            `json:"record"`
	Run      int               `json:"run"` // restart count of the job at the checkpoint
	Reason   string            `json:"reason"`
	Phases   []PhaseTime       `json:"phases"`
	Capsules []CapsuleMeta     `json:"capsules"`
	Env      map[string]string `json:"env"`              // SLURM_* variables of the batch script in the first run
	Itself   bool              `json:"itself,omitempty"` // the job had itself requeued, and went on
}

// PhaseTime is the duration of a phase.
type PhaseTime struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"`
}

// CapsuleMeta describes a capsule in a checkpoint.
type CapsuleMeta struct {
	Index       int                           `json:"index"`
	Node        string                        `json:"node"` // node at the checkpoint
	Clocks      capsule.Clocks                `json:"clocks"`
	LastPID     int                           `json:"last_pid"`
	Script      string                        `json:"script,omitempty"` // path of the batch script
	Sruns       int                           `json:"sruns"`            // number of srun keys given so far
	Programs    []ProgramMeta                 `json:"programs"`
	Removed     []string                      `json:"removed,omitempty"`   // removed files that are packed by the kernel's names
	Ended       map[string]syscall.WaitStatus `json:"ended"`               // ended programs of steps that still run
	NotBegun    []string                      `json:"not_begun,omitempty"` // tasks of steps that still run that were admitted, and ended before their programs began
	Fingerprint host.Fingerprint              `json:"fingerprint"`
	OldFiles    *files.State                  `json:"files,omitempty"` // of older releases: package filestate reads both
	Devices     *DeviceMeta                   `json:"devices,omitempty"`
	Groups      []uint32                      `json:"groups"` // supplementary groups of the processes
	Logs        []string                      `json:"logs"`   // files that Slurm writes
	Containers  []capsule.Container           `json:"containers,omitempty"`
	Connections int                           `json:"connections,omitempty"` // number of connections through the relay
	// SocketInodes are the inodes of the files of bound unix sockets, by the sockets' names, as programs know them.
	SocketInodes map[string]uint64 `json:"socket_inodes,omitempty"`
	FilesSummary *FilesSummary     `json:"files_summary,omitempty"`
}

// FilesSummary summarizes the state of a capsule's files. The state itself has a stream: see package filestate.
type FilesSummary struct {
	Count int        `json:"count"`
	Lost  bool       `json:"lost,omitempty"` // the state is not complete
	Mark  files.Mark `json:"mark,omitempty"` // of the capsule's journal, as in the state
}

// ProgramMeta describes a program in a checkpoint.
type ProgramMeta struct {
	Name  string      `json:"name"`
	PID   int         `json:"pid"`
	First int         `json:"first"`
	Image *criu.Image `json:"image"`
	Input int64       `json:"input,omitempty"` // how many bytes of standard input were on their way, in a stream of their own

	InputEnded bool `json:"input_ended,omitempty"` // and no input came after them
}

// DecodeMeta parses the output of Encode, of any version up to today's.
func DecodeMeta(b []byte) (*Meta, error) {
	m := &Meta{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("checkpoint's description: %w", err)
	}
	if m.Version < MetaVersion || m.Version > metaFiles {
		return nil, fmt.Errorf("checkpoint's description is of version %d; this proxyd reads versions %d to %d", m.Version, MetaVersion, metaFiles)
	}
	return m, nil
}

// Encode sets the lowest version that covers the contents, and returns the JSON.
func (m *Meta) Encode() ([]byte, error) {
	m.Version = MetaVersion
	if slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return c.Devices != nil }) {
		m.Version = metaDevices
	}
	if slices.ContainsFunc(m.Capsules, CapsuleMeta.hasQueues) {
		m.Version = metaQueues
	}
	if slices.ContainsFunc(m.Capsules, CapsuleMeta.hasResets) {
		m.Version = metaReset
	}
	if slices.ContainsFunc(m.Capsules, CapsuleMeta.hasSemaphores) {
		m.Version = metaSemaphores
	}
	if slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return len(c.NotBegun) > 0 }) {
		m.Version = metaNotBegun
	}
	if slices.ContainsFunc(m.Capsules, CapsuleMeta.hasInput) {
		m.Version = metaInput
	}
	if slices.ContainsFunc(m.Capsules, CapsuleMeta.hasEndedInput) {
		m.Version = metaEnded
	}
	if slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return c.FilesSummary != nil }) {
		m.Version = metaFiles
	}
	return json.Marshal(m)
}

// hasQueues tells whether a program sees POSIX message queues.
func (c CapsuleMeta) hasQueues() bool {
	return slices.ContainsFunc(c.Programs, func(p ProgramMeta) bool { return p.Image != nil && len(p.Image.Queues) > 0 })
}

// hasInput tells whether standard input was on its way to a program.
func (c CapsuleMeta) hasInput() bool {
	return slices.ContainsFunc(c.Programs, func(p ProgramMeta) bool { return p.Input > 0 })
}

// hasEndedInput tells whether standard input of a program had ended.
func (c CapsuleMeta) hasEndedInput() bool {
	return slices.ContainsFunc(c.Programs, func(p ProgramMeta) bool { return p.InputEnded })
}

// hasResets tells whether a program has unix sockets that a restore resets.
func (c CapsuleMeta) hasResets() bool {
	return slices.ContainsFunc(c.Programs, func(p ProgramMeta) bool { return p.Image != nil && len(p.Image.Program.Outside) > 0 })
}

// hasSemaphores tells whether a program has eventfds that count as semaphores.
func (c CapsuleMeta) hasSemaphores() bool {
	return slices.ContainsFunc(c.Programs, func(p ProgramMeta) bool {
		return p.Image != nil && slices.ContainsFunc(p.Image.Processes, func(p criu.Process) bool { return len(p.Semaphores) > 0 })
	})
}

// Capsule returns the entry of a capsule; nil if the capsule had no programs.
func (m *Meta) Capsule(index int) *CapsuleMeta {
	for i := range m.Capsules {
		if m.Capsules[i].Index == index {
			return &m.Capsules[i]
		}
	}
	return nil
}

// Program returns the entry of a program; nil if the capsule had no such program.
func (c *CapsuleMeta) Program(name string) *ProgramMeta {
	i := slices.IndexFunc(c.Programs, func(p ProgramMeta) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Programs[i]
}

// GPUNeeds returns the memory of a GPU, and for 1, 2, … GPUs of each capsule the most bytes that would be on a single GPU.
// Both are zero if that is not known of each capsule with GPUs.
func (m *Meta) GPUNeeds() (memory uint64, needs []uint64) {
	for i := range m.Capsules {
		d := m.Capsules[i].Devices
		if d == nil {
			continue
		}
		if len(d.Needs) == 0 || d.Memory == 0 {
			return 0, nil
		}
		if memory == 0 || d.Memory < memory {
			memory = d.Memory
		}
		for n, bytes := range d.Needs {
			if n == len(needs) {
				needs = append(needs, 0)
			}
			needs[n] = max(needs[n], bytes)
		}
	}
	return memory, needs
}

// HasScript tells whether the batch script is captured. Without the script a restored job would
// begin anew.
func (m *Meta) HasScript() bool {
	return slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return c.Program(BatchProgram) != nil })
}

// CapsuleOf returns the capsule of a program that ran, had ended or had not begun; nil if there is none.
func (m *Meta) CapsuleOf(program string) *CapsuleMeta {
	for i := range m.Capsules {
		c := &m.Capsules[i]
		if _, ended := c.Ended[program]; ended || c.Program(program) != nil || slices.Contains(c.NotBegun, program) {
			return c
		}
	}
	return nil
}

// StepTasks returns the capsule of each task of a step, by task number; nil if the step did not
// run.
func (m *Meta) StepTasks(key string) ([]int, error) {
	at := map[int]int{}
	note := func(program string, capsule int) {
		if k, task, ok := ParseTaskName(program); ok && k == key {
			at[task] = capsule
		}
	}
	for _, c := range m.Capsules {
		for _, p := range c.Programs {
			note(p.Name, c.Index)
		}
		for name := range c.Ended {
			note(name, c.Index)
		}
		for _, name := range c.NotBegun {
			note(name, c.Index)
		}
	}
	all := make([]int, len(at))
	for task, capsule := range at {
		if task >= len(all) {
			return nil, fmt.Errorf("step %s: %d tasks are known, task %d among them", key, len(at), task)
		}
		all[task] = capsule
	}
	return all, nil
}

// DeviceMeta describes a capsule's devices in a checkpoint.
type DeviceMeta struct {
	Kind      string                `json:"kind"`
	Processes []server.SavedProcess `json:"processes"`
	Save      string                `json:"save"`             // name that the device server gave this save
	Bytes     uint64                `json:"bytes"`            // of device memory
	Written   uint64                `json:"written"`          // bytes written by this checkpoint
	Known     uint64                `json:"known"`            // bytes taken over from the previous checkpoint
	Memory    uint64                `json:"memory,omitempty"` // of a GPU
	Owners    []uint64              `json:"owners"`           // of all spaces on real GPUs, see server.Report; null in checkpoints of older releases
	Needs     []uint64              `json:"needs,omitempty"`  // the most of Bytes on a GPU if the capsule has 1, 2, … of them
}

// DevicesFolder is the prefix of a capsule's device streams.
const DevicesFolder = "devices"

// StreamID names a stream of a capsule.
func (m *CapsuleMeta) StreamID(name string) store.StreamID {
	return store.StreamID{Node: m.Node, Rank: store.None, Name: fmt.Sprintf("%d/%s", m.Index, name)}
}
