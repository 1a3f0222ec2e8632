// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Singctl is how people ask the daemons: for the faults of a node, the state of a job, for work on checkpoints, and
// to move jobs. Singctl runs as its caller, and munge tells the daemon the caller's name.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// version is set by the linker.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	a := &app{
		stdout: os.Stdout, stderr: os.Stderr, terminal: movesCursor(os.Stderr), outTerminal: movesCursor(os.Stdout),
		colours: wantsColours(os.Stdout),
		now:     time.Now, here: hostName(),
		port: rpc.Port,
	}
	if port, ok := os.LookupEnv("SINGULARITY_SLURM_PORT"); ok {
		a.port = port
	}
	a.controller, _ = os.LookupEnv("SINGULARITY_SLURM_CONTROLLER")
	socket, _ := os.LookupEnv("SINGULARITY_SLURM_MUNGE_SOCKET")
	a.coder = munge.Programs{Socket: socket}
	code := a.runCommand(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// movesCursor tells whether lines that change may be written to a file: to a terminal that
// understands how.
func movesCursor(f *os.File) bool {
	kind, _ := os.LookupEnv("TERM")
	return isTerminal(f) && kind != "dumb"
}

// wantsColours tells whether colours may be written to a file: as movesCursor, unless the variable NO_COLOR is not
// empty (no-color.org).
func wantsColours(f *os.File) bool {
	no, _ := os.LookupEnv("NO_COLOR")
	return movesCursor(f) && no == ""
}
