// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Main is the life of a host's first process. Main returns only if the host could not be built.
func Main() error {
	reaped := make(chan os.Signal, 1)
	signal.Notify(reaped, unix.SIGCHLD)
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP) // a host ends by SIGKILL, like a power cut
	ready := os.NewFile(readyFD, "ready")
	s, err := readSpec()
	if err == nil {
		err = buildHost(s)
	}
	if err != nil {
		fmt.Fprint(ready, err)
		return err
	}
	fmt.Fprint(ready, "ok")
	ready.Close()
	for range reaped {
		reapOrphans()
	}
	return nil
}

func readSpec() (Spec, error) {
	f := os.NewFile(specFD, "spec")
	defer f.Close()
	var s Spec
	err := json.NewDecoder(f).Decode(&s)
	return s, err
}

// reapOrphans collects every child that has ended: as PID 1, this process inherits each process
// that has lost its own parent.
func reapOrphans() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
