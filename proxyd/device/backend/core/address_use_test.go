// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestAddressUse: work that names its buffers uses these addresses only, and other work may use any.
func TestAddressUse(t *testing.T) {
	two := UsesOnly(backend.Buffer{Addr: 100, Size: 10}, backend.Buffer{Addr: 200, Size: 10})
	for _, c := range []struct {
		name string
		use  AddressUse
		at   backend.Addr
		n    uint64
		want bool
	}{
		{"a kernel", AddressUse{}, 100, 1, true},
		{"no memory", UsesOnly(), 0, 1 << 40, false},
		{"before the first buffer", two, 90, 10, false},
		{"the beginning of the first buffer", two, 90, 11, true},
		{"within the first buffer", two, 104, 1, true},
		{"between the buffers", two, 110, 90, false},
		{"the end of the second buffer", two, 209, 1, true},
		{"behind the second buffer", two, 210, 1, false},
		{"around both", two, 0, 1000, true},
	} {
		if got := c.use.MayUse(c.at, c.n); got != c.want {
			t.Errorf("%s: MayUse(%d, %d) = %v, want %v", c.name, c.at, c.n, got, c.want)
		}
	}
}
