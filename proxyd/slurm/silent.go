// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// ErrSilent is wrapped by errors of requests that slurmctld did not answer. The same request may
// succeed later.
var ErrSilent = errors.New("slurmctld does not answer")

// silentTexts are messages of Slurm's commands when slurmctld is away, starts, or is overloaded.
// Seen with 22.05 to 26.05.
var silentTexts = []string{
	"Unable to contact slurm controller",
	"Socket timed out on send/recv operation",
	"Zero Bytes were transmitted or received",
	"Slurm controller not responding",
	"Transport endpoint is not connected",
	"Connection refused",
	"in standby mode",
}

// controllerCommand runs a command of Slurm, and names the errors that mean a silent slurmctld.
type controllerCommand struct{ command slurmrest.Scontrol }

// Run implements slurmrest.Scontrol.
func (c controllerCommand) Run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := c.command.Run(ctx, args...)
	var failed *slurmrest.ScontrolError
	if errors.As(err, &failed) && isSilentText(failed.Output) {
		err = fmt.Errorf("%w: %w", ErrSilent, err)
	}
	return out, err
}

func isSilentText(output string) bool {
	return slices.ContainsFunc(silentTexts, func(text string) bool { return strings.Contains(output, text) })
}
