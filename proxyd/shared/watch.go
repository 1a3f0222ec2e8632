// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrSilent is returned by Watch.CheckNow while a look at the shared folder takes too long.
var ErrSilent = errors.New("its file system does not answer")

// checkPatience is the time that a look at the shared folder may take.
const checkPatience = 5 * time.Second

// Watch looks at the shared folder for several callers with a single system call at a time: while the
// server of the file system is dead, each call would hang for ever, and keep a thread. The zero Watch is ready for use, by
// concurrent callers.
type Watch struct {
	mu   sync.Mutex
	look *checkAnswer // the call in progress; nil: no call is
}

// checkAnswer is the result of a look at the shared folder.
type checkAnswer struct {
	done chan struct{} // closed when err is set
	err  error
}

// CheckNow calls check, or waits for the call in progress, and returns the result of that call. The error is ErrSilent if
// there is no result within 5 s.
func (w *Watch) CheckNow(ctx context.Context, check func() error) error {
	w.mu.Lock()
	look := w.look
	if look == nil {
		look = &checkAnswer{done: make(chan struct{})}
		w.look = look
		go func() {
			look.err = check()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.look = nil
			close(look.done)
		}()
	}
	w.mu.Unlock()
	timeout := time.NewTimer(checkPatience)
	defer timeout.Stop()
	select {
	case <-look.done:
		return look.err
	case <-timeout.C:
		return ErrSilent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
