// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// Start starts a keeper, hands over the files that the keeper must hold open (the cluster's lock
// first), and follows the keeper until the cluster is up. On error, or when ctx ends, the keeper
// is dead and no process of the cluster runs.
func Start(ctx context.Context, s Spec, hold [2]*os.File, tell func(Event)) error {
	folder, err := s.clusterFolder()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(folder.KeeperLog(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	lifeR, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	events, eventsW, err := os.Pipe()
	if err != nil {
		lifeR.Close()
		return err
	}
	defer events.Close()

	cmd := exec.Command("/proc/self/exe", Arg)
	cmd.Args[0] = "minicluster"
	cmd.Args = append(cmd.Args, s.Name) // so that ps tells clusters apart
	cmd.ExtraFiles = []*os.File{lifeR, eventsW, hold[0], hold[1]}
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	err = cmd.Start()
	lifeR.Close()
	eventsW.Close()
	if err != nil {
		return startError(err)
	}
	err = state.SetKeeper(hold[0], cmd.Process.Pid)
	if err == nil {
		err = followStart(ctx, s, lifeline, events, tell)
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return err
	}
	return cmd.Process.Release()
}

func startError(err error) error {
	if errors.Is(err, unix.EPERM) {
		return errors.New("this kernel or container does not let us make namespaces (CAP_SYS_ADMIN is missing)")
	}
	return fmt.Errorf("start the cluster's keeper: %w", err)
}

// followStart returns nil once the cluster is up and the keeper knows that it may outlive us.
func followStart(ctx context.Context, s Spec, lifeline, events *os.File, tell func(Event)) error {
	stop := context.AfterFunc(ctx, func() { events.Close() })
	defer stop()
	if err := json.NewEncoder(lifeline).Encode(s); err != nil {
		return err
	}
	dec := json.NewDecoder(events)
	for {
		var e Event
		err := dec.Decode(&e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return errors.New("the cluster's keeper was killed while it raised the cluster")
		case err != nil:
			return fmt.Errorf("the cluster's keeper: %w", err)
		case e.Error != "":
			return errors.New(e.Error)
		case e.Done:
			_, err := io.WriteString(lifeline, stay)
			return err
		}
		tell(e)
	}
}
