// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// goesOnError says that an action goes on, and that its end is not known yet.
type goesOnError struct {
	id  int64
	err error
}

func (e *goesOnError) Error() string {
	if errors.Is(e.err, context.Canceled) {
		return fmt.Sprintf("action %d goes on", e.id)
	}
	return fmt.Sprintf("action %d goes on: %v", e.id, e.err)
}

func (e *goesOnError) Unwrap() error { return e.err }

// notDoneError says that an action ended otherwise than asked.
type notDoneError struct{ action *control.Action }

func (e *notDoneError) Error() string {
	m := e.action
	return fmt.Sprintf("action %d: %s job %d: %s: %s", m.GetId(), m.GetKind(), m.GetJob(), stateWords(m.GetState()), orDefault(m.GetProblem(), "no reason was given"))
}

// actionCommand makes the flags that all actions have, and runs an action: the request's kind, or else the command's
// name.
func (a *app) actionCommand(c *cobra.Command, request func() (*control.ActRequest, error)) *cobra.Command {
	var reason string
	var wait, noWait bool
	c.Args, c.ValidArgsFunction = argumentCount(1, 1, "one job"), a.completeJob
	c.Flags().StringVar(&reason, "reason", "", "`TEXT` that will stand in the job's comment and in the history")
	c.Flags().BoolVar(&wait, "wait", true, "wait until it is done")
	c.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as preemptd has taken it on")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := request()
		if err != nil {
			return err
		}
		j, err := a.slurm.findJob(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		req.Kind, req.Job, req.Reason = cmp.Or(req.Kind, cmd.Name()), j.name, reason
		return a.askController(cmd.Context(), func(c *control.Client) error {
			begun, err := c.Act(cmd.Context(), req)
			if errors.Is(err, control.ErrNothingToDo) {
				a.printNothingToDo(err)
				return nil
			}
			if err != nil {
				return err
			}
			if noWait || !wait {
				return a.printAction(begun)
			}
			return a.followAction(cmd.Context(), c, begun.GetId())
		})
	}
	return c
}

// followAction shows an action until the action has ended, and prints its result.
func (a *app) followAction(ctx context.Context, c *control.Client, id int64) error {
	p := a.newProgress()
	defer p.endLine()
	var lines []*control.Line
	ended, err := c.Watch(ctx, id, func(m *control.Action) {
		lines = append(lines, m.GetLines()...)
		if m.GetEnded() == nil && m.GetStep() != "" {
			p.showProgress(&rpc.Progress{Phase: orDefault(m.GetDoing(), m.GetStep()), Text: m.GetProblem()})
		}
	})
	p.endLine()
	if err != nil {
		return &goesOnError{id, err}
	}
	ended.Lines = lines
	if a.json || ended.GetState() == "done" {
		err = a.printAction(ended)
	}
	if err == nil && ended.GetState() != "done" {
		err = &notDoneError{ended}
	}
	return err
}

// printNothingToDo says why no action was begun for a job that is as the person would have it.
func (a *app) printNothingToDo(why error) {
	if a.json {
		a.printJSON(map[string]any{"nothing_to_do": why.Error()})
		return
	}
	fmt.Fprintln(a.stdout, safeLine(why.Error()))
}

func (a *app) printAction(m *control.Action) error {
	if a.json {
		a.printMessage(m)
		return nil
	}
	state := "taken on; singctl history --action " + strconv.FormatInt(m.GetId(), 10) + " says how it goes"
	if m.GetEnded() != nil {
		state = fmt.Sprintf("%s in %s", stateWords(m.GetState()), durationText(m.GetEnded().AsTime().Sub(m.GetCreated().AsTime())))
		for _, l := range m.GetLines() {
			if l.GetText() != "" && l.GetAttempt() == 0 { // with attempts, the text is why one failed
				state += "; " + l.GetText()
			}
		}
	}
	fmt.Fprintf(a.stdout, "action %d: %s job %d: %s\n", m.GetId(), safeLine(m.GetKind()), m.GetJob(), safeLine(state))
	return nil
}

// askController calls f with the preemptd that works.
func (a *app) askController(ctx context.Context, f func(*control.Client) error) error {
	hosts := []string{a.controller}
	if a.controller == "" {
		var err error
		if hosts, err = a.slurm.controllerHosts(ctx); err != nil {
			return err
		}
	}
	var tried []string
	for _, host := range hosts {
		address, err := controllerAddress(host)
		if err != nil {
			return err
		}
		tried = append(tried, address)
		if !acceptsConnections(ctx, address) {
			continue
		}
		c, err := control.Dial(address, a.here, a.coder)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return control.Errorf(control.ErrUnreachable, "no preemptd answers at %s", strings.Join(tried, ", "))
}

// controllerAddress adds the usual port to a host without a port.
func controllerAddress(host string) (string, error) {
	name, port, err := net.SplitHostPort(host)
	if err != nil && !strings.ContainsAny(host, "[]:") {
		return net.JoinHostPort(host, control.Port), nil
	}
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || name == "" {
		return "", rpc.Errorf(rpc.ErrInvalid, "controller %.80q: --controller, or else SINGULARITY_SLURM_CONTROLLER, wants HOST or HOST:PORT", host)
	}
	return host, nil
}

// controllerHosts are the hosts of slurmctld, beside which preemptd usually is.
func (s slurm) controllerHosts(ctx context.Context) ([]string, error) {
	out, err := s.runCommand(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	var hosts []string
	for l := range strings.Lines(out) {
		key, value, _ := strings.Cut(l, "=")
		if !strings.HasPrefix(key, "SlurmctldHost") {
			continue
		}
		value = strings.TrimSpace(value)
		if _, address, ok := strings.Cut(value, "("); ok { // "ctl(10.0.0.1)"
			value = strings.TrimSuffix(address, ")")
		}
		if value != "" {
			hosts = append(hosts, value)
		}
	}
	if len(hosts) == 0 {
		return nil, control.Errorf(control.ErrUnreachable, "scontrol show config names no SlurmctldHost, beside which preemptd would be")
	}
	return hosts, nil
}
