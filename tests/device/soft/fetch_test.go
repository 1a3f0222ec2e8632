// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFetchOptions: contrib/cuda-software/fetch takes its options before and behind the name of a package, and refuses words
// that it does not know before it fetches a package.
func TestFetchOptions(t *testing.T) {
	for _, tc := range []struct {
		args string
		exit int
		want string // in the output
	}{
		{"--size toolkit", 0, "2 GB to fetch"},
		{"toolkit --size", 0, "2 GB to fetch"},
		{"--size", 0, "1.4 GB to fetch"},
		{"libraries libfoo --size", 0, "for each package"},
		{"--help", 0, "usage: fetch"},
		{"toolkit --sizes", 2, "cuda-software: there is no option --sizes\nusage: fetch"},
		{"toolkit pytorch", 2, "cuda-software: toolkit takes no argument, and pytorch is there\nusage: fetch"},
		{"libraries", 2, "cuda-software: libraries: no package is named\nusage: fetch"},
		{"--size toolkit --where", 2, "cuda-software: --size and --where: it is one of them\nusage: fetch"},
		{"tools", 2, "cuda-software: there is no tools to fetch\nusage: fetch"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "../../../contrib/cuda-software/fetch", strings.Fields(tc.args)...)
			// No package may be fetched, even if this test fails.
			c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "CUDA_SOFTWARE_CACHE=" + t.TempDir(), "MIRROR=http://127.0.0.1:9"}
			out, err := c.CombinedOutput()
			if c.ProcessState == nil {
				t.Fatal(err)
			}
			if exit := c.ProcessState.ExitCode(); exit != tc.exit || !strings.Contains(string(out), tc.want) {
				t.Errorf("exit status %d and %q, want %d and %q", exit, out, tc.exit, tc.want)
			}
		})
	}
}
