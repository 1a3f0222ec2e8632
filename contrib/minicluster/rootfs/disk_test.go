// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEnough(t *testing.T) {
	forky := newRecipe(Options{Suite: mustSuite(t, "forky")})
	torch := newRecipe(Options{Suite: mustSuite(t, "forky"), Torch: true})
	statfs := func(bytes, files, ffree uint64) unix.Statfs_t {
		return unix.Statfs_t{Bsize: 4096, Bavail: bytes / 4096, Files: files, Ffree: ffree}
	}
	for _, c := range []struct {
		name string
		r    recipe
		st   unix.Statfs_t
		want string
	}{
		{"plenty", forky, statfs(100<<30, 1e6, 1e6), ""},
		{"too small", forky, statfs(412<<20, 1e6, 1e6), "cache /c: 412 MiB free, about 750 MiB needed to build forky"},
		{"too small for torch", torch, statfs(1<<30, 1e6, 1e6), "cache /c: 1.0 GiB free, about 2.1 GiB needed to build forky-torch"},
		{"empty", forky, statfs(0, 1e6, 1e6), "cache /c: 0 MiB free, about 750 MiB needed to build forky"},
		{"no inodes", forky, statfs(100<<30, 1e6, 12), "cache /c: 12 inodes free, about 15000 needed to build forky"},
		{"inodes made as needed", forky, statfs(100<<30, 0, 0), ""},
	} {
		err := spaceSuffices("/c", c.r, c.st)
		if got := errText(err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		var se *SpaceError
		if err != nil && !errors.As(err, &se) {
			t.Errorf("%s: not a *SpaceError: %v", c.name, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	r := newRecipe(Options{Suite: mustSuite(t, "forky")})
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing", nil, ""},
		{"disk full", &fs.PathError{Op: "open", Path: "/c/forky.lock", Err: unix.ENOSPC},
			"cache /c: disk full, about 750 MiB needed to build forky"},
		{"disk full in the build", &BuildError{Variant: "forky", Reason: "dpkg failed", noSpace: true},
			"cache /c: disk full, about 750 MiB needed to build forky"},
		{"other build error", &BuildError{Variant: "forky", Reason: "no network", Log: "/c/forky.log"},
			"build forky: no network (log: /c/forky.log)"},
		{"read-only", &fs.PathError{Op: "open", Path: "/c/forky.lock", Err: unix.EROFS},
			"cache /c: open /c/forky.lock: read-only file system"},
		{"not a folder", &fs.PathError{Op: "mkdir", Path: "/c", Err: unix.ENOTDIR}, "cache /c: not a directory"},
		{"anything else", fmt.Errorf("odd"), "odd"},
	} {
		if got := errText(describeError("/c", r, c.err)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 MiB", 412 << 20: "412 MiB", 1 << 30: "1.0 GiB", 1229 << 20: "1.2 GiB", 3 << 40: "3072.0 GiB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
