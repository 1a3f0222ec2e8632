// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// slurmAgain is the wait before a controller that does not answer is asked again.
const slurmAgain = 2 * time.Second

// probeSlurm reads Slurm's configuration, as soon as slurmctld answers.
func (n *node) probeSlurm(ctx context.Context) (func(), error) {
	for said := ""; ; {
		s, err := host.ReadSlurm(ctx, n.cfg.Scontrol, n.cfg.NodeName)
		if err == nil {
			n.cluster = s
			return nil, nil
		}
		if errors.Is(err, host.ErrNoScontrol) {
			return nil, fmt.Errorf("%w; name its path in proxyd.yaml: scontrol", err)
		}
		if err.Error() != said {
			said = err.Error()
			n.log.Warn("proxyd waits for Slurm's configuration, which scontrol does not show", "error", err)
			n.notify("STATUS=waits for Slurm's configuration: " + said)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(slurmAgain):
		}
	}
}
