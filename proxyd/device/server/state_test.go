// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// serverOf makes a server with devices of these sizes, in an order.
func serverOf(t testing.TB, seed string, order []int, memory ...uint64) *Server {
	t.Helper()
	b, err := softgpu.New(softgpu.Config{Seed: seed, Workers: 1, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler), Order: order})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// saveJob stops a job and saves the job to a folder.
func saveJob(t testing.TB, s *Server, to Folder, o SaveOptions) *Report {
	t.Helper()
	r, err := s.Save(t.Context(), to, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replaceServer has a saved job go on in another server, with the rings and memory that its processes still have.
func replaceServer(t testing.TB, s *Server, r *Report, from Folder, next *Server) {
	t.Helper()
	replacedBy(t, s, r, from, func() *Server { return next })
}

// replacedBy is replaced by a server that is made when the first server has ended.
func replacedBy(t testing.TB, s *Server, r *Report, from Folder, other func() *Server) *Server {
	t.Helper()
	mappings := map[uint64][]*os.File{}
	for _, p := range r.Processes {
		for n := range p.HostMappings {
			f, err := s.HostMappingFile(p.ID, n)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mappings[p.ID] = append(mappings[p.ID], f)
		}
	}
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := other()
	if err := next.Restore(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Processes {
		if err := next.Adopt(p.ID, os.Getpid(), mappings[p.ID]); err != nil {
			t.Fatal(err)
		}
	}
	if err := next.Resume(); err != nil {
		t.Fatal(err)
	}
	return next
}

// TestSaveAndGoOn: a job that was saved goes on in place. The second save writes the changed blocks.
func TestSaveAndGoOn(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(8 * backend.Granule)
	c.post("cuMemsetD8Async", a, uint8(1), uint64(2*backend.Granule), uint64(0))
	c.post("copy_in", a+4*backend.Granule, []byte("abc"), uint64(3), uint64(0))
	c.must("cuCtxSynchronize")
	folder := Folder(t.TempDir())
	first := saveJob(t, s, folder, SaveOptions{})
	if first.Bytes != 8*backend.Granule || first.Zero != 5*backend.Granule || first.Twice != backend.Granule || first.Written != 2*backend.Granule {
		t.Errorf("first report = %+v, want 8 blocks: 5 zero, 1 twice, 2 written", first)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	c.post("copy_in", a+4*backend.Granule, []byte("xyz"), uint64(3), uint64(0))
	c.must("cuCtxSynchronize")
	second := saveJob(t, s, folder, SaveOptions{Upon: first.ID})
	if second.Written != backend.Granule || second.Known != backend.Granule || second.Twice != backend.Granule {
		t.Errorf("second report = %+v, want one block written, one known and one twice", second)
	}
	next := serverOf(t, "other", nil, testMemory)
	replaceServer(t, s, second, folder, next)
	if got := c.readBytes(a+4*backend.Granule, 4); string(got) != "xyz\x00" {
		t.Errorf("restored memory = %q, want \"xyz\\x00\"", got)
	}
	if got := c.readBytes(a+2*backend.Granule-1, 2); string(got) != "\x01\x00" {
		t.Errorf("memory at the border of two blocks = %q, want \"\\x01\\x00\"", got)
	}
	// All again: the blocks of the saves before are not known.
	third := saveJob(t, next, folder, SaveOptions{})
	if third.Written != 2*backend.Granule || third.Known != 0 {
		t.Errorf("third report = %+v, want 2 blocks written and no block known", third)
	}
	if err := next.Resume(); err != nil {
		t.Fatal(err)
	}
}

// TestSeenAgain: missed features and faults of programs stay known in each server that they come to, and their lists do
// not grow with lies.
func TestSeenAgain(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	p, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	p.noteMissed("cuTexObjectCreate: no textures")
	s.seen.noteFault(7, errors.New("an illegal address"))
	folder := Folder(t.TempDir())
	r := saveJob(t, s, folder, SaveOptions{})
	next := serverOf(t, "other", nil, testMemory)
	replaceServer(t, s, r, folder, next)
	next.allProcesses()[0].noteMissed("cuTexObjectCreate: no textures")
	next.allProcesses()[0].noteMissed("cuFoo: unknown")
	st := next.Status()
	if want := []string{"cuTexObjectCreate: no textures", "cuFoo: unknown"}; !slices.Equal(st.Missed, want) {
		t.Errorf("missed %q", st.Missed)
	}
	if want := []string{"process 7: an illegal address"}; !slices.Equal(st.Faults, want) {
		t.Errorf("faults %q", st.Faults)
	}
	next.seen.recallSeen(slices.Repeat([]string{"a\nb"}, 10*maxMissed), slices.Repeat([]string{strings.Repeat("x", 10*maxSeen)}, 10*maxFaults))
	if missed, faults := next.seen.allSeen(); len(missed) != maxMissed || missed[0] != "a b" || len(faults) != maxFaults || len(faults[0]) != maxSeen {
		t.Errorf("%d, %d of %d bytes", len(missed), len(faults), len(faults[0]))
	}
}

// TestRestoreRefused: devices that are not like the saved devices, and files that are not like the written files.
func TestRestoreRefused(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory, testMemory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 1)
	a := c.alloc(100)
	c.post("cuMemsetD8Async", a, uint8(1), uint64(100), uint64(0))
	c.must("cuCtxSynchronize")
	c.must("cuStreamCreate", uint64(streamA), uint32(0))
	folder := Folder(t.TempDir())
	r := saveJob(t, s, folder, SaveOptions{})
	for _, tc := range []struct {
		name   string
		memory []uint64
		change func(string) string
		want   string
	}{
		{"fewer named", []uint64{testMemory}, nil, "the job had 2 devices, here are 1"},
		{"smaller", []uint64{testMemory, testMemory / 2}, nil, "device 1 had 67108864 bytes of memory, here it has 33554432"},
		{"version", []uint64{testMemory, testMemory}, func(s string) string { return strings.Replace(s, `"version":1`, `"version":9`, 1) }, "is of version 9, this is 2"},
		{"half", []uint64{testMemory, testMemory}, func(s string) string { return s[:len(s)/2] }, "state.json is damaged"},
		{"a call is missing", []uint64{testMemory, testMemory}, func(s string) string {
			i := strings.Index(s, `"calls":[`)
			return s[:i] + `"calls":[]` + s[strings.Index(s[i:], "]")+i+1:]
		}, "was not made again"},
		{"another file", []uint64{testMemory, testMemory}, func(s string) string { return strings.ReplaceAll(s, `"file":"blocks`, `"file":"../blocks`) }, "no file of a save"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from := folder
			if tc.change != nil {
				from = Folder(t.TempDir())
				for _, name := range r.Files {
					b, err := os.ReadFile(string(folder) + "/" + name)
					if err != nil {
						t.Fatal(err)
					}
					if name == stateName {
						b = []byte(tc.change(string(b)))
					}
					if err := os.WriteFile(string(from)+"/"+name, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			var order []int
			if len(tc.memory) == 1 {
				order = []int{0} // else the job's devices would share device 0
			}
			err := serverOf(t, "test", order, tc.memory...).Restore(t.Context(), from)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	larger := serverOf(t, "other", nil, 2*testMemory, 2*testMemory, testMemory)
	replaceServer(t, s, r, folder, larger)
	if out := c.must("cuDeviceGetCount"); out[0] != 2 {
		t.Errorf("%d devices", out[0])
	}
	if free, total := u64(c.must("cuMemGetInfo_v2")), u64(c.must("cuMemGetInfo_v2")[8:]); total != testMemory || free >= total {
		t.Errorf("%d of %d bytes are free", free, total)
	}
}

// TestNotSaved: why a job cannot be saved. The job goes on.
func TestNotSaved(t *testing.T) {
	folder := Folder(t.TempDir())
	t.Run("work that waits for what is behind the gate", func(t *testing.T) {
		s := serverOf(t, "test", nil, testMemory)
		_, cs := attachProcess(t, s, 1)
		c := cs[0]
		c.beginContext(ctxA, 0)
		c.must("cuStreamCreate", uint64(streamA), uint32(1))
		c.post("host_func", uint64(streamA), uint64(41))
		if ticket, _, _ := c.nextFunction(); ticket != 41 {
			t.Fatalf("function %d is to be called", ticket)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*firstTry)
		defer cancel()
		_, err := s.Save(ctx, folder, SaveOptions{})
		if err == nil || !strings.Contains(err.Error(), "work that does not end and cannot be held") || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		c.post("host_func_done", uint64(41))
		c.must("cuStreamSynchronize", uint64(streamA))
		saveJob(t, s, folder, SaveOptions{})
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		c.must("cuCtxSynchronize")
	})
	t.Run("a sink that is full", func(t *testing.T) {
		s := serverOf(t, "test", nil, testMemory)
		_, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, 0)
		if _, err := s.Save(t.Context(), Folder("/proc/none"), SaveOptions{}); err == nil {
			t.Error("a save into a folder that cannot be written succeeded")
		}
		cs[0].must("cuCtxSynchronize")
	})
}
