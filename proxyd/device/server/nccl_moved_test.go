// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// makeNumbered makes a job's device servers, of two devices each, that find each other.
func makeNumbered(t *testing.T, seed string, n int) []*Server {
	t.Helper()
	var all []*Server
	for i := range n {
		b, err := softgpu.New(softgpu.Config{Seed: seed, Workers: 1, Memory: []uint64{testMemory, testMemory}})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler), Self: i, Network: nccl.OverTCP("127.0.0.1")})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, s)
	}
	return all
}

// saveAndEnd saves a job's servers, in the cut of an attempt or each in its own, and ends them. saveAndEnd returns the
// folders and rings that the other servers need.
func saveAndEnd(t *testing.T, old []*Server, attempt uint64) (folders []Folder, rings []map[uint64]*os.File) {
	t.Helper()
	for range old {
		folders = append(folders, Folder(t.TempDir()))
		rings = append(rings, map[uint64]*os.File{})
	}
	for i, s := range old {
		for _, p := range saveJob(t, s, folders[i], SaveOptions{Attempt: attempt}).Processes {
			var err error
			if rings[i][p.ID], err = s.HostMappingFile(p.ID, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rings[i][p.ID].Close() })
		}
	}
	for _, s := range old {
		if err := errors.Join(s.Leave(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return folders, rings
}

// takePlaces has other servers take their places, up to Reconnect.
func takePlaces(t *testing.T, next []*Server, folders []Folder, rings []map[uint64]*os.File) (peers map[int]string) {
	t.Helper()
	peers = map[int]string{}
	for i, s := range next {
		if err := s.Restore(t.Context(), folders[i]); err != nil {
			t.Fatal(err)
		}
		for id, f := range rings[i] {
			if err := s.Adopt(id, os.Getpid(), []*os.File{f}); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if peers[i], err = s.Address(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return peers
}

// reconnectAll reconnects all servers, and resumes them.
func reconnectAll(t *testing.T, next []*Server, peers map[int]string) {
	t.Helper()
	done := make(chan error)
	for _, s := range next {
		go func() { done <- s.Reconnect(t.Context(), peers) }()
	}
	for range next {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, s := range next {
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// movedJob replaces the servers of a job.
func movedJob(t *testing.T, old, next []*Server) {
	t.Helper()
	folders, rings := saveAndEnd(t, old, 0)
	reconnectAll(t, next, takePlaces(t, next, folders, rings))
}

// checkSums has all ranks of a communicator add up their values at a place.
func checkSums(t *testing.T, all []rank, comm uint64, want int32) {
	t.Helper()
	var at []uint64
	for i, r := range all {
		a := r.alloc(64)
		at = append(at, a)
		r.writeInts(a, int32(i+1))
		r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Op: ncclSum, Count: 1, Src: dispatch.Devptr(a), Dst: dispatch.Devptr(a), Comm: dispatch.Comm(comm)})
	}
	for i, r := range all {
		if got := r.readInts(at[i], 1)[0]; got != want {
			t.Errorf("rank %d has %d, want %d", i, got, want)
		}
	}
}

// splitBy makes a communicator of the ranks of each colour, in their order.
func splitBy(all []rank, from, to uint64, colours ...int32) {
	for i, r := range all {
		r.must("comm_split", from, colours[i], int32(0), to, uint64(0), uint64(0), uint32(0))
	}
}

// nameOf returns the name of a rank's communicator.
func nameOf(t *testing.T, servers []*Server, on int, r rank, comm uint64) string {
	t.Helper()
	for _, p := range servers[on].allProcesses() {
		if p.ID != r.p.ID {
			continue
		}
		m, result := p.Comm(dispatch.Comm(comm))
		if result != 0 {
			t.Fatalf("the process has no communicator %#x: %v", comm, result)
		}
		c, err := m.Communicator()
		if err != nil {
			t.Fatal(err)
		}
		return c.ID()
	}
	t.Fatal("the process is gone")
	return ""
}
