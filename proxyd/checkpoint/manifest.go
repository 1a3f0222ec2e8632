// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// Versions of Meta. Who knows only the first would restore a job's programs without their devices, so what has devices is of the second.
const (
	metaVersion = 1
	metaDevices = 2
)

// Meta is what a manifest says of a checkpoint, besides its streams. The store seals it.
type Meta struct {
	Version  int               `json:"version"`
	Record   Record            `json:"record"`
	Run      int               `json:"run"` // the job's restarts when it was made
	Reason   string            `json:"reason"`
	Phases   []PhaseTime       `json:"phases"`
	Capsules []CapsuleMeta     `json:"capsules"`
	Env      map[string]string `json:"env"` // SLURM_* variables that the batch script began with
}

// PhaseTime is how long a phase took.
type PhaseTime struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"`
}

// CapsuleMeta is one capsule of a checkpoint.
type CapsuleMeta struct {
	Index       int                           `json:"index"`
	Node        string                        `json:"node"` // that it was on
	Clocks      capsule.Clocks                `json:"clocks"`
	LastPID     int                           `json:"last_pid"`
	Script      string                        `json:"script,omitempty"` // path of the batch script
	Sruns       int                           `json:"sruns"`            // keys given to sruns so far
	Programs    []ProgramMeta                 `json:"programs"`
	Ended       map[string]syscall.WaitStatus `json:"ended"` // programs of live steps that had ended
	Fingerprint host.Fingerprint              `json:"fingerprint"`
	Files       *files.State                  `json:"files,omitempty"`
	Devices     *DeviceMeta                   `json:"devices,omitempty"`
	Groups      []uint32                      `json:"groups"` // supplementary, of its processes
	Logs        []string                      `json:"logs"`   // files that Slurm writes
}

// ProgramMeta is one program of a checkpoint.
type ProgramMeta struct {
	Name  string      `json:"name"`
	PID   int         `json:"pid"`
	First int         `json:"first"`
	Image *criu.Image `json:"image"`
}

func decodeMeta(b []byte) (*Meta, error) {
	m := &Meta{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("checkpoint's description: %w", err)
	}
	if m.Version < metaVersion || m.Version > metaDevices {
		return nil, fmt.Errorf("checkpoint's description is of version %d; this proxyd reads versions %d to %d", m.Version, metaVersion, metaDevices)
	}
	return m, nil
}

// encode gives it the lowest version that says all of it.
func (m *Meta) encode() ([]byte, error) {
	m.Version = metaVersion
	if slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return c.Devices != nil }) {
		m.Version = metaDevices
	}
	return json.Marshal(m)
}

// capsule returns that of an index, or nil: it had no programs yet.
func (m *Meta) capsule(index int) *CapsuleMeta {
	for i := range m.Capsules {
		if m.Capsules[i].Index == index {
			return &m.Capsules[i]
		}
	}
	return nil
}

func (c *CapsuleMeta) program(name string) *ProgramMeta {
	i := slices.IndexFunc(c.Programs, func(p ProgramMeta) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Programs[i]
}

// hasScript says whether the batch script is captured. A job restored without would begin
// anew.
func (m *Meta) hasScript() bool {
	return slices.ContainsFunc(m.Capsules, func(c CapsuleMeta) bool { return c.program(batchProgram) != nil })
}

// capsuleOf says which capsule a program belongs to, whether it ran or had ended.
func (m *Meta) capsuleOf(program string) *CapsuleMeta {
	for i := range m.Capsules {
		c := &m.Capsules[i]
		if _, ended := c.Ended[program]; ended || c.program(program) != nil {
			return c
		}
	}
	return nil
}

// stepTasks returns the capsule of each task of a step, in the order of the tasks; nil if
// the step was not running.
func (m *Meta) stepTasks(key string) ([]int, error) {
	at := map[int]int{}
	note := func(program string, capsule int) {
		if k, task, ok := parseTaskName(program); ok && k == key {
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
