// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
)

// forwardCommand is the process that carries a capsule's connections to outside to the relay. Only the daemon
// starts this process.
func forwardCommand() *cobra.Command {
	var gate, control int
	c := &cobra.Command{
		Use: "forward", Short: "Carry the connections of a capsule to the relay", Hidden: true, Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch err := life.Become(gate, max(gate, control), func() error { return nil }); {
			case errors.Is(err, life.ErrUnwanted):
				return nil
			case err != nil:
				return err
			}
			l, err := openListener(control, "orders")
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(life.NewLog(os.Stderr), nil))
			return forward.Run(c.Context(), l, log)
		},
	}
	c.Flags().IntVar(&gate, "gate", -1, "become the user that this descriptor tells, before all else")
	c.Flags().IntVar(&control, "control", -1, "take orders from the connections to this descriptor, a socket that listens")
	return c
}
