// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// unusable are tests of PyTorch's package that cannot pass on a software GPU, with the reasons.
var unusable = map[string]string{
	"TestCUDAIntegerDivider.*":                   "divides some thousand million numbers",
	"CachingHostAllocatorTest.check_empty_cache": "expects that an event is over at once",
	"CachingHostAllocatorTest.check_reuse":       "expects that the events of the tests before are over",
}

// TestPackagePrograms runs PyTorch's own tests in C++ that use CUDA. They are programs of Debian's package
// libtorch-cuda-test; those that the package was built without skip themselves.
func TestPackagePrograms(t *testing.T) {
	w := soft.Need(t)
	tree, tests := w.Fetch(t, "pytorch"), filepath.Join(w.Fetch(t, "tests"), "usr/lib/libtorch-cuda-test")
	patterns, least := []string{"cuda_*", "c10_cuda_*", "basic", "scalar_tensor_test"}, 100
	if testing.Short() {
		patterns, least = []string{"cuda_stream_test"}, 14
	}
	var programs []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(tests, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has the programs %v for %s: %v", tests, found, pattern, err)
		}
		programs = append(programs, found...)
	}
	right, skipped := 0, 0
	for _, program := range programs {
		t.Run(filepath.Base(program), func(t *testing.T) {
			r := w.Run(t, runTests(tree, program))
			if r.Exit != 0 {
				t.Errorf("it ended with %d\nstdout:\n%s\nstderr:\n%s", r.Exit, r.Stdout, r.Stderr)
			}
			for line := range strings.Lines(r.Stdout) {
				switch {
				case rightLine.MatchString(line):
					right++
				case skippedLine.MatchString(line):
					skipped++
				}
			}
		})
	}
	t.Logf("%d tests right, %d that skip themselves, and without these:", right, skipped)
	for _, name := range slices.Sorted(maps.Keys(unusable)) {
		t.Logf("%s: %s", name, unusable[name])
	}
	if right < least {
		t.Errorf("%d tests were right, want %d", right, least)
	}
}

var (
	rightLine   = regexp.MustCompile(`^\[       OK \] `)
	skippedLine = regexp.MustCompile(`^\[  SKIPPED \] .*\(`) // a line with the time; the list at the end has none
)

// runTests is a run of a program of the package, by the loader and with the libraries of PyTorch's tree.
func runTests(tree, program string) soft.Program {
	libraries := filepath.Join(tree, "usr/lib/x86_64-linux-gnu")
	return soft.Program{
		Path:    filepath.Join(tree, "usr/lib64/ld-linux-x86-64.so.2"),
		Args:    []string{program, "--gtest_filter=-" + strings.Join(slices.Sorted(maps.Keys(unusable)), ":")},
		Devices: 2,
		Env:     []string{"LD_LIBRARY_PATH=" + strings.Join([]string{libraries, libraries + "/blas", libraries + "/lapack", tree + "/usr/lib"}, ":")},
		Limit:   limit,
	}
}
