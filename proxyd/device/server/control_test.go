// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// serveControl has a server listen for orders. end gets the result of ServeControl.
func serveControl(t *testing.T, s *Server) (path string, end <-chan error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "control")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeControl(l) }()
	return path, ended
}

// connectController connects to a server's control socket.
func connectController(t *testing.T, path string) *Controller {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewController(conn)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestControl: a parent has a server saved, and another server takes over its process.
func TestControl(t *testing.T) {
	ctx, folder := t.Context(), Folder(t.TempDir())
	s := serverOf(t, "test", nil, testMemory)
	p, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	a := cs[0].alloc(100)
	cs[0].post("copy_in", a, []byte("abc"), uint64(3), uint64(0))
	path, end := serveControl(t, s)
	c := connectController(t, path)
	var bad *OrderError
	if err := c.Resume(ctx); !errors.As(err, &bad) || !bad.Temporary || !strings.Contains(bad.Text, "the job is not stopped") {
		t.Error(err)
	}
	if _, err := c.giveOrder(ctx, &order{Do: "dance"}, nil, nil); err == nil || !strings.Contains(err.Error(), `there is no order "dance"`) {
		t.Error(err)
	}
	r, err := c.Save(ctx, folder, SaveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Processes) != 1 || r.Processes[0].ID != p.ID || r.Processes[0].Capsule != os.Getpid() {
		t.Errorf("processes in the report = %+v, want the one process of this capsule", r.Processes)
	}
	st, err := c.Status(ctx)
	if err != nil || !st.Stopped || len(st.Processes) != 1 || st.Processes[0].PID != os.Getpid() || st.Devices[0].Memory != testMemory || st.Devices[0].Used == 0 {
		t.Errorf("after Save, Status = %+v, %v, want a stopped job with one process and used memory", st, err)
	}
	// A new parent takes the place of the parent.
	c.Close()
	c = connectController(t, path)
	with, err := c.FetchHostMappings(ctx, p.ID, len(r.Processes[0].HostMappings))
	if err != nil {
		t.Fatal(err)
	}
	defer localsock.CloseAll(with)
	if _, err := c.FetchHostMappings(ctx, p.ID, len(with)+1); !errors.As(err, &bad) || bad.Temporary {
		t.Error(err)
	}
	if _, err := c.FetchHostMappings(ctx, p.ID+1, 1); !errors.As(err, &bad) || bad.Temporary {
		t.Error(err)
	}
	if err := c.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-end; !errors.Is(err, ErrLeft) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	next := serverOf(t, "other", nil, testMemory)
	path, end = serveControl(t, next)
	c = connectController(t, path)
	if err := c.Restore(ctx, folder); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Status(ctx); err != nil || !st.Stopped || len(st.Processes) != 1 || !st.Processes[0].Absent {
		t.Errorf("after Restore, Status = %+v, %v, want a stopped job with one absent process", st, err)
	}
	if err := c.Adopt(ctx, p.ID+1, os.Getpid(), with); !errors.As(err, &bad) || bad.Temporary {
		t.Error(err)
	}
	if err := c.Adopt(ctx, p.ID, 1<<30, with); !errors.As(err, &bad) || !bad.Temporary || !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := c.Adopt(ctx, p.ID, os.Getpid(), []*os.File{null}); err == nil || !strings.Contains(err.Error(), "it has no ring") {
		t.Error(err)
	}
	if err := c.Adopt(ctx, p.ID, os.Getpid(), with); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if got := cs[0].readBytes(a, 4); string(got) != "abc\x00" {
		t.Errorf("restored memory = %q, want \"abc\\x00\"", got)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// TestControlNetwork: a parent has servers say where they are, and has them reconnected.
func TestControlNetwork(t *testing.T) {
	ctx, job := t.Context(), makeNumbered(t, "test", 2)
	path, _ := serveControl(t, job[0])
	c := connectController(t, path)
	if at, err := c.Address(ctx); at != "" || err != nil {
		t.Errorf("a server without communicators has an address: %q, %v", at, err)
	}
	all := makeRanks(t, job...)
	at, err := c.Address(ctx)
	if err != nil || at == "" {
		t.Errorf("a server with a communicator has the address %q, %v", at, err)
	}
	var bad *OrderError
	if err := c.Reconnect(ctx, map[int]string{0: at}); !errors.As(err, &bad) || !strings.Contains(bad.Text, "not stopped") {
		t.Error(err)
	}
	folders, rings := saveAndEnd(t, job, 0)
	next := makeNumbered(t, "other", 2)
	peers := takePlaces(t, next, folders, rings)
	done := make(chan error)
	for i, s := range next {
		path, _ := serveControl(t, s)
		c := connectController(t, path)
		if at, err := c.Address(ctx); at != peers[i] || err != nil {
			t.Errorf("server %d is at %q, %v", i, at, err)
		}
		go func() { done <- errors.Join(c.Reconnect(ctx, peers), c.Resume(ctx)) }()
	}
	for range next {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	checkSums(t, all, commA, 3)
}

// TestNotBack: a process that does not come back is gone, and new processes can attach.
func TestNotBack(t *testing.T) {
	folder := Folder(t.TempDir())
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	saveJob(t, s, folder, SaveOptions{})
	next := serverOf(t, "other", nil, testMemory)
	if err := next.Restore(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	if err := next.Restore(t.Context(), folder); err == nil {
		t.Error("a server was restored twice")
	}
	if err := next.Resume(); err != nil {
		t.Fatal(err)
	}
	if n := len(next.allProcesses()); n != 0 {
		t.Errorf("%d processes", n)
	}
	_, cs = attachProcess(t, next, 1)
	cs[0].beginContext(ctxA, 0)
}

// TestAttachedLater: a process that connects while the job is stopped is told to ask again, and is attached
// when the job goes on.
func TestAttachedLater(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	path := startListening(t, s)
	saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
	if _, _, err := askRing(path); !errors.Is(err, unix.ERESTART) {
		t.Error(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	ring, keep, err := askRing(path)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	defer ring.Close()
	connectRing(t, ring, 0).beginContext(ctxA, 0)
}

// TestAwaits: no process is attached before the saved state has been restored, because its handles could
// collide with the saved handles.
func TestAwaits(t *testing.T) {
	folder := Folder(t.TempDir())
	s := serverOf(t, "test", nil, testMemory)
	_, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	saveJob(t, s, folder, SaveOptions{})
	b, err := softgpu.New(softgpu.Config{Seed: "other", Workers: 1, Memory: []uint64{testMemory}})
	if err != nil {
		t.Fatal(err)
	}
	next := New(Config{Backend: b, Awaits: true, Log: slog.New(slog.DiscardHandler)})
	path := startListening(t, next)
	for _, step := range []func() error{
		func() error { _, err := next.Save(t.Context(), folder, SaveOptions{}); return err },
		func() error { return next.Restore(t.Context(), folder) },
	} {
		if _, _, err := askRing(path); !errors.Is(err, unix.ERESTART) {
			t.Error(err)
		}
		if err := step(); err != nil && !errors.Is(err, ErrNotSaved) {
			t.Error(err)
		}
	}
	if err := next.Resume(); err != nil {
		t.Fatal(err)
	}
	ring, keep, err := askRing(path)
	if err != nil {
		t.Fatal(err)
	}
	keep.Close()
	ring.Close()
}

// TestUntilCut: a process that waits in UntilCut is woken when a cut begins, and waits again after the cut.
func TestUntilCut(t *testing.T) {
	s := serverOf(t, "test", nil, testMemory)
	p, _ := attachProcess(t, s, 1)
	first, stop := p.UntilCut()
	defer stop()
	saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
	<-first.Done()
	if p.IsGone() {
		t.Error("the process is gone")
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	second, stop := p.UntilCut()
	defer stop()
	if second.Err() != nil {
		t.Error("UntilCut has ended before the next cut")
	}
	p.endProcess("enough")
	<-second.Done()
}
