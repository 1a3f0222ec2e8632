// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"slices"
	"testing"
)

// TestFreeDevices: leases get devices that stand for no GPU yet, and no two leases the same.
func TestFreeDevices(t *testing.T) {
	devices := Devices{Total: 4, Own: 1}
	for _, tt := range []struct {
		leases []Lease
		want   []int
	}{
		{nil, []int{1, 2, 3}},
		{[]Lease{{Job: 9, At: []int{2}}}, []int{1, 3}},
		{[]Lease{{Job: 9, At: []int{2, 1}}, {Job: 10, At: []int{3}, Over: true}}, nil}, // the ended lease is not left yet
	} {
		if got := devices.freeDevices(tt.leases); !slices.Equal(got, tt.want) {
			t.Errorf("leases %v: free are %v, want %v", tt.leases, got, tt.want)
		}
	}
	devices.Own = 0 // the note of an older daemon; its device server has no spare devices
	if got := devices.freeDevices(nil); got != nil {
		t.Errorf("a device server without spare devices: free are %v", got)
	}
}

// TestPlaces: devices are on the capsule's own GPUs and on GPUs of leases that are not over, in order.
func TestPlaces(t *testing.T) {
	devices := Devices{Total: 4, Own: 1}
	leases := []Lease{{Job: 9, GPUs: []int{5}, At: []int{2}}, {Job: 10, GPUs: []int{6, 7}, At: []int{1, 3}}}
	for _, tt := range []struct {
		name   string
		leases []Lease
		want   []int
		gpus   int
	}{
		{"no lease", nil, []int{0, 0, 0, 0}, 1},
		{"all devices", leases, []int{0, 1, 2, 3}, 4},
		{"one lease is over", End(leases, 10), []int{0, 0, 2, 2}, 2},
		{"one lease is gone", Without(leases, 9), []int{0, 0, 1, 3}, 3},
	} {
		if places, n := devices.Places(tt.leases); !slices.Equal(places, tt.want) || n != tt.gpus {
			t.Errorf("%s: devices on %v, of %d GPUs, want %v of %d", tt.name, places, n, tt.want, tt.gpus)
		}
	}
	if leases[1].Over || len(leases) != 2 || CountLent(leases) != 3 {
		t.Errorf("leases were changed: %v", leases)
	}
}

// TestDivide: each of a lease's GPUs goes to the device server with the most devices for a GPU, of the servers that can
// use a GPU.
func TestDivide(t *testing.T) {
	one, four := Devices{Total: 2, Own: 1}, Devices{Total: 4, Own: 1}
	lent := func(at ...int) []Lease { return []Lease{{Job: 9, GPUs: at, At: at}} }
	for _, tt := range []struct {
		name   string
		lent   int
		all    []Devices
		leases [][]Lease
		want   []int
		refuse string
	}{
		{"one server", 2, []Devices{four}, [][]Lease{nil}, []int{2}, ""},
		{"two alike", 2, []Devices{one, one}, [][]Lease{nil, nil}, []int{1, 1}, ""},
		{"the capsule with more devices first", 1, []Devices{one, four}, [][]Lease{nil, nil}, []int{0, 1}, ""},
		{"then the other", 3, []Devices{one, four}, [][]Lease{nil, nil}, []int{1, 2}, ""},
		{"a capsule that was lent GPUs", 1, []Devices{four, four}, [][]Lease{lent(1), nil}, []int{0, 1}, ""},
		{"a capsule that can use no more", 1, []Devices{one, one}, [][]Lease{lent(1), nil}, []int{0, 1}, ""},
		{"an old device server", 1, []Devices{{Total: 4}, one}, [][]Lease{nil, nil}, []int{0, 1}, ""},
		{"too many", 4, []Devices{one, one}, [][]Lease{lent(1), nil}, nil, "it can use 4 GPUs (--singularity-gpus), and 4 more would be 3 too many"},
	} {
		got, err := Divide(tt.lent, tt.all, tt.leases)
		if !slices.Equal(got, tt.want) || err == nil && tt.refuse != "" || err != nil && err.Error() != tt.refuse {
			t.Errorf("%s: %v, %v, want %v %s", tt.name, got, err, tt.want, tt.refuse)
		}
	}
}

// TestSpareDevices: capsules that share a GPU can use as many as they all began with.
func TestSpareDevices(t *testing.T) {
	began := []int{2, 2, 4}
	alone := grantGPUs([]int{3}, 0, 1, began[2])
	if got := alone.SpareDevices(began); got != 3 {
		t.Errorf("a capsule of 4 devices with a GPU has %d to spare, want 3", got)
	}
	shared := grantGPUs([]int{3}, 0, 2, began[0])
	shared.Sharing = []int{0, 1}
	if got := shared.SpareDevices(began); got != 3 {
		t.Errorf("two capsules of 2 devices with a GPU have %d to spare, want 3", got)
	}
}
