// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"
	"testing"
)

// TestArguments: a server with real devices gets the devices that it may use as an argument, and its
// environment has no variable of the starter.
func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		spec      Spec
		arguments string
		env       []string
	}{
		{Spec{Count: 2, Memory: "4G"}, "--soft 2 --memory 4G", []string{}},
		{Spec{Count: 1, Memory: "4G", Capability: "8.0"}, "--soft 1 --memory 4G --capability 8.0", []string{}},
		{Spec{Count: 1, Order: []int{0, 0}, Regroup: true}, "--soft 1 --order 0,0 --regroup", []string{}},
		{Spec{Count: 1, Memory: "4G", Kernels: "interpreted"}, "--soft 1 --memory 4G --kernels interpreted", []string{}},
		{
			Spec{Count: 2, Kind: "cuda", GPUs: []string{"GPU-2a", "GPU-5b"}, Exact: true, Order: []int{0, 1, 1}}, "--soft 2 --kind cuda --exact --order 0,1,1",
			[]string{"CUDA_VISIBLE_DEVICES=GPU-2a,GPU-5b"},
		},
	} {
		m := serverStart{Spec: tc.spec}
		if got := strings.Join(m.processArguments(), " "); !strings.HasSuffix(got, tc.arguments) {
			t.Errorf("arguments %s, want %s", got, tc.arguments)
		}
		if got := m.processEnvironment(); !slices.Equal(got, tc.env) {
			t.Errorf("environment %q, want %q", got, tc.env)
		}
	}
}
