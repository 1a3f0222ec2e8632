// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// qosAction is the name of the action on the wire, and in history.
const qosAction = "requeue"

// qosCommand is singctl qos.
type qosCommand struct{ *app }

func (a qosCommand) buildCobra() *cobra.Command {
	var qos string
	var hold bool
	c := &cobra.Command{
		Use: "qos JOB QOS", Short: "Give a job another QOS, for which a running job is requeued",
		Long: `qos puts a job into another QOS, and so perhaps into another tier. Slurm allows that only to a job that
waits: one that runs leaves its nodes for it, with a checkpoint, and goes on where it left off when there is
room. Users choose among the QOS that the job's account gives them.`,
	}
	c.Flags().BoolVar(&hold, "hold", false, "leave it held until singctl resume")
	a.actionCommand(c, func() (*control.ActRequest, error) {
		return &control.ActRequest{Kind: qosAction, Qos: qos, Hold: hold}, nil
	})
	act := c.RunE
	c.Args = argumentCount(2, 2, "a job and a QOS")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if qos = args[1]; qos == "" {
			return rpc.Errorf(rpc.ErrInvalid, "qos wants the name of a QOS")
		}
		return act(cmd, args[:1])
	}
	return c
}

// requeueCommand is singctl requeue JOB --qos QOS: the earlier form of singctl qos, which scripts may use.
type requeueCommand struct{ *app }

func (a requeueCommand) buildCobra() *cobra.Command {
	var qos string
	var hold bool
	c := &cobra.Command{
		Use: "requeue JOB --qos QOS", Short: "Give a job another QOS: see singctl qos", Hidden: true,
		Long: `requeue JOB --qos QOS is singctl qos JOB QOS.`,
	}
	c.Flags().StringVar(&qos, "qos", "", "have the job in this `QOS`")
	c.Flags().BoolVar(&hold, "hold", false, "leave it held until singctl resume")
	return a.actionCommand(c, func() (*control.ActRequest, error) {
		if qos == "" {
			return nil, rpc.Errorf(rpc.ErrInvalid, "requeue wants --qos QOS")
		}
		return &control.ActRequest{Kind: qosAction, Qos: qos, Hold: hold}, nil
	})
}
