// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
)

// TestMetaVersion: a description with devices, message queues, unix sockets that are reset, eventfds that count as
// semaphores, tasks that did not begin, input, the end of an input, or a state of files in a stream is refused by a
// version that does not know these, and a description without them is read by every version. A newer version than this
// one's is refused here.
func TestMetaVersion(t *testing.T) {
	for _, c := range []struct {
		devices    *DeviceMeta
		queues     map[string]string
		outside    []criu.OutsideSocket
		semaphores []int
		notBegun   []string
		input      int64
		ended      bool
		files      *FilesSummary
		want       int
	}{
		{nil, nil, nil, nil, nil, 0, false, nil, 1},
		{&DeviceMeta{Kind: "soft"}, nil, nil, nil, nil, 0, false, nil, 2},
		{nil, map[string]string{"file[1d:2]": "q"}, nil, nil, nil, 0, false, nil, 3},
		{nil, nil, []criu.OutsideSocket{{Inode: 7, To: "/run/dbus"}}, nil, nil, 0, false, nil, 4},
		{nil, nil, nil, []int{5}, nil, 0, false, nil, 4},
		{nil, nil, nil, nil, []string{"s0-1.0"}, 0, false, nil, 4},
		{nil, nil, nil, nil, nil, 7, false, nil, 5},
		{nil, nil, nil, nil, nil, 0, true, nil, 6},
		{nil, nil, nil, nil, nil, 7, true, nil, 6},
		{nil, nil, nil, nil, nil, 7, true, &FilesSummary{}, 7},
	} {
		image := &criu.Image{Queues: c.queues, Program: criu.Program{Outside: c.outside}, Processes: []criu.Process{{ProcessFacts: criu.ProcessFacts{Semaphores: c.semaphores}}}}
		m := &Meta{Capsules: []CapsuleMeta{{}, {Devices: c.devices, FilesSummary: c.files, NotBegun: c.notBegun, Programs: []ProgramMeta{{Name: "batch"}, {Image: image, Input: c.input, InputEnded: c.ended}}}}}
		for range 2 { // the restore may be tried again, with other nodes
			b, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(b), fmt.Sprintf(`{"version":%d,`, c.want)) {
				t.Errorf("devices %v: encoded as %.20s", c.devices, b)
			}
			back, err := DecodeMeta(b)
			if err != nil || (back.Capsules[1].Devices != nil) != (c.devices != nil) {
				t.Errorf("devices %v: %v", c.devices, err)
			}
		}
	}
	if m, err := DecodeMeta([]byte(`{"version":1,"capsules":[{"devices":{"kind":"soft"}}]}`)); err != nil || m.Capsules[0].Devices == nil {
		t.Errorf("older version with devices: %v", err)
	}
	for _, version := range []int{0, 8} {
		_, err := DecodeMeta(fmt.Appendf(nil, `{"version":%d}`, version))
		if want := fmt.Sprintf("is of version %d; this proxyd reads versions 1 to 7", version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("DecodeMeta of a version that this proxyd does not know: %v", err)
		}
	}
}

// TestGPUNeeds: the memory that a job needs on a GPU is known if it is known of each of its capsules with GPUs.
func TestGPUNeeds(t *testing.T) {
	m := &Meta{Capsules: []CapsuleMeta{
		{Devices: &DeviceMeta{Memory: 16, Needs: []uint64{12, 7}}}, {Index: 1}, {Index: 2, Devices: &DeviceMeta{Memory: 14, Needs: []uint64{10, 8, 5}}},
	}}
	if memory, needs := m.GPUNeeds(); memory != 14 || !slices.Equal(needs, []uint64{12, 8, 5}) {
		t.Errorf("GPUNeeds = %d, %v", memory, needs)
	}
	m.Capsules[0].Devices.Needs = nil // as made by an older release
	if memory, needs := m.GPUNeeds(); memory != 0 || needs != nil {
		t.Errorf("GPUNeeds with a capsule of an older release = %d, %v; want 0 and nil", memory, needs)
	}
}
