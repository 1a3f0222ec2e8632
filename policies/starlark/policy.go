// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package starlark is the policy that a site writes itself, in a file: policy.star. The file defines
// decide(cluster), which looks at the snapshot and returns intents:
//
//	def decide(cluster):
//	    return [preempt(j, reason = "tests run at night", park = True)
//	            for j in cluster.jobs if j.state == "running" and j.name == "test" and j.preemptable]
//
// The file has no other means: it reads no files, opens no connections, loads no other file, and its steps are
// counted. preemptd bounds its time and memory.
package starlark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// settings are the settings that a site can change.
type settings struct {
	File  string `json:"file"`  // the site's own
	Steps uint64 `json:"steps"` // that a decision may take
}

// site is the policy.
type site struct {
	settings settings
	decide   starlark.Callable
	quiet    bool // output of print is dropped
}

// New returns the policy with its default settings.
func New() sdk.Policy { return newSite() }

func newSite() *site {
	return &site{settings: settings{File: "/etc/singularity-slurm/policies/policy.star", Steps: 100_000_000}}
}

// Describe returns the policy's name.
func (s *site) Describe() sdk.Description {
	return sdk.Description{Name: "starlark", Summary: "decides as the site's own policy.star says"}
}

// Configure takes settings, and reads and checks the file. A site without a file gets no intents.
func (s *site) Configure(data []byte) error {
	if err := sdk.Settings(data, &s.settings); err != nil {
		return err
	}
	text, err := readFile(s.settings.File)
	if errors.Is(err, os.ErrNotExist) && len(data) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return s.loadFile(text)
}

// maxFile bounds a file: reading deeply nested text takes stack.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	return text, err
}

// trial is how long a decision on the sample may take.
const trial = 5 * time.Second

// loadFile checks the file and runs it once, which defines its functions; then the file is tried on a sample, so that
// code that would fail in a decision is reported when the file is saved.
func (s *site) loadFile(text []byte) error {
	options := &syntax.FileOptions{Set: true, While: false, TopLevelControl: true}
	file, err := options.Parse(s.settings.File, text, 0)
	if err != nil {
		return err
	}
	program, err := starlark.FileProgram(file, builtins.Has)
	if err != nil {
		return err
	}
	if err := checkFile(file); err != nil {
		return err
	}
	globals, err := program.Init(s.newThread(), builtins)
	if err != nil {
		return withTrace(err)
	}
	decide, ok := globals["decide"].(*starlark.Function)
	if !ok {
		return fmt.Errorf("%s: there is no function decide(cluster)", s.settings.File)
	}
	if decide.NumParams() != 1 {
		return fmt.Errorf("%s: decide has one parameter, the cluster, not %d", s.settings.File, decide.NumParams())
	}
	globals.Freeze() // a decision leaves no values for the next
	was := s.decide
	s.decide = decide
	ctx, cancel := context.WithTimeout(context.Background(), trial)
	defer cancel()
	s.quiet = true // output about the sample tells nothing about the site's cluster
	defer func() { s.quiet = false }()
	if _, err := s.Decide(ctx, sampleSnapshot()); err != nil {
		s.decide = was
		return fmt.Errorf("tried on a sample: %w", err)
	}
	return nil
}

// printed is where text goes that the file prints: the standard error with which the process began.
// sdk.Serve replaces os.Stderr by a stream that loses its last lines when the process is ended.
var printed = os.Stderr

// newThread returns a thread that runs a piece of the file. Printed text is logged.
func (s *site) newThread() *starlark.Thread {
	t := &starlark.Thread{Name: "policy", Print: func(_ *starlark.Thread, text string) {
		if !s.quiet {
			fmt.Fprintln(printed, text)
		}
	}}
	t.SetMaxExecutionSteps(s.settings.Steps)
	return t
}

// Decide asks the file.
func (s *site) Decide(ctx context.Context, snapshot *sdk.Snapshot) ([]sdk.Intent, error) {
	if s.decide == nil {
		return nil, nil
	}
	t := s.newThread()
	stop := context.AfterFunc(ctx, func() { t.Cancel("nobody waits for the answer any more") })
	defer stop()
	answer, err := starlark.Call(t, s.decide, starlark.Tuple{newCluster(snapshot)}, nil)
	if err != nil {
		return nil, withTrace(err)
	}
	return intentsOf(answer)
}

// withTrace returns an error with the lines that led to it.
func withTrace(err error) error {
	var evaluating *starlark.EvalError
	if errors.As(err, &evaluating) {
		return errors.New(evaluating.Backtrace())
	}
	return err
}

// intentsOf turns the value that decide returned to intents.
func intentsOf(answer starlark.Value) ([]sdk.Intent, error) {
	if answer == starlark.None {
		return nil, nil
	}
	list, ok := answer.(starlark.Iterable)
	if !ok {
		return nil, fmt.Errorf("decide returns a list of intents, not %s", answer.Type())
	}
	var all []sdk.Intent
	var v starlark.Value
	for i := list.Iterate(); i.Next(&v); {
		wanted, ok := v.(intent)
		if !ok {
			return nil, fmt.Errorf("decide returns a list of intents, such as preempt(job, reason = …), and not of %s", v.Type())
		}
		all = append(all, wanted.Intent)
	}
	return all, nil
}
