// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import "testing"

// TestRoundSpace: a block that is written does not change the answer, a gigabyte of many does.
func TestRoundSpace(t *testing.T) {
	for free, want := range map[uint64]uint64{
		0: 0, 1023: 1023, 1025: 1024, 40<<40 + 4096: 40 << 40, 40 << 40: 40 << 40, 39 << 40: 39 << 40, ^uint64(0): 1023 << 54,
	} {
		if got := roundSpace(Space{Size: ^uint64(0), Free: free}); got.Free != want {
			t.Errorf("roundSpace of %d free = %d, want %d", free, got.Free, want)
		}
	}
	if roundSpace(Space{Free: 1}) != nil {
		t.Error("a file system without a size is shown")
	}
}
