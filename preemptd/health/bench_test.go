// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// sound is a proxyd that answers pings.
type sound struct{ rpc.UnimplementedProxydServer }

func (sound) Ping(context.Context, *rpc.PingRequest) (*rpc.PingReply, error) {
	return &rpc.PingReply{Version: "1.2.3", Health: &rpc.Health{Shared: rpc.Health_RIGHT, SharedId: "a", Store: &rpc.Space{Size: 100, Free: 40}, Devices: "cuda"}}, nil
}

// BenchmarkThousandNodes asks 1000 nodes once: a connection and a call each, 32 at a time. cpu-ms/node is of both
// sides together: with a coder within the process, and with the programs munge and unmunge, which each side runs once
// for each question, but without the daemon munged.
func BenchmarkThousandNodes(b *testing.B) {
	b.Run("without munge", func(b *testing.B) { askThousand(b, mungetest.NewRealm().As(0, 0)) })
	b.Run("munge", func(b *testing.B) { askThousand(b, mungetest.Start(b).As(0, 0)) })
}

func askThousand(b *testing.B, coder munge.Coder) {
	server := rpc.NewServer(&munge.CredentialCheck{Node: "n1", Coder: coder, Limits: func(munge.Caller) munge.Limits { return munge.Limits{Bytes: 1 << 20} }}, sound{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(l)
	defer server.Stop()
	ask := func(ctx context.Context) error {
		c, err := rpc.Dial("n1", l.Addr().String(), "ctl", coder)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.PingHealth(ctx)
		return err
	}
	const nodes = 1000
	before := cpuTime(b)
	for b.Loop() {
		slots := make(chan struct{}, atOnce)
		var all sync.WaitGroup
		for range nodes {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if err := ask(b.Context()); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(time.Millisecond)/nodes/float64(b.N), "cpu-ms/node")
}

// cpuTime is the CPU time of this process and its child programs.
func cpuTime(b *testing.B) time.Duration {
	var sum int64
	for _, whose := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(whose, &u); err != nil {
			b.Fatal(err)
		}
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}
