// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// own is this test as the process at the other end of a ring.
type own struct {
	once  sync.Once
	ended chan string

	mu   sync.Mutex
	text [3]bytes.Buffer
}

func (o *own) Memory() wire.Process { return wire.Process(os.Getpid()) }

func (o *own) Print(fd int, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text[fd].Write(text)
}

func (o *own) Watch() string { return <-o.ended }

func (o *own) Close() { o.once.Do(func() { close(o.ended) }) }

// testMemory is how much each device of a test has.
const testMemory = 64 << 20

// newServer makes a server with software GPUs.
func newServer(t testing.TB, devices int) *Server {
	t.Helper()
	cfg := softgpu.Config{Seed: "test", Workers: 1}
	for range devices {
		cfg.Memory = append(cfg.Memory, testMemory)
	}
	b, err := softgpu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: b, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// attachProcess makes a process of this test, with as many threads.
func attachProcess(t testing.TB, s *Server, threads int) (*process, []*client) {
	t.Helper()
	return attachPeer(t, s, threads, &own{ended: make(chan string)})
}

// attachPeer makes a process with a peer of the caller's.
func attachPeer(t testing.TB, s *Server, threads int, peer driver.Peer) (*process, []*client) {
	t.Helper()
	ring, err := wire.Create(wire.Options{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	var clients []*client
	for i := range threads {
		clients = append(clients, connectRing(t, ring.File(), uint32(i)))
	}
	p, err := s.makeProcess(ring, peer, visibility{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return p, clients
}

// attachSeeing makes a process of one thread with a value of CUDA_VISIBLE_DEVICES.
func attachSeeing(t testing.TB, s *Server, visible string) *client {
	t.Helper()
	ring, err := wire.Create(wire.Options{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := connectRing(t, ring.File(), 0)
	if _, err := s.makeProcess(ring, &own{ended: make(chan string)}, visibility{visible: &visible}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return c
}

// The handles that tests make up.
const (
	ctxA    = 0x10001
	ctxB    = 0x10002
	streamA = 0x20001
	streamB = 0x20002
	eventA  = 0x30001
	eventB  = 0x30002
)

// beginContext makes a context on a device and makes the context current.
func (c *client) beginContext(ctx uint64, dev int32) {
	c.t.Helper()
	c.must("cuCtxCreate_v2", ctx, uint32(0), dev)
	c.context = ctx
}

// alloc allocates memory.
func (c *client) alloc(n uint64) uint64 {
	c.t.Helper()
	return c.callForNumber("cuMemAlloc_v2", n)
}

// readBytes returns the bytes at an address of a device.
func (c *client) readBytes(a, n uint64) []byte {
	c.t.Helper()
	return c.must("copy_out", a, n, uint64(0))[8:]
}
