// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// savedWith is a capsule with spaces of these numbers, and pinned memory of these begins and lengths.
func savedWith(index int, owners []uint64, pinned ...uint64) records.CapsuleMeta {
	p := server.SavedProcess{HostMappings: []server.HostMapping{{Kind: server.RingMemory, Address: 0x1000, Length: 1 << 20}}}
	for i := 0; i < len(pinned); i += 2 {
		p.HostMappings = append(p.HostMappings, server.HostMapping{Kind: server.PinnedMemory, Address: pinned[i], Length: pinned[i+1]})
	}
	return records.CapsuleMeta{Index: index, Devices: &records.DeviceMeta{Owners: owners, Processes: []server.SavedProcess{p}}}
}

// TestCheckAddresses: capsules can be in one process on a real GPU if neither variables nor pinned memory of two of them are at
// the same addresses.
func TestCheckAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		all     []records.CapsuleMeta
		sharing []int
		want    string
	}{
		"apart":                    {[]records.CapsuleMeta{savedWith(0, []uint64{1, 17}, 0x7000, 0x1000), savedWith(1, []uint64{2}, 0x8000, 0x1000)}, []int{0, 1}, ""},
		"no space":                 {[]records.CapsuleMeta{savedWith(0, []uint64{}), savedWith(1, []uint64{}), {Index: 2}}, []int{0, 1, 2}, ""},
		"of itself":                {[]records.CapsuleMeta{savedWith(0, []uint64{5, 5 + 768}, 0x7000, 0x2000, 0x8000, 0x1000), savedWith(1, []uint64{2})}, []int{0, 1}, ""},
		"older":                    {[]records.CapsuleMeta{savedWith(0, []uint64{1}), savedWith(1, nil)}, []int{0, 1}, "capsule 1 was saved by an older release, which did not write where variables are"},
		"older, elsewhere":         {[]records.CapsuleMeta{savedWith(0, []uint64{1}), savedWith(1, nil), savedWith(2, []uint64{3})}, []int{0, 2}, ""},
		"same number":              {[]records.CapsuleMeta{savedWith(0, []uint64{1, 17}), savedWith(3, []uint64{17})}, []int{0, 3}, "variables of capsules 0 and 3 are at the same addresses"},
		"same place":               {[]records.CapsuleMeta{savedWith(0, []uint64{17}), savedWith(3, []uint64{17 + 768})}, []int{0, 3}, "variables of capsules 0 and 3 are at the same addresses"},
		"pinned":                   {[]records.CapsuleMeta{savedWith(0, []uint64{1}, 0x7000, 0x2000), savedWith(1, []uint64{2}, 0x8000, 0x1000)}, []int{0, 1}, "pinned memory of capsules 0 and 1 is at the same addresses"},
		"pinned, behind a smaller": {[]records.CapsuleMeta{savedWith(0, []uint64{1}, 0x7000, 0x9000, 0x8000, 0x1000), savedWith(1, []uint64{2}, 0xa000, 0x1000)}, []int{0, 1}, "pinned memory of capsules 0 and 1 is at the same addresses"},
	} {
		g := Grant{Sharing: c.sharing}
		got := ""
		if err := g.CheckAddresses(c.all); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
