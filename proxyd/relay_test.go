// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// TestRelayAnswers: the relay answers only root of a node; its error has the reason if a capsule is
// not admitted.
func TestRelayAnswers(t *testing.T) {
	links, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	orders, toOrders := io.Pipe()
	fromAnswers, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- connections.Run(t.Context(), links, orders, answers, slog.New(slog.DiscardHandler)) }()
	p, err := connections.NewProcess(toOrders, fromAnswers, connections.Settings{PerUser: 1, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a := &relayAnswers{process: p, port: 6834, log: slog.New(slog.DiscardHandler)}
	as := func(uid uint32) context.Context { return munge.WithCaller(t.Context(), munge.Caller{UID: uid}) }
	for uid, ctx := range map[string]context.Context{"a user": as(1001), "a stranger": t.Context()} {
		if _, err := a.Admit(ctx, &rpc.AdmitRequest{Job: "c/1/then", Uid: 1001}); err == nil || !strings.Contains(err.Error(), "proxyds only") {
			t.Errorf("Admit as %s: %v; want a refusal", uid, err)
		}
		if _, err := a.Forget(ctx, &rpc.ForgetRequest{Job: "c/1/then"}); err == nil || !strings.Contains(err.Error(), "proxyds only") {
			t.Errorf("Forget as %s: %v; want a refusal", uid, err)
		}
	}
	admit := func(run uint32) error {
		reply, err := a.Admit(as(0), &rpc.AdmitRequest{Job: "c/1/then", Uid: 1001, Run: run, Ticket: connections.HashTicket("x")})
		if err == nil && reply.GetPort() != 6834 {
			t.Errorf("Admit gave port %d, want 6834", reply.GetPort())
		}
		return err
	}
	if _, err := a.Admit(as(0), &rpc.AdmitRequest{Job: "c/1/then", Uid: 1001, Ticket: connections.HashTicket("x"), Listen: []uint32{70000}}); err == nil || !strings.Contains(err.Error(), "port 70000") {
		t.Errorf("Admit with port 70000: %v; want a refusal", err)
	}
	reply, err := a.Admit(as(0), &rpc.AdmitRequest{Job: "c/1/then", Uid: 1001, Ticket: connections.HashTicket("x"), Listen: []uint32{8888}})
	if l := reply.GetListening(); err != nil || len(l) != 1 || l[0].GetPort() != 8888 || l[0].GetPublic() != 0 || !strings.Contains(l[0].GetProblem(), "clients.ports") {
		t.Errorf("a relay that does not listen for clients: %v, %v", l, err)
	}
	if err := errors.Join(admit(0), admit(2), admit(2)); err != nil {
		t.Error(err)
	}
	if err := admit(1); err == nil || !strings.Contains(err.Error(), "run 2 is over, run 3 has begun") {
		t.Errorf("Admit for an earlier run: %v; want a refusal", err)
	}
	if _, err := a.Forget(as(0), &rpc.ForgetRequest{Job: "c/1/then"}); err != nil {
		t.Error(err)
	}
	if err := admit(1); err != nil {
		t.Errorf("Admit after Forget: %v", err)
	}
	if err := errors.Join(toOrders.Close(), <-ended); err != nil {
		t.Error(err)
	}
}

// TestRelayLinks: the user of the process that handles jobs' connections cannot read the process's
// memory.
func TestRelayLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: another user's process is started")
	}
	links, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	listener, err := links.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	rights, err := lookUpCredential("nobody")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/proc/self/fd/4", "relay-links") // by descriptor: the folder of a test's program is root's
	c.Env, c.Dir, c.ExtraFiles = []string{partVariable + "=1"}, "/", []*os.File{listener, self}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: rights}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := connections.NewProcess(in, out, connections.Settings{PerUser: 1, Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/mem", c.Process.Pid), &st); err != nil || st.Uid != 0 {
		t.Errorf("its memory is user %d's, %v; want root's", st.Uid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	for _, want := range []string{fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", rights.Uid), "CapEff:\t0000000000000000\n", "Groups:\t \n"} {
		if err != nil || !strings.Contains(string(status), want) {
			t.Errorf("%v, want %q in\n%s", err, want, status)
		}
	}
	if err := errors.Join(in.Close(), c.Wait()); err != nil {
		t.Error(err)
	}
}
