// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// The addresses of a process's first, second and third space. There are three devices.
const (
	firstRange  = uint64(backend.DefaultBase)
	secondRange = firstRange + 1<<40
	thirdRange  = secondRange + 1<<40
)

// allocOn makes a context on a device, and memory there that must be at an address and gets these bytes.
func (c *client) allocOn(ctx uint64, dev int32, at uint64, text string) {
	c.t.Helper()
	c.beginContext(ctx, dev)
	if a := c.alloc(uint64(len(text))); a != at {
		c.t.Fatalf("memory on device %d is at %#x, want %#x", dev, a, at)
	}
	c.post("copy_in", at, []byte(text), uint64(len(text)), uint64(0))
	c.must("cuCtxSynchronize")
}

// holds checks which bytes are at an address. Any context is current.
func (c *client) holds(at uint64, text string) {
	c.t.Helper()
	if got := c.readBytes(at, uint64(len(text))); string(got) != text {
		c.t.Errorf("at %#x is %q, want %q", at, got, text)
	}
}

// TestAddressesInOrder: a process that uses only its third device has the addresses of a process that uses only its
// first device, whichever the third device is. A process with several devices has each address once. All addresses
// stay over a restore.
func TestAddressesInOrder(t *testing.T) {
	s := newServer(t, 3)
	_, one := attachProcess(t, s, 1)
	one[0].allocOn(ctxA, 0, firstRange, "one")
	_, two := attachProcess(t, s, 1)
	c := two[0]
	c.allocOn(ctxA, 2, firstRange, "third")
	c.allocOn(ctxB, 0, secondRange, "first")
	c.must("cuMemcpyDtoD_v2", secondRange+1, firstRange, uint64(2))
	c.must("cuCtxSynchronize")
	c.must("cuCtxEnablePeerAccess", uint64(ctxA), uint32(0))

	folder := Folder(t.TempDir())
	report := saveJob(t, s, folder, SaveOptions{})
	next := serverOf(t, "other", []int{1, 0, 1}, testMemory, testMemory)
	replaceServer(t, s, report, folder, next)
	one[0].holds(firstRange, "one")
	c.context = ctxB
	c.holds(secondRange, "fthst")
	c.holds(firstRange, "third")
	c.want(704, "cuCtxEnablePeerAccess", uint64(ctxA), uint32(0)) // already
	if a := c.alloc(512); a != secondRange+512 {
		t.Errorf("memory that comes after the restore is at %#x", a)
	}
	c.allocOn(ctxB+1, 1, thirdRange, "second")
	one[0].allocOn(ctxB, 2, secondRange, "two")
	c.context = ctxA
	c.must("cuMemFree_v2", secondRange) // of another device's
	c.holds(firstRange, "third")
}

// apartBackend is a backend that cannot map spaces with the same addresses at the same time.
type apartBackend struct{ backend.Backend }

func (b apartBackend) Devices() (all []backend.Device) {
	for _, d := range b.Backend.Devices() {
		all = append(all, struct{ backend.Device }{d})
	}
	return all
}

// newApartServer makes a server of three devices with spaces that cannot overlap.
func newApartServer(t *testing.T) *Server {
	t.Helper()
	b, err := softgpu.New(softgpu.Config{Seed: "test", Workers: 1, Memory: []uint64{testMemory, testMemory, testMemory}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: apartBackend{b}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { s.Close() })
	return s
}

// TestAddressesByNumber: where spaces with the same addresses could not be mapped at the same time, each of the job's devices has
// addresses of its own. A checkpoint with such addresses, as all were made with before, comes back with them.
func TestAddressesByNumber(t *testing.T) {
	s := newApartServer(t)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.allocOn(ctxA, 2, thirdRange, "third")
	folder := Folder(t.TempDir())
	report := saveJob(t, s, folder, SaveOptions{})
	replaceServer(t, s, report, folder, newServer(t, 3))
	c.holds(thirdRange, "third")
	c.allocOn(ctxB, 1, firstRange, "second")
	c.holds(thirdRange, "third")
	c.allocOn(ctxB+1, 0, secondRange, "first")
}

// TestAddressesOfSeen: where spaces with the same addresses could not be mapped at the same time, processes that see a device
// each have addresses of their own, on the devices that they see, before a checkpoint and after.
func TestAddressesOfSeen(t *testing.T) {
	s := newApartServer(t)
	var all []*client
	for i, at := range []uint64{firstRange, secondRange, thirdRange} {
		c := attachSeeing(t, s, strconv.Itoa(i))
		c.allocOn(ctxA, 0, at, strconv.Itoa(i))
		all = append(all, c)
	}
	folder := Folder(t.TempDir())
	report := saveJob(t, s, folder, SaveOptions{})
	replaceServer(t, s, report, folder, newApartServer(t))
	for i, c := range all {
		c.holds([]uint64{firstRange, secondRange, thirdRange}[i], strconv.Itoa(i))
	}
}

// TestAddressesDamaged: a checkpoint that gives two spaces the same addresses, or a space addresses that no space has,
// is refused.
func TestAddressesDamaged(t *testing.T) {
	for _, wrong := range []uint64{firstRange, thirdRange + 1<<40, 0} {
		s := newServer(t, 3)
		_, cs := attachProcess(t, s, 1)
		cs[0].allocOn(ctxA, 0, firstRange, "first")
		cs[0].allocOn(ctxB, 1, secondRange, "second")
		folder := Folder(t.TempDir())
		saveJob(t, s, folder, SaveOptions{})
		path := filepath.Join(string(folder), stateName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, processes, _ := strings.Cut(string(text), `"processes"`)
		damaged := strings.ReplaceAll(processes, fmt.Sprintf(`"Base":%d,`, secondRange), fmt.Sprintf(`"Base":%d,`, wrong))
		if damaged == processes {
			t.Fatal("the checkpoint does not say what addresses the second space has")
		}
		if err := os.WriteFile(path, bytes.Replace(text, []byte(processes), []byte(damaged), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := newServer(t, 3).Restore(t.Context(), folder); !errors.Is(err, ErrRestore) {
			t.Errorf("a space at %#x: %v", wrong, err)
		}
	}
}
