// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"reflect"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// TestSharedMemory: capsules with device servers of their own share a GPU only if their memory fits on the GPU.
func TestSharedMemory(t *testing.T) {
	const mib = 1 << 20
	var capsules []records.CapsuleMeta
	for index, bytes := range []uint64{300 * mib, 400 * mib, 400 * mib, 1} {
		capsules = append(capsules, records.CapsuleMeta{Index: index, Devices: &records.DeviceMeta{Bytes: bytes}})
	}
	capsules = append(capsules, records.CapsuleMeta{Index: 4})
	for _, c := range []struct {
		here        []int
		place, gpus int
		memory      uint64
		want        string
	}{
		{[]int{0, 1, 2, 3}, 0, 4, mib, ""},
		{[]int{0, 1, 2, 3}, 0, 2, 700 * mib, ""},
		{[]int{0, 1, 2, 3}, 3, 2, 700 * mib, ""},
		{[]int{0, 1, 2, 3}, 3, 1, 2000 * mib, ""},
		{[]int{0, 1, 2}, 2, 2, mib, ""}, // alone on its GPU: its server swaps
		{[]int{0, 1, 2, 3}, 1, 1, 1024 * mib, "capsules 0 1 2 3 would share GPU 5, which has 1024 MiB, and hold 1101 MiB on theirs: give the job more GPUs or nodes"},
		{[]int{1, 2, 4}, 0, 1, 799 * mib, "capsules 1 2 4 would share GPU 5, which has 799 MiB, and hold 800 MiB on theirs: give the job more GPUs or nodes"},
		{[]int{0, 1}, 0, 1, 0, ""}, // not known
	} {
		g := Grant{SlurmNumbers: []int{5}, Sharing: capsulesSharing(c.here, c.place, c.gpus)}
		got := ""
		if err := g.CheckSharedMemory(capsules, c.memory); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
		if c.memory == 0 {
			continue
		}
		// The capsules' own GPUs had that memory, the others' less or more.
		for i := range capsules {
			if d := capsules[i].Devices; d != nil {
				if d.Memory = 1; slices.Contains(g.Sharing, i) {
					d.Memory = c.memory + uint64(i-c.here[0])*mib
				}
			}
		}
		if err := g.CheckSharedMemory(capsules, 0); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%+v, by the GPUs' size: %v, want %q", c, err, c.want)
		}
		for i := range capsules {
			if d := capsules[i].Devices; d != nil {
				d.Memory = 0
			}
		}
		if len(c.here) > c.gpus { // as in grantGPUs
			gpus := make([]int, c.gpus)
			for i := range gpus {
				gpus[i] = i
			}
			var same []int
			for other, index := range c.here {
				if grantGPUs(gpus, other, len(c.here), 1).SlurmNumbers[0] == grantGPUs(gpus, c.place, len(c.here), 1).SlurmNumbers[0] {
					same = append(same, index)
				}
			}
			if len(same) > 1 && !slices.Equal(same, g.Sharing) || len(same) == 1 && g.Sharing != nil {
				t.Errorf("%+v: shared by %v, not %v", c, same, g.Sharing)
			}
		}
	}
}

// TestGrantGPUs: each capsule gets a GPU of its node, and each GPU of its first run maps to a GPU that the capsule gets.
func TestGrantGPUs(t *testing.T) {
	for _, c := range []struct {
		gpus            []int
		place, n, began int
		want            Grant
	}{
		{[]int{0, 1}, 0, 1, 2, Grant{SlurmNumbers: []int{0, 1}, Order: []int{0, 1}}},
		{[]int{4, 6}, 0, 1, 2, Grant{SlurmNumbers: []int{4, 6}, Order: []int{0, 1}}},
		{[]int{3}, 0, 1, 2, Grant{SlurmNumbers: []int{3}, Order: []int{0, 0}}},
		{[]int{3, 5, 7}, 0, 1, 4, Grant{SlurmNumbers: []int{3, 5, 7}, Order: []int{0, 0, 1, 2}}},
		{[]int{0, 1, 2, 3}, 0, 1, 2, Grant{SlurmNumbers: []int{0, 1, 2, 3}, Order: []int{0, 1}}},
		{[]int{0, 1, 2, 3}, 0, 2, 2, Grant{SlurmNumbers: []int{0, 1}, Order: []int{0, 1}}},
		{[]int{0, 1, 2, 3}, 1, 2, 2, Grant{SlurmNumbers: []int{2, 3}, Order: []int{0, 1}}},
		{[]int{0, 1, 2}, 0, 2, 2, Grant{SlurmNumbers: []int{0}, Order: []int{0, 0}}},
		{[]int{0, 1, 2}, 1, 2, 2, Grant{SlurmNumbers: []int{1, 2}, Order: []int{0, 1}}},
		{[]int{9}, 0, 2, 1, Grant{SlurmNumbers: []int{9}, Order: []int{0}}},
		{[]int{9}, 1, 2, 1, Grant{SlurmNumbers: []int{9}, Order: []int{0}}},
		{[]int{8, 9}, 2, 3, 1, Grant{SlurmNumbers: []int{9}, Order: []int{0}}},
	} {
		if got := grantGPUs(c.gpus, c.place, c.n, c.began); !reflect.DeepEqual(got, c.want) {
			t.Errorf("GPUs %v, capsule %d of %d that began with %d: granted %v, want %v", c.gpus, c.place, c.n, c.began, got, c.want)
		}
	}
	for m := 1; m < 9; m++ {
		gpus := make([]int, m)
		for n := 1; n < 9; n++ {
			for place := range n {
				for began := 1; began < 9; began++ {
					g := grantGPUs(gpus, place, n, began)
					if len(g.SlurmNumbers) == 0 || len(g.Order) != began {
						t.Fatalf("%d GPUs, capsule %d of %d that began with %d: granted %v", m, place, n, began, g)
					}
					for i, at := range g.Order {
						if at < 0 || at >= len(g.SlurmNumbers) || i > 0 && at < g.Order[i-1] {
							t.Fatalf("%d GPUs, capsule %d of %d that began with %d: granted %v", m, place, n, began, g)
						}
					}
				}
			}
		}
	}
}

// TestGrowCounts: a job that may grow has devices for that from the beginning, evenly on its capsules.
func TestGrowCounts(t *testing.T) {
	for _, c := range []struct {
		gpus string
		has  []int
		want []int
	}{
		{"", []int{1}, []int{1}},
		{"1-1", []int{2}, []int{2}},
		{"1-4", []int{1}, []int{4}},
		{"1-4", []int{1, 1}, []int{2, 2}},
		{"1-5", []int{1, 1}, []int{2, 3}},
		{"2-4", []int{4, 4}, []int{4, 4}},
		{"1-100", []int{1, 2}, []int{16, 16}},
		{"1-100", []int{32}, []int{32}}, // Slurm's own word counts
	} {
		o := records.Options{GPUs: c.gpus}
		if got := growCounts(c.has, o.MostGPUs()); !slices.Equal(got, c.want) {
			t.Errorf("--singularity-gpus=%s, %v GPUs: %v devices, want %v", c.gpus, c.has, got, c.want)
		}
	}
}

// TestDeviceNames: a task sees all devices that share the GPU that Slurm gives the task.
func TestDeviceNames(t *testing.T) {
	g := grantGPUs([]int{3, 5}, 0, 1, 4)
	if got, want := g.DeviceNames(), []string{"3", "3", "5", "5"}; !slices.Equal(got, want) {
		t.Errorf("DeviceNames = %v, want %v", got, want)
	}
}

// TestFindUUIDs: Slurm's numbers become UUIDs, which do not depend on the devices that a cgroup shows.
func TestFindUUIDs(t *testing.T) {
	all := []string{"GPU-a", "", "GPU-c"}
	got, err := FindUUIDs("n1", all, []int{2, 0})
	if err != nil || !slices.Equal(got, []string{"GPU-c", "GPU-a"}) {
		t.Errorf("FindUUIDs of GPUs 2 and 0 = %v, %v", got, err)
	}
	if _, err := FindUUIDs("n1", all, []int{3}); err == nil || err.Error() != "node n1: Slurm gives it GPU 3, and the driver knows 3" {
		t.Errorf("FindUUIDs of a GPU that the driver does not know: %v", err)
	}
	if _, err := FindUUIDs("n1", all, []int{0, 1}); err == nil || err.Error() != "node n1: GPU 1 does not answer" {
		t.Errorf("a GPU that does not answer: %v", err)
	}
}
