// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shimtest

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"testing"
)

// TestDriverIsLeftAlone: the library that jobs have hides no function of a node's own driver, for the library has no
// devices to offer.
func TestDriverIsLeftAlone(t *testing.T) {
	dir := filepath.Dir(buildLibrary(t))
	for name, want := range map[string]bool{"libsingshim.so": false, "libsingshim-device.so": true} {
		f, err := elf.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"cuInit", "ncclGetVersion", "nvmlInit_v2", "dlopen"} {
			is := func(s elf.Symbol) bool { return s.Name == call && s.Section != elf.SHN_UNDEF }
			if got := slices.ContainsFunc(symbols, is); got != want {
				t.Errorf("%s exports %s = %v, want the opposite", name, call, got)
			}
		}
	}
}
