// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPackedBytes compares the estimate with the length of the pack.
func TestPackedBytes(t *testing.T) {
	needRoot(t)
	content := bytes.Repeat([]byte("content "), 1<<17)
	for name, fill := range map[string]func(in func(string) string) error{
		"empty":  func(func(string) string) error { return nil },
		"a file": func(in func(string) string) error { return os.WriteFile(in("f"), content, 0o600) },
		"a file with holes": func(in func(string) string) error {
			return errors.Join(os.WriteFile(in("f"), content, 0o600), os.Truncate(in("f"), 1<<40))
		},
		"two names": func(in func(string) string) error {
			return errors.Join(os.WriteFile(in("f"), content, 0o600), os.Link(in("f"), in("g")))
		},
		"folders": func(in func(string) string) error {
			return errors.Join(os.MkdirAll(in("a/b/c"), 0o700), os.WriteFile(in("a/b/c/f"), content, 0o600), os.WriteFile(in("a/g"), content, 0o600))
		},
		"a link to a folder outside": func(in func(string) string) error { return os.Symlink("/usr", in("usr")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := fill(func(n string) string { return filepath.Join(dir, n) }); err != nil {
				t.Fatal(err)
			}
			var pack bytes.Buffer
			if err := Pack(t.Context(), dir, &pack); err != nil {
				t.Fatal(err)
			}
			const tolerated = 4096
			got, want := PackedBytes(t.Context(), dir), uint64(pack.Len())
			if got+tolerated < want || got > want+tolerated {
				t.Errorf("PackedBytes = %d, and the pack has %d bytes", got, want)
			}
		})
	}
}

// TestPackedBytesBound: of a folder with too many entries some are counted, and folders nested beyond the longest path
// end the count.
func TestPackedBytesBound(t *testing.T) {
	if testing.Short() {
		t.Skip("makes tens of thousands of files")
	}
	dir := t.TempDir()
	for n := range maxCounted + 100 {
		if err := unix.Mknod(filepath.Join(dir, fmt.Sprint(n)), unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := PackedBytes(t.Context(), dir); got < maxCounted*256 || got > maxCounted*264 {
		t.Errorf("PackedBytes = %d, want the headers of %d entries", got, maxCounted)
	}
	at, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	top := at.Name()
	for range 2 * maxPath / 200 {
		if err := at.Mkdir(strings.Repeat("d", 200), 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(strings.Repeat("d", 200))
		if err != nil {
			t.Fatal(err)
		}
		at.Close()
		at = below
	}
	at.Close()
	if got := PackedBytes(t.Context(), top); got == 0 || got > maxPath*(maxPath/200) {
		t.Errorf("PackedBytes of nested folders = %d", got)
	}
	if got := PackedBytes(t.Context(), filepath.Join(dir, "none")); got != 0 {
		t.Errorf("PackedBytes without a folder = %d, want 0", got)
	}
}
