// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Misbehave is a policy that does what its first argument says, as far as it can.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

type misbehave struct{ how string }

func (m misbehave) Describe() sdk.Description {
	return sdk.Description{Name: "misbehave", Version: "1", Summary: m.how}
}

func (m misbehave) Configure(settings []byte) error {
	if m.how == "refuse" || bytes.Contains(settings, []byte("bad")) {
		return errors.New("no such setting")
	}
	return nil
}

func (m misbehave) Decide(ctx context.Context, s *sdk.Snapshot) ([]sdk.Intent, error) {
	one := []sdk.Intent{{Verb: sdk.Preempt, Job: 1, Reason: m.how}}
	switch m.how {
	case "well":
		return one, nil
	case "undecided":
		return nil, errors.New("too many clouds")
	case "crash":
		os.Exit(3)
	case "panic":
		panic("a bug in a policy")
	case "hang":
		<-make(chan int)
	case "memory":
		var all [][]byte
		for {
			all = append(all, bytes.Repeat([]byte{1}, 16<<20))
		}
	case "flood":
		return []sdk.Intent{{Verb: sdk.Hold, Job: 1, Reason: strings.Repeat("x", 40<<20)}}, nil
	case "talk":
		for i := range 10000 {
			fmt.Fprintln(os.Stderr, "line", i, strings.Repeat("y", 5000))
		}
		return one, nil
	case "die later":
		go func() { time.Sleep(10 * time.Millisecond); os.Exit(4) }()
		return one, nil
	}
	return nil, fmt.Errorf("unknown: %q", m.how)
}

// nonsense answers with intents that are none.
type nonsense struct {
	plugin.NetRPCUnsupportedPlugin
	policypb.UnimplementedPolicyServer
}

func (n nonsense) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	policypb.RegisterPolicyServer(s, n)
	return nil
}

func (nonsense) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (nonsense) Describe(context.Context, *policypb.DescribeRequest) (*policypb.DescribeReply, error) {
	return &policypb.DescribeReply{}, nil
}

func (nonsense) Configure(context.Context, *policypb.ConfigureRequest) (*policypb.ConfigureReply, error) {
	return &policypb.ConfigureReply{}, nil
}

func (nonsense) Decide(context.Context, *policypb.Snapshot) (*policypb.Decision, error) {
	return &policypb.Decision{Intents: []*policypb.Intent{{Verb: 99}}}, nil
}

func main() {
	how := os.Args[1]
	handshake := sdk.Handshake
	switch how {
	case "end":
		fmt.Fprintln(os.Stderr, "I do not feel like it")
		os.Exit(5)
	case "babble":
		for {
			fmt.Println(strings.Repeat("babble ", 100))
		}
	case "elsewhere":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc")
		<-make(chan int)
	case "old":
		handshake.ProtocolVersion = 99
	case "orphan": // a child in a group of its own that keeps its output open
		child := exec.Command("setsid", "sleep", "600")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[2], fmt.Append(nil, child.Process.Pid), 0o600); err != nil {
			panic(err)
		}
		how = "crash"
	case "child":
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[2], fmt.Append(nil, child.Process.Pid), 0o600); err != nil {
			panic(err)
		}
		how = "well"
	case "file": // does what a file says when it starts
		data, err := os.ReadFile(os.Args[2])
		if err != nil {
			panic(err)
		}
		how = strings.TrimSpace(string(data))
	case "nonsense":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: handshake, Plugins: plugin.PluginSet{sdk.PluginName: nonsense{}},
			GRPCServer: plugin.DefaultGRPCServer,
		})
		return
	}
	if how == "old" {
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: handshake, Plugins: plugin.PluginSet{sdk.PluginName: &sdk.Plugin{Policy: misbehave{how}}},
			GRPCServer: plugin.DefaultGRPCServer,
		})
		return
	}
	sdk.Serve(misbehave{how})
}
