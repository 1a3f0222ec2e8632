// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

func TestParseWatch(t *testing.T) {
	w, ok := parseWatch("inotify wd:1 ino:13 sdev:80100002 mask:2 ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:130000000a0b0c0d")
	if !ok || w.device != unix.Mkdev(0x801, 2) || w.handle == nil || w.handle.Type() != 1 || !slices.Equal(w.handle.Bytes(), []byte{0x13, 0, 0, 0, 10, 11, 12, 13}) {
		t.Errorf("parseWatch = %+v, %v", w, ok)
	}
	if w, ok := parseWatch("inotify wd:1 ino:13 sdev:4e mask:2 ignored_mask:0 "); !ok || w.device != unix.Mkdev(0, 0x4e) || w.handle != nil {
		t.Errorf("without a handle: %+v, %v", w, ok)
	}
	for _, line := range []string{"", "pos:\t0", "inotify wd:1", "inotify sdev:x", "inotify sdev:fffffffff"} {
		if w, ok := parseWatch(line); ok {
			t.Errorf("%q is the watch %+v", line, w)
		}
	}
}

// TestWatches: a process that watches a file of an overlay file system is named, once and with advice, if the overlay opens
// no handles. A watch of another file is no obstacle.
func TestWatches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it mounts file systems")
	}
	plain := t.TempDir()
	for _, test := range []struct {
		name, options string
		named         bool
	}{
		{"without handles", "", true},
		{"with handles", ",nfs_export=on,index=on", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			for _, name := range []string{"lower", "upper", "work", "merged"} {
				if err := os.Mkdir(at(name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s%s", at("lower"), at("upper"), at("work"), test.options)
			if err := unix.Mount("overlay", at("merged"), "overlay", 0, options); err != nil {
				t.Skipf("SKIP: needs an overlay file system (%s): %v", options, err)
			}
			t.Cleanup(func() { _ = unix.Unmount(at("merged"), unix.MNT_DETACH) })
			if err := os.WriteFile(at("merged/file"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			script := `
import ctypes
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
assert libc.inotify_add_watch(fd, b"` + plain + `", 0x2) == 1`
			first := startPython(t, script)
			second := startPython(t, script+`
assert libc.inotify_add_watch(fd, b"`+at("merged/file")+`", 0x2) == 2
assert libc.inotify_add_watch(fd, b"`+at("merged")+`", 0x2) == 3`)
			var got []string
			for _, pid := range []int{first, second} {
				for _, o := range FindObstacles(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: groupOf(t, pid)}}) {
					got = append(got, o.String())
				}
			}
			var want []string
			if test.named {
				want = []string{fmt.Sprintf("python3 (PID %d) watches files of an overlay file system (inotify): "+
					"switch the watching of files off in the program, or have it watch a folder of another file system", second)}
			}
			if !slices.Equal(got, want) {
				t.Errorf("obstacles %q, want %q", got, want)
			}
		})
	}
}
