// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Slurm ends the sruns of a job that it requeues, and refuses new ones, a moment before
// it tells the node. A script that saw one of them fail would be captured with a failure
// that its job never had. So a runner asks before it tells of a failure:
//
//	runner                                       proxyd, spank.sock
//	ended version=1 dir=… ─────────────────────► does Slurm take the job away?
//	tells                                   ◄──  ok
//	is silent; sing-srun asks again         ◄──  no
//
// What srun says of a failure while it still runs is told by the same rule; the verb is
// "says".
const (
	mayFirst = 50 * time.Millisecond
	mayLast  = time.Second
	mayWhole = 15 * time.Second // a daemon that is being started again is back by then
	mayWait  = 30 * time.Second // for an answer
)

func askMay(socket, verb, dir string) bool {
	give := time.Now().Add(mayWhole)
	for pause := mayFirst; ; pause = min(2*pause, mayLast) {
		told, err := askOnce(socket, verb, dir)
		if err == nil {
			return told
		}
		if time.Now().After(give) {
			return true
		}
		<-time.After(pause)
	}
}

func askOnce(socket, verb, dir string) (bool, error) {
	c, err := localsock.Dial(socket)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(mayWait)); err != nil {
		return false, err
	}
	if _, err := fmt.Fprintf(c, "%s\x00version=1\x00dir=%s\x00", verb, dir); err != nil {
		return false, err
	}
	b := make([]byte, maxReason)
	n, err := c.Read(b)
	if err != nil || n < 3 {
		return false, fmt.Errorf("no answer: %w", err)
	}
	return string(b[:3]) == "ok\x00", nil
}
