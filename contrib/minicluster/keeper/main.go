// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// stay is the word on the lifeline by which the keeper may outlive `up`.
const stay = "stay\n"

// Main is the keeper's life. Main returns when the cluster could not be raised.
func Main() error {
	lifeline := bufio.NewReader(os.NewFile(lifelineFD, "lifeline"))
	eventsFile := os.NewFile(eventsFD, "events")
	events := json.NewEncoder(eventsFile)
	var s Spec
	line, err := lifeline.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		return fmt.Errorf("read what to raise: %w", err)
	}
	allowed := make(chan struct{})
	go watchLifeline(lifeline, allowed)
	go endOnTerm()
	// If telling fails, `up` does not listen any more, and watchLifeline ends the keeper.
	tell := func(e Event) { _ = events.Encode(e) }
	c, control, err := beginCluster(s, tell)
	if err != nil {
		tell(Event{Error: err.Error()})
		return err
	}
	tell(Event{Done: true})
	<-allowed
	eventsFile.Close()
	return c.serveRequests(control)
}

func beginCluster(s Spec, tell func(Event)) (*cluster, *net.UnixListener, error) {
	if err := forgetCaller(); err != nil {
		return nil, nil, err
	}
	control, err := listenControl(s)
	if err != nil {
		return nil, nil, err
	}
	c, err := raiseCluster(s, tell)
	return c, control, err
}

// forgetCaller gives the daemons the umask, priority and limits of a machine that boots, in the
// place of those of the user that typed `up`.
func forgetCaller() error {
	unix.Umask(0o022)
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0); err != nil {
		return fmt.Errorf("set the priority: %w", err)
	}
	for _, l := range []struct {
		what int
		want uint64
	}{{unix.RLIMIT_NOFILE, 65536}, {unix.RLIMIT_STACK, 8 << 20}, {unix.RLIMIT_CORE, 0}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("read a resource limit: %w", err)
		}
		now.Cur = min(l.want, now.Max) // only the hard limit of the caller stays
		if err := unix.Setrlimit(l.what, &now); err != nil {
			return fmt.Errorf("set a resource limit: %w", err)
		}
	}
	return nil
}

// watchLifeline ends the keeper, and with the keeper the cluster, if `up` dies before it has
// written stay.
func watchLifeline(lifeline *bufio.Reader, allowed chan<- struct{}) {
	word, err := lifeline.ReadString('\n')
	if word != stay {
		fmt.Fprintln(os.Stderr, "minicluster: keeper: up is gone before the cluster was up:", err)
		os.Exit(1)
	}
	close(allowed)
}

// endOnTerm makes the keeper end when the machine is shut down politely. As PID 1 the keeper
// would not get a signal without a handler.
func endOnTerm() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM, unix.SIGINT)
	<-term
	os.Exit(0)
}
