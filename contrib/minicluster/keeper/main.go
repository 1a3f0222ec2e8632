// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// stay is the word on the lifeline by which the keeper may outlive `up`.
const stay = "stay\n"

// Main is the keeper's life. It returns when the cluster could not be raised.
func Main() error {
	lifeline := bufio.NewReader(os.NewFile(lifelineFD, "lifeline"))
	events := json.NewEncoder(os.NewFile(eventsFD, "events"))
	for fd := lifelineFD; fd <= 6; fd++ {
		unix.CloseOnExec(fd)
	}
	var s Spec
	line, err := lifeline.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		return fmt.Errorf("read what to raise: %w", err)
	}
	allowed := make(chan struct{})
	go watch(lifeline, allowed)
	go endOnTerm()
	unix.Umask(0o022) // whatever the person's own is
	control, err := listen(s)
	if err != nil {
		return err
	}

	// Nobody listens any more if telling fails, and watch sees to that.
	tell := func(e Event) { _ = events.Encode(e) }
	c, err := raise(s, tell)
	if err != nil {
		tell(Event{Error: err.Error()})
		return err
	}
	tell(Event{Done: true})
	<-allowed
	os.NewFile(eventsFD, "events").Close()
	return c.serve(control)
}

// watch ends the keeper, and with it the cluster, if `up` dies before it said
// stay.
func watch(lifeline *bufio.Reader, allowed chan<- struct{}) {
	word, err := lifeline.ReadString('\n')
	if word != stay {
		fmt.Fprintln(os.Stderr, "minicluster: keeper: up is gone before the cluster was up:", err)
		os.Exit(1)
	}
	close(allowed)
}

// endOnTerm makes the keeper end when the machine is shut down politely. As PID 1
// it would not get a signal that it does not handle.
func endOnTerm() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM, unix.SIGINT)
	<-term
	os.Exit(0)
}
