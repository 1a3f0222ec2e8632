// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"sync"
	"time"
)

// folderPatience is how long a check waits for the file system of a folder.
const folderPatience = 10 * time.Second

// folderLooks are the looks at folders that have not ended. While the server of a file system is dead, a look does not
// end, and keeps a thread: so a check that is repeated does not begin a second look.
type folderLooks struct {
	mu    sync.Mutex
	ended map[string]chan struct{} // by the name of the look; closed when the look ends
}

// looks are those of this process: a look that hangs outlives the Probe that began it.
var looks = folderLooks{ended: make(map[string]chan struct{})}

// beginLook calls look in a goroutine, unless a look of that name is under way: then beginLook returns the channel that is
// closed at the end of that look.
func (l *folderLooks) beginLook(name string, look func()) (before <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, isUnderWay := l.ended[name]; isUnderWay {
		return before
	}
	ended := make(chan struct{})
	l.ended[name] = ended
	go func() {
		look()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ended, name)
		close(ended)
	}()
	return nil
}

// checkFolder returns the finding of look, or f with level if the folder's file system does not answer in time.
func (n *node) checkFolder(f Finding, level Level, folder string, look func() Finding) Finding {
	timeout := time.NewTimer(n.patience)
	defer timeout.Stop()
	silent := func() Finding {
		return f.withProblem(level, fmt.Sprintf("%s: its file system does not answer within %s", folder, n.patience),
			"see its file server, and the network to the server: processes that use the folder wait until it answers")
	}
	findings := make(chan Finding, 1)
	for {
		before := looks.beginLook(f.Name+" "+folder, func() { findings <- look() })
		if before == nil {
			break
		}
		select {
		case <-before:
		case <-timeout.C:
			return silent()
		}
	}
	select {
	case found := <-findings:
		return found
	case <-timeout.C:
		return silent()
	}
}
