// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shimtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNVRTC: with a device server, a program that asks NVRTC for an architecture that is too new for it gets PTX of the
// newest architecture that NVRTC knows, in the place of machine code. It makes no difference whether the program or a
// library that it opens is linked with NVRTC, or the program looks the calls up. NVRTC alone answers other requests,
// and all without a server.
func TestNVRTC(t *testing.T) {
	shim := buildLibrary(t)
	dir := t.TempDir()
	compiler, linked := filepath.Join(dir, "libnvrtc.so.12"), filepath.Join(dir, "linked")
	opened, user := filepath.Join(dir, "opened"), filepath.Join(dir, "libuser.so")
	found := filepath.Join(dir, "found")
	flags := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wl,-rpath," + dir}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libnvrtc.so.12", "-o", compiler, "testdata/fakenvrtc.c"},
		{"-o", linked, "testdata/nvrtc.c", compiler},
		{"-shared", "-fPIC", "-o", user, "testdata/nvrtc.c", compiler},
		{"-DOPENED", "-o", opened, "testdata/nvrtc.c", "-ldl"},
		{"-DFOUND", "-o", found, "testdata/nvrtc.c", "-ldl"},
	} {
		if _, err := runCommand("cc", append(slices.Clone(flags), args...)...); err != nil {
			t.Fatal(err)
		}
	}
	asked := []string{"--gpu-architecture=sm_100", "-arch=compute_100", "-arch sm_120a", "-arch=sm_80", "-G"}
	alone := []string{
		"--gpu-architecture=sm_100: 5, nothing", "-arch=compute_100: 5, nothing", "-arch sm_120a: 5, nothing",
		"-arch=sm_80: 0, machine code of sm_80", "-G: 0, nothing",
	}
	served := []string{
		"--gpu-architecture=sm_100: 0, PTX of compute_90", "-arch=compute_100: 0, PTX of compute_90",
		"-arch sm_120a: 0, PTX of compute_90", "-arch=sm_80: 0, machine code of sm_80", "-G: 0, PTX of compute_52",
	}
	for _, program := range [][]string{{linked}, {opened, user}, {found}} {
		for _, c := range []struct {
			server string
			want   []string
		}{{"", alone}, {"/none/device", served}} {
			name := filepath.Base(program[0]) + map[bool]string{true: " without a server"}[c.server == ""]
			t.Run(name, func(t *testing.T) {
				env := []string{"LD_PRELOAD=" + shim, "SINGULARITY_SLURM_DEVICE=" + c.server}
				args := append(slices.Clone(program[1:]), asked...)
				if got := runLibrary(t, program[0], env, args); !slices.Equal(got, c.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
			})
		}
	}
}
