// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// heartbeat is the record that a claim's owner writes into the claim, repeatedly.
type heartbeat struct {
	Owner string `json:"owner"`
	Count uint64 `json:"count"`
	What  string `json:"what"`            // for people: the checkpoint
	Bytes uint64 `json:"bytes,omitempty"` // of a reservation: bytes that are still reserved
}

const maxBeat = 64 << 10

// claim is a claim that this process holds.
type claim struct {
	st     *Store
	name   claimName
	folder string // the claim's folder, if it is not name's
	what   string
	cancel context.CancelFunc
	ended  chan struct{} // closed when beating has stopped

	mu    sync.Mutex
	bytes uint64
	lost  error // why the claim is no longer held
}

// acquireClaim registers a claim under the current generation. onLost is called once, from another
// goroutine, if other processes declare this process dead.
func (s *Store) acquireClaim(ctx context.Context, kind claimKind, what string, bytes uint64, onLost func(error)) (*claim, error) {
	g, err := s.currentGeneration(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	l := &claim{st: s, name: claimName{g, kind, uniqueName()}, what: what, bytes: bytes, ended: make(chan struct{})}
	if err := s.be.Mkdir(ctx, l.name.folderPath()); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	if err := l.writeHeartbeat(ctx, 0); err != nil {
		cancel()
		close(l.ended)
		return nil, fmt.Errorf("claim: %w", errors.Join(err, l.releaseClaim(ctx)))
	}
	go l.sendHeartbeats(beating, onLost)
	return l, nil
}

// currentGeneration returns the current generation.
func (s *Store) currentGeneration(ctx context.Context) (generationNumber, error) {
	names, err := s.listNames(ctx, generationsDir)
	var current generationNumber
	for _, n := range names {
		if g, ok := parseGeneration(n); ok {
			current = max(current, g)
		}
	}
	return current, err
}

// sendHeartbeats writes beats until the claim is released or lost. After another error the next beat is written as
// usual: the store's folder may come back before the claim expires.
func (l *claim) sendHeartbeats(ctx context.Context, onLost func(error)) {
	defer close(l.ended)
	tick := time.NewTicker(l.st.opt.Beat)
	defer tick.Stop()
	for count := uint64(1); ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := l.writeHeartbeat(ctx, count); errors.Is(err, fs.ErrNotExist) {
			l.mu.Lock()
			l.lost = ErrFenced
			l.mu.Unlock()
			onLost(ErrFenced)
			return
		}
	}
}

func (l *claim) writeHeartbeat(ctx context.Context, count uint64) error {
	l.mu.Lock()
	b := heartbeat{l.st.opt.Owner, count, l.what, l.bytes}
	l.mu.Unlock()
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return l.st.be.Put(ctx, File{l.beatFile(), text})
}

// setBytes sets the reserved bytes that the next beat states.
func (l *claim) setBytes(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = n
}

// releaseClaim ends the claim, even if ctx is done. A claim that other processes have removed is no
// error.
func (l *claim) releaseClaim(ctx context.Context) error {
	l.cancel()
	<-l.ended
	return l.st.removeFolder(context.WithoutCancel(ctx), l.folderPath())
}

func (l *claim) folderPath() string {
	if l.folder != "" {
		return l.folder
	}
	return l.name.folderPath()
}

func (l *claim) beatFile() string { return l.folderPath() + "/beat" }

// Fence ends every upload of a checkpoint, on any node: each upload has committed before, or fails with ErrFenced. An
// upload that begins later is not affected; after Create, an uploader must find out by other means whether the
// checkpoint is still wanted.
func (s *Store) Fence(ctx context.Context, id ID) error {
	names, err := s.listNames(ctx, claimsDir)
	if err != nil {
		return fmt.Errorf("fence %s: %w", id, err)
	}
	for _, text := range names {
		name, ok := parseClaim(text)
		if !ok || name.kind != uploadClaim {
			continue
		}
		b, _, err := s.readHeartbeat(ctx, name.folderPath(), name.beatPath())
		if err == nil && b.What == id.String() {
			err = s.removeFolder(ctx, name.folderPath())
		}
		if err != nil {
			return fmt.Errorf("fence %s: %w", id, err)
		}
	}
	return nil
}

// removeFolder removes a folder of files, also while other processes put files there. If the error is nil, no move out
// of the folder or into it can succeed any more: this is the fence.
func (s *Store) removeFolder(ctx context.Context, dir string) error {
	const rounds = 1000
	for range rounds {
		names, err := s.listNames(ctx, dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := s.be.Remove(ctx, dir+"/"+n); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		err = s.be.Remove(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, ErrNotEmpty) {
			return err
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
}

// heldClaim is a claim of any process.
type heldClaim struct {
	name claimName
	beat heartbeat
}

// liveClaims returns the claims of owners that are not known to be dead, and fences the others. A name that is not a
// claim's is an error: the name might belong to a later version.
func (s *Store) liveClaims(ctx context.Context) ([]heldClaim, error) {
	names, err := s.listNames(ctx, claimsDir)
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	var live []heldClaim
	present := make(map[string]bool)
	for _, text := range names {
		name, ok := parseClaim(text)
		if !ok {
			return nil, fmt.Errorf("claim %.120q: unknown name", text)
		}
		present[name.folderPath()] = true
		b, dead, err := s.readHeartbeat(ctx, name.folderPath(), name.beatPath())
		if err != nil {
			return nil, err
		}
		if !dead {
			live = append(live, heldClaim{name, b})
		} else if err := s.removeFolder(ctx, name.folderPath()); err != nil {
			return nil, fmt.Errorf("claim %s: fence: %w", name, err)
		}
	}
	s.watch.forgetAbsent(claimsDir+"/", present)
	return live, nil
}

// readHeartbeat reads a beat and tells whether its owner is dead.
func (s *Store) readHeartbeat(ctx context.Context, folder, file string) (b heartbeat, dead bool, err error) {
	text, err := s.be.Get(ctx, file, maxBeat, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, false, fmt.Errorf("%s: %w", folder, err)
	}
	// No beat, or a beat of another version: it counts as a claim until the bytes stop changing.
	if json.Unmarshal(text, &b) == nil && s.opt.OwnerGone(b.Owner) {
		return b, true, nil
	}
	return b, s.watch.isDead(folder, string(text), s.opt.Now()), nil
}
