// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
)

// capsuleOn makes capsule index of job 7 on a node with devices of a kind.
func capsuleOn(t *testing.T, kind string, index int) *localCapsule {
	t.Helper()
	c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	c.Devices = DeviceConfig{Kind: kind, Memory: 4 << 30, GPUs: func(context.Context) ([]string, error) { return []string{"GPU-a", "GPU-b", "GPU-c"}, nil }}
	return &localCapsule{j: &job{c: c, id: 7}, index: index}
}

// TestSpareDevices: the devices of a capsule that has fewer GPUs than it began with are on all of them. Other software GPUs are
// made beside these, for leases; real GPUs cannot be made, and all of the capsule's are to be used.
func TestSpareDevices(t *testing.T) {
	for kind, want := range map[string]int{kindSoft: 6, kindCuda: 0} {
		lc := capsuleOn(t, kind, 0)
		g := &gpus.Grant{SlurmNumbers: []int{0, 1}, MachineNumbers: []int{1, 2}, Order: []int{0, 0, 0, 0, 1, 1, 1, 1}}
		spec, err := lc.specifyDevices(t.Context(), runs.Snapshot{Record: &records.Record{GPUs: []int{8}}}, g, "")
		if err != nil {
			t.Fatal(err)
		}
		if spec.Count != 2 || spec.Spare != want {
			t.Errorf("kind %s: %d GPUs and %d spare ones, want 2 and %d", kind, spec.Count, spec.Spare, want)
		}
		if kind == kindCuda && !slices.Equal(spec.GPUs, []string{"GPU-b", "GPU-c"}) {
			t.Errorf("the GPUs are %v", spec.GPUs)
		}
	}
}

// TestRealMemory: capsules that come to a real GPU and have device servers of their own are refused by the size of the GPU, and
// not by devices.memory, which is of software GPUs.
func TestRealMemory(t *testing.T) {
	const gib = 1 << 30
	lc := capsuleOn(t, kindCuda, 0)
	g := &gpus.Grant{SlurmNumbers: []int{3}, Sharing: []int{0, 1}}
	for held, fits := range map[uint64]bool{16 * gib: true, 41 * gib: false} {
		m := &records.Meta{}
		for i := range 2 {
			m.Capsules = append(m.Capsules, records.CapsuleMeta{Index: i, Devices: &records.DeviceMeta{Kind: kindCuda, Bytes: held, Memory: 80 * gib}})
		}
		err := lc.j.c.checkDevicesRestorable(g, &life.Spec{}, &runs.ResumePoint{Meta: m}, &m.Capsules[0])
		if (err == nil) != fits {
			t.Errorf("two capsules with %d GiB each on a GPU with 80 GiB: %v", held/gib, err)
		}
	}
}

// TestSharedRealGPU: capsules that come to a real GPU are tenants of a process if their checkpoint says that they are apart, and
// else have a server each.
func TestSharedRealGPU(t *testing.T) {
	for _, c := range []struct {
		second []uint64
		shared bool
	}{{[]uint64{2}, true}, {[]uint64{1}, false}, {nil, false}} {
		lc := capsuleOn(t, kindCuda, 1)
		lc.j.log = lc.j.c.Log
		g := &gpus.Grant{SlurmNumbers: []int{0}, MachineNumbers: []int{0}, Order: []int{0}, Sharing: []int{0, 1}}
		m := &records.Meta{Capsules: []records.CapsuleMeta{
			{Index: 0, Devices: &records.DeviceMeta{Owners: []uint64{1}}}, {Index: 1, Devices: &records.DeviceMeta{Owners: c.second}},
		}}
		spec, err := lc.specifyDevices(t.Context(), runs.Snapshot{Record: &records.Record{GPUs: []int{1, 1}}, Number: 3, Point: &runs.ResumePoint{Meta: m}}, g, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := lc.j.c.folders().sharedDeviceDir(7, 3, 0); (spec.Shared == want) != c.shared || (spec.Shared == "") == c.shared || spec.Kind != kindCuda {
			t.Errorf("second capsule with spaces %v: a process in %q, want %v", c.second, spec.Shared, c.shared)
		}
	}
}
