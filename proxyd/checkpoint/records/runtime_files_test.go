// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKit: a job keeps the kit of its first start on every node, after any update.
func TestKit(t *testing.T) {
	shared, installed := t.TempDir(), t.TempDir()
	node := func() Kits {
		return Kits{Shared: shared, Local: t.TempDir(), CapsuleDir: t.TempDir(), Wrapper: filepath.Join(installed, "w")}
	}
	install := func(wrapper, shim string) {
		t.Helper()
		for name, text := range map[string]string{"g": "warden", "w": wrapper, "s": shim} {
			if err := os.WriteFile(filepath.Join(installed, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	shim := filepath.Join(installed, "s")
	a, b := node(), node()
	install("srun 1", "shim 1")
	first, err := a.KeepInstalled(filepath.Join(installed, "g"), shim)
	if err != nil {
		t.Fatal(err)
	}
	install("srun 2", "shim 1")
	if err := os.WriteFile(filepath.Join(installed, KitDriver), []byte("driver"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := a.KeepInstalled(filepath.Join(installed, "g"), shim)
	if err != nil || second == first {
		t.Fatalf("kits %q and %q, error %v; want another hash for another srun", first, second, err)
	}
	without, err := a.KeepInstalled(filepath.Join(installed, "g"), "")
	if err != nil || without == second {
		t.Fatalf("kits %q and %q, error %v; want another hash without the shim", without, second, err)
	}
	for _, c := range []Kits{a, b, b} {
		for hash, want := range map[string]string{first: "srun 1", second: "srun 2", without: "srun 2"} {
			dir, err := c.OnNode(hash)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, KitSrun))
			if err != nil || string(got) != want {
				t.Errorf("%s: %q, want %q, %v", hash, got, want, err)
			}
			_, err = os.Stat(filepath.Join(dir, kitShim))
			if os.IsNotExist(err) != (hash == without) {
				t.Errorf("kit %s: link to the shim: %v", hash, err)
			}
			driver, err := os.ReadFile(filepath.Join(dir, KitDevices, "libcuda.so.1"))
			if HasDevices(dir) != (hash == second) || hash == second && string(driver) != "driver" {
				t.Errorf("kit %s: link to the driver: %q, %v", hash, driver, err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(c.CapsuleDir, kitShim)); err != nil || string(got) != "shim 1" {
			t.Errorf("shim on the node: %q, %v", got, err)
		}
		if got, err := os.ReadFile(filepath.Join(c.CapsuleDir, KitDevices, kitShim)); err != nil || string(got) != "shim 1" {
			t.Errorf("shim in the device folder on the node: %q, %v", got, err)
		}
	}
	if err := b.RemoveUnused(map[string]bool{first: true}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(b.Local); err != nil || len(left) != 1 || left[0].Name() != first {
		t.Errorf("kits left: %v, error %v", left, err)
	}
	// A foreign file in its place is not given to a job.
	if err := os.WriteFile(filepath.Join(a.Shared, second, KitSrun), []byte("srun 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.OnNode(second); err == nil {
		t.Error("no error for a damaged kit")
	}
	for _, hash := range []string{"", "..", "../jobs"} {
		if _, err := b.OnNode(hash); err == nil {
			t.Errorf("no error for kit %q", hash)
		}
	}
}
