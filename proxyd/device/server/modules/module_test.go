// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"math"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// listedModule is a module of kernels, of which the kernel refused cannot run. It notes which of them were asked for:
// a software GPU compiles a kernel then.
type listedModule struct {
	backend.Module
	names   []string
	refused string
	asked   []string
}

type listedFunction struct {
	backend.Function
	name string
}

func (f listedFunction) Name() string { return f.name }

func (m *listedModule) Functions() (out []backend.Function) {
	for _, name := range m.names {
		out = append(out, listedFunction{name: name})
	}
	return out
}

func (m *listedModule) Function(name string) (backend.Function, error) {
	m.asked = append(m.asked, name)
	if name == m.refused {
		return nil, backend.NotSupported
	}
	return listedFunction{name: name}, nil
}

// TestRunnableKernels: kernels that cannot run are left out, and no more kernels are asked for than are wanted.
func TestRunnableKernels(t *testing.T) {
	for _, tc := range []struct {
		n           uint32
		want, asked []string
	}{
		{0, nil, nil},
		{1, []string{"b"}, []string{"a", "b"}},
		{math.MaxUint32, []string{"b", "c", "d"}, []string{"a", "b", "c", "d"}},
	} {
		b := &listedModule{names: []string{"a", "b", "c", "d"}, refused: "a"}
		m := &module{b: b}
		if got := m.runnableKernels(tc.n); !slices.Equal(got, tc.want) || !slices.Equal(b.asked, tc.asked) {
			t.Errorf("of %d kernels: %q, want %q; asked for %q, want %q", tc.n, got, tc.want, b.asked, tc.asked)
		}
	}
}
