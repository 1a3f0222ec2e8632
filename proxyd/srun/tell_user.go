// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Slurm ends the sruns of a job that it requeues, and refuses new sruns, a moment before it tells the node. If a script
// saw such an srun fail, the checkpoint would have a script that knows of a failure, though its job goes on. So a
// runner asks proxyd before it tells the user of a failure:
//
//	runner                                       proxyd, spank.sock
//	srun-failed version=1 dir=… ───────────────► does Slurm take the job away?
//	tells the user                          ◄──  ok
//	is silent; sing-srun asks again         ◄──  no
//
// The same rule holds for messages of a failure that srun prints while it still runs; the verb is srun-message.
// proxyd/nodesocket/message.go has the other end.
const (
	verbFailed  = "srun-failed"
	verbMessage = "srun-message"

	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	askTime    = 15 * time.Second // a daemon that is being started again is back by then
	answerTime = 30 * time.Second
)

// mayTellUser asks proxyd whether the user may be told of a failure of the srun with the folder
// dir. Without an answer the user is told.
func mayTellUser(socket, verb, dir string) bool {
	end := time.Now().Add(askTime)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		tell, err := askProxyd(socket, verb, dir)
		if err == nil {
			return tell
		}
		if time.Now().After(end) {
			return true
		}
		<-time.After(pause)
	}
}

func askProxyd(socket, verb, dir string) (bool, error) {
	c, err := localsock.Dial(socket)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
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
