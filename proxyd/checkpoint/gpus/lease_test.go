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
		{[]Lease{{Job: 9, At: []int{2, 1}}, {Job: 10, At: []int{3}, Over: true}}, nil}, // what is not left yet is not free
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
