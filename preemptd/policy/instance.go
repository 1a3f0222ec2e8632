// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// Time limits of a policy's process, beside the time to answer.
const (
	startTime = 30 * time.Second // from the start of a process until the first question
	endTime   = 5 * time.Second  // for the end of a process after its kill
)

// instance is a process of a policy, ready to be asked.
type instance struct {
	plugin  *plugin.Client
	process *process
	client  *sdk.Client
	output  *output
	who     sdk.Description
}

// startInstance starts a process and asks for its description. On error no process is left.
func startInstance(ctx context.Context, c Config, out *output) (*instance, error) {
	i := &instance{output: out}
	i.plugin = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake,
		Plugins:          plugin.PluginSet{sdk.PluginName: &sdk.Plugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       out,
		SyncStderr:       out,
		StartTimeout:     startTime,
		SkipHostEnv:      true,
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, folder string) (runner.Runner, error) {
			i.process = newProcess(c, cmd, folder, out)
			return i.process, nil
		},
	})
	if err := i.introducePolicy(ctx, c); err != nil {
		i.killProcess()
		return nil, err
	}
	return i, nil
}

// newProcess is the command that go-plugin has begun, with the fields that go-plugin does not set.
func newProcess(c Config, spec *exec.Cmd, folder string, out *output) *process {
	cmd := exec.Command(c.Path, c.Args...) //nolint:gosec // a program that an administrator configured
	cmd.Env = slices.Concat(spec.Env, []string{"PATH=/usr/local/bin:/usr/bin:/bin"})
	if c.Memory > 0 {
		// A policy in Go collects garbage before its memory comes to the bound.
		cmd.Env = append(cmd.Env, "GOMEMLIMIT="+strconv.FormatInt(c.Memory*3/4, 10))
	}
	return &process{cmd: cmd, memory: c.Memory, folder: folder, said: out, done: make(chan struct{}), saidAll: make(chan struct{})}
}

func (i *instance) introducePolicy(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	conn, err := i.plugin.Client()
	if err != nil {
		return i.explainFailure("start", err)
	}
	raw, err := conn.Dispense(sdk.PluginName)
	if err != nil {
		return i.explainFailure("start", err)
	}
	i.client = raw.(*sdk.Client) //nolint:errcheck // sdk.Plugin returns no other type
	if i.who, err = i.client.Describe(ctx); err != nil {
		return i.explainFailure("describe", err)
	}
	if err := i.client.Configure(ctx, c.Settings); err != nil {
		return i.explainFailure("configure", err)
	}
	return nil
}

// askIntents asks for intents, and says whether the process may be asked again.
func (i *instance) askIntents(ctx context.Context, timeout time.Duration, pb *policypb.Snapshot) (intents []sdk.Intent, sane bool, err error) {
	i.output.beginQuestion()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	intents, err = i.client.Decide(limited, pb)
	switch {
	case err == nil:
		return intents, true, nil
	case ctx.Err() != nil:
		return nil, true, ctx.Err() // the caller went away: the policy has no fault
	case limited.Err() != nil, status.Code(err) == codes.DeadlineExceeded: // whichever clock was first
		return nil, false, &Failure{Hang, fmt.Sprintf("no answer in %v", timeout)}
	}
	err = i.explainFailure("decide", err)
	var f *Failure
	errors.As(err, &f)
	return nil, f.Kind == Refusal, err
}

// explainFailure makes a Failure of an error that the process caused.
func (i *instance) explainFailure(doing string, err error) error {
	s, isStatus := status.FromError(err)
	switch {
	case isStatus && (s.Code() == codes.InvalidArgument || s.Code() == codes.Unknown):
		return &Failure{Refusal, s.Message()}
	case isStatus && s.Code() == codes.ResourceExhausted:
		return &Failure{Flood, s.Message()}
	case isStatus && s.Code() == codes.DeadlineExceeded:
		return &Failure{Hang, fmt.Sprintf("%s: no answer in %v", doing, startTime)}
	case !isStatus && doing == "decide":
		return &Failure{Nonsense, err.Error()}
	}
	what := fmt.Sprintf("%s: %v", doing, err)
	if exit, ended := i.exitReason(); ended {
		what += ": it ended: " + exit
	}
	if said := i.output.lastComplaint(); said != "" {
		what += ": " + said
	}
	return &Failure{Crash, what}
}

// exitReason says how the process ended, if it did, when all of its output was read. After a broken connection the
// end comes soon, so exitReason waits for it.
func (i *instance) exitReason() (string, bool) {
	if i.process == nil || i.process.cmd.Process == nil {
		return "", false
	}
	select {
	case <-i.process.done:
	case <-time.After(endTime):
		return "", false
	}
	select {
	case <-i.process.saidAll:
	case <-time.After(endTime): // a process that escaped from the group has the pipe open
	}
	if i.process.exit == nil {
		return "exit status 0", true
	}
	return i.process.exit.Error(), true
}

// isAlive reports whether the process is there.
func (i *instance) isAlive() bool {
	select {
	case <-i.process.done:
		return false
	default:
		return true
	}
}

// killProcess kills the process. A policy has no state to save, so there is no request to leave. A process that
// escaped from the group may keep go-plugin waiting; killProcess does not wait.
func (i *instance) killProcess() {
	if i.process != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		_ = i.process.Kill(ctx)
		cancel()
	}
	gone := make(chan struct{})
	go func() {
		i.plugin.Kill()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(endTime):
	}
	if i.process != nil && i.process.stdout != nil {
		i.process.closePipes()
	}
	if i.process != nil { // go-plugin forgets its folder when the process never came up
		_ = os.RemoveAll(i.process.folder)
	}
}
